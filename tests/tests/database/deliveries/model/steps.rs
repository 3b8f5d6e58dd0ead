//! What may happen.

use mailroom::queue::ClaimRequest;
use proptest::prelude::*;

use super::{ACCOUNTS, COLLECTORS};

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Makes a token that lives for so many seconds.
    Insert {
        account: i64,
        recovery: bool,
        lifetime: i64,
    },
    /// The same in a transaction that stays open.
    InsertLate {
        account: i64,
        recovery: bool,
    },
    /// Ends the open transaction of the inserts.
    EndLate {
        commits: bool,
    },
    SetStatus {
        account: i64,
        status: &'static str,
    },
    /// The same in a transaction that stays open.
    SetStatusLate {
        account: i64,
        status: &'static str,
    },
    EndStatus {
        commits: bool,
    },
    Consume {
        nth: usize,
    },
    Delete {
        nth: usize,
    },
    Claim {
        collector: usize,
        want: ClaimRequest,
    },
    /// A claim whose future is dropped after so many microseconds.
    DropClaim {
        collector: usize,
        limit: usize,
        after: u64,
    },
    /// What becomes of the tokens of a batch, by turns.
    Settle {
        collector: usize,
        nth: usize,
        outcomes: Vec<u8>,
    },
    Release {
        collector: usize,
        nth: usize,
    },
    Tend {
        collector: usize,
    },
    Prospect {
        collector: usize,
    },
    /// The server ends its connection.
    Disconnect {
        collector: usize,
    },
    /// The process ends, and another one begins.
    Crash {
        collector: usize,
    },
    Retry,
    Turn {
        seconds: i64,
    },
    /// Two collectors and an application, at the same time.
    Together {
        first: (usize, Act),
        second: (usize, Act),
        beside: Beside,
    },
}

/// What a collector asks for by one call.
#[derive(Clone, Debug)]
pub(super) enum Act {
    SettleAndClaim { settles: Option<(usize, Vec<u8>)>, want: Option<ClaimRequest> },
    Release { nth: usize },
    Tend,
    Prospect,
}

/// What an application does, or an operator, by one statement.
#[derive(Clone, Debug)]
pub(super) enum Beside {
    Nothing,
    EndLate { commits: bool },
    SetStatus { account: i64, status: &'static str },
    Consume { nth: usize },
    Delete { nth: usize },
    Retry,
}

fn status() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("active"), Just("suspended")]
}

fn outcomes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..9_u8, 1..4)
}

fn want() -> impl Strategy<Value = ClaimRequest> {
    (1..4_usize, 1..5_usize, any::<bool>(), any::<bool>())
        .prop_map(|(batches, limit, partial, rescan)| ClaimRequest { batches, limit, partial, rescan })
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (prop::option::of((any::<usize>(), outcomes())), prop::option::weighted(0.8, want()))
            .prop_map(|(settles, want)| Act::SettleAndClaim { settles, want }),
        1 => any::<usize>().prop_map(|nth| Act::Release { nth }),
        3 => Just(Act::Tend),
        1 => Just(Act::Prospect),
    ]
}

fn together() -> impl Strategy<Value = Step> {
    let beside = prop_oneof![
        3 => Just(Beside::Nothing),
        1 => any::<bool>().prop_map(|commits| Beside::EndLate { commits }),
        2 => (1..=ACCOUNTS, status()).prop_map(|(account, status)| Beside::SetStatus { account, status }),
        1 => any::<usize>().prop_map(|nth| Beside::Consume { nth }),
        1 => any::<usize>().prop_map(|nth| Beside::Delete { nth }),
        1 => Just(Beside::Retry),
    ];
    (0..COLLECTORS, 1..COLLECTORS, act(), act(), beside).prop_map(|(one, apart, first, second, beside)| {
        Step::Together { first: (one, first), second: ((one + apart) % COLLECTORS, second), beside }
    })
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let account = 1..=ACCOUNTS;
    let collector = 0..COLLECTORS;
    let step = prop_oneof![
        6 => (account.clone(), any::<bool>(), prop_oneof![Just(20), Just(35), Just(200), Just(100_000)])
            .prop_map(|(account, recovery, lifetime)| Step::Insert { account, recovery, lifetime }),
        2 => (account.clone(), any::<bool>()).prop_map(|(account, recovery)| Step::InsertLate { account, recovery }),
        2 => any::<bool>().prop_map(|commits| Step::EndLate { commits }),
        2 => (account.clone(), status()).prop_map(|(account, status)| Step::SetStatus { account, status }),
        1 => (account, status()).prop_map(|(account, status)| Step::SetStatusLate { account, status }),
        2 => any::<bool>().prop_map(|commits| Step::EndStatus { commits }),
        1 => any::<usize>().prop_map(|nth| Step::Consume { nth }),
        1 => any::<usize>().prop_map(|nth| Step::Delete { nth }),
        7 => (collector.clone(), want()).prop_map(|(collector, want)| Step::Claim { collector, want }),
        8 => together(),
        1 => (collector.clone(), 1..5_usize, 0..4_000_u64)
            .prop_map(|(collector, limit, after)| Step::DropClaim { collector, limit, after }),
        6 => (collector.clone(), any::<usize>(), outcomes())
            .prop_map(|(collector, nth, outcomes)| Step::Settle { collector, nth, outcomes }),
        1 => (collector.clone(), any::<usize>()).prop_map(|(collector, nth)| Step::Release { collector, nth }),
        2 => collector.clone().prop_map(|collector| Step::Tend { collector }),
        2 => collector.clone().prop_map(|collector| Step::Prospect { collector }),
        1 => collector.clone().prop_map(|collector| Step::Disconnect { collector }),
        1 => collector.prop_map(|collector| Step::Crash { collector }),
        1 => Just(Step::Retry),
        3 => prop_oneof![Just(-3), Just(1), Just(5), Just(40), Just(95)].prop_map(|seconds| Step::Turn { seconds }),
    ];
    prop::collection::vec(step, 1..60)
}
