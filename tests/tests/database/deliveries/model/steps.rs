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
    /// What an application or an operator does at once, or in a transaction that stays open.
    Apply {
        work: Work,
        late: bool,
    },
    /// Ends that transaction.
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
    Heartbeat {
        collector: usize,
    },
    Peek {
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

/// By one statement.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Insert {
        account: i64,
        recovery: bool,
    },
    /// A mail with a payload, to be delivered in so many seconds.
    Enqueue {
        account: i64,
        action: &'static str,
        later: i64,
    },
    Consume {
        nth: usize,
    },
    Redeem {
        nth: usize,
    },
    Cancel {
        nth: usize,
    },
    Delete {
        nth: usize,
    },
    Retry {
        in_doubt: bool,
    },
    Prune,
}

/// What a collector asks for by one call.
#[derive(Clone, Debug)]
pub(super) enum Act {
    SettleAndClaim { settles: Option<(usize, Vec<u8>)>, want: Option<ClaimRequest> },
    Release { nth: usize },
    Heartbeat,
    Peek,
}

/// What an application does, or an operator, by one statement.
#[derive(Clone, Debug)]
pub(super) enum Beside {
    Nothing,
    EndLate { commits: bool },
    SetStatus { account: i64, status: &'static str },
    Apply(Work),
}

fn status() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("active"), Just("suspended")]
}

fn outcomes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..11_u8, 1..4)
}

fn want() -> impl Strategy<Value = ClaimRequest> {
    (1..4_usize, 1..5_usize, any::<bool>(), any::<bool>()).prop_map(
        |(batches, limit, partial, rescan)| ClaimRequest {
            batches,
            limit,
            partial,
            rescan,
            spares_doubtful: false,
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (prop::option::of((any::<usize>(), outcomes())), prop::option::weighted(0.8, want()))
            .prop_map(|(settles, want)| Act::SettleAndClaim { settles, want }),
        1 => any::<usize>().prop_map(|nth| Act::Release { nth }),
        3 => Just(Act::Heartbeat),
        1 => Just(Act::Peek),
    ]
}

/// What makes no token.
fn ending() -> impl Strategy<Value = Work> {
    prop_oneof![
        1 => any::<usize>().prop_map(|nth| Work::Consume { nth }),
        1 => any::<usize>().prop_map(|nth| Work::Redeem { nth }),
        1 => any::<usize>().prop_map(|nth| Work::Cancel { nth }),
        1 => any::<usize>().prop_map(|nth| Work::Delete { nth }),
        1 => any::<bool>().prop_map(|in_doubt| Work::Retry { in_doubt }),
        1 => Just(Work::Prune),
    ]
}

fn work() -> impl Strategy<Value = Work> {
    let account = 1..=ACCOUNTS;
    let action = prop_oneof![Just("notice"), Just("sign_in")];
    prop_oneof![
        2 => (account.clone(), any::<bool>())
            .prop_map(|(account, recovery)| Work::Insert { account, recovery }),
        2 => (account, action, prop_oneof![Just(0), Just(20)])
            .prop_map(|(account, action, later)| Work::Enqueue { account, action, later }),
        4 => ending(),
    ]
}

fn together() -> impl Strategy<Value = Step> {
    let beside = prop_oneof![
        3 => Just(Beside::Nothing),
        1 => any::<bool>().prop_map(|commits| Beside::EndLate { commits }),
        2 => (1..=ACCOUNTS, status())
            .prop_map(|(account, status)| Beside::SetStatus { account, status }),
        4 => ending().prop_map(Beside::Apply),
    ];
    (0..COLLECTORS, 1..COLLECTORS, act(), act(), beside).prop_map(
        |(one, apart, first, second, beside)| Step::Together {
            first: (one, first),
            second: ((one + apart) % COLLECTORS, second),
            beside,
        },
    )
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let account = 1..=ACCOUNTS;
    let collector = 0..COLLECTORS;
    let lifetime = prop_oneof![Just(20), Just(35), Just(200), Just(100_000)];
    let seconds = prop_oneof![
        1 => Just(-3),
        3 => Just(1),
        3 => Just(5),
        3 => Just(40),
        3 => Just(95),
        1 => Just(300_000),
    ];
    let step = prop_oneof![
        6 => (account.clone(), any::<bool>(), lifetime)
            .prop_map(|(account, recovery, lifetime)| Step::Insert { account, recovery, lifetime }),
        3 => work().prop_map(|work| Step::Apply { work, late: false }),
        4 => work().prop_map(|work| Step::Apply { work, late: true }),
        2 => any::<bool>().prop_map(|commits| Step::EndLate { commits }),
        2 => (account.clone(), status())
            .prop_map(|(account, status)| Step::SetStatus { account, status }),
        1 => (account, status())
            .prop_map(|(account, status)| Step::SetStatusLate { account, status }),
        2 => any::<bool>().prop_map(|commits| Step::EndStatus { commits }),
        7 => (collector.clone(), want())
            .prop_map(|(collector, want)| Step::Claim { collector, want }),
        8 => together(),
        1 => (collector.clone(), 1..5_usize, 0..4_000_u64)
            .prop_map(|(collector, limit, after)| Step::DropClaim { collector, limit, after }),
        6 => (collector.clone(), any::<usize>(), outcomes())
            .prop_map(|(collector, nth, outcomes)| Step::Settle { collector, nth, outcomes }),
        1 => (collector.clone(), any::<usize>())
            .prop_map(|(collector, nth)| Step::Release { collector, nth }),
        2 => collector.clone().prop_map(|collector| Step::Heartbeat { collector }),
        2 => collector.clone().prop_map(|collector| Step::Peek { collector }),
        1 => collector.clone().prop_map(|collector| Step::Disconnect { collector }),
        1 => collector.prop_map(|collector| Step::Crash { collector }),
        3 => seconds.prop_map(|seconds| Step::Turn { seconds }),
    ];
    prop::collection::vec(step, 1..60)
}
