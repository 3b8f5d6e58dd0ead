//! The low watermark beside transactions that begin, read the clock and commit in every order.
//!
//! The policy is the real one; the model is of PostgreSQL: who gets which xid, what a snapshot
//! shows, and what the functions of the schema promise of the rows. Left out are clocks that are
//! set back, which a full scan makes good.

use std::time::{Duration, SystemTime};

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::{LowWatermark, Snapshot};

const TRANSACTIONS: usize = 2;
const TICKS: u64 = 3;
const PEEKS: u8 = 3;

/// What may be taken for granted, and is not, so that the watermark passes a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// A transaction reads the clock before it has an xid.
    ReadsBeforeItsNumber,
    /// A peek does not see leased tokens, which may come back to their places.
    LeasesAreUnseen,
    /// A snapshot's xmax is taken for an xid above those of all that are open.
    SnapshotIsANumber,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    mistake: Option<Mistake>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    clock: u64,
    next_xid: i64,
    /// The highest xid of a transaction that has ended.
    ended: i64,
    tokens: [Token; TRANSACTIONS],
    peek: Option<Peek>,
    peeks: u8,
    watermark: LowWatermark,
}

/// A token, and the transaction that makes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Token {
    xid: Option<i64>,
    due: Option<u64>,
    place: Place,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Place {
    #[default]
    Uncommitted,
    Waiting,
    Leased,
    Gone,
}

/// A peek that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Peek {
    at: u64,
    /// The oldest token in view, xmin and xmax.
    seen: Option<(Option<u64>, i64, i64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Tick,
    Number(usize),
    ReadClock(usize),
    Commit(usize),
    Claim(usize),
    PutBack(usize),
    Settle(usize),
    Peek,
}

fn at(second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(second)
}

impl Model for Queue {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            clock: 1,
            next_xid: 1,
            ended: 0,
            tokens: Default::default(),
            peek: None,
            peeks: 0,
            watermark: LowWatermark::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let reads_early = self.mistake == Some(Mistake::ReadsBeforeItsNumber);
        for (index, token) in state.tokens.iter().enumerate() {
            let is_numbered = token.xid.is_some();
            let possible = [
                (!is_numbered, Action::Number(index)),
                (token.due.is_none() && (is_numbered || reads_early), Action::ReadClock(index)),
                (
                    is_numbered && token.due.is_some() && token.place == Place::Uncommitted,
                    Action::Commit(index),
                ),
                (token.place == Place::Waiting, Action::Claim(index)),
                (token.place == Place::Leased, Action::PutBack(index)),
                (token.place == Place::Leased, Action::Settle(index)),
            ];
            actions.extend(possible.into_iter().filter(|(is, _)| *is).map(|(_, action)| action));
        }
        if state.clock < TICKS {
            actions.push(Action::Tick);
        }
        if state.peek.is_some() || state.peeks < PEEKS {
            actions.push(Action::Peek);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        match action {
            Action::Tick => next.clock += 1,
            Action::Number(index) => next.tokens[index].xid = Some(next.number()),
            Action::ReadClock(index) => next.tokens[index].due = Some(next.clock),
            Action::Commit(index) => {
                next.ended = next.ended.max(next.tokens[index].xid?);
                next.tokens[index].place = Place::Waiting;
            }
            Action::Claim(index) => next.tokens[index].place = Place::Leased,
            Action::PutBack(index) => next.tokens[index].place = Place::Waiting,
            Action::Settle(index) => next.tokens[index].place = Place::Gone,
            Action::Peek => self.peek(&mut next),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no token is older than the watermark", |_, state: &State| {
                let since = state.watermark.since;
                let left = state.tokens.iter().filter(|token| token.place != Place::Gone);
                left.filter_map(|token| token.due).all(|due| since.is_none_or(|it| at(due) >= it))
            }),
            // Else it would prove nothing.
            Property::sometimes("the watermark moves to the present", |_, state: &State| {
                state.watermark.since == Some(at(TICKS))
            }),
        ]
    }
}

impl State {
    fn number(&mut self) -> i64 {
        self.next_xid += 1;
        self.next_xid - 1
    }
}

impl Queue {
    /// The next part of a peek: it reads the clock, takes a snapshot, and has an xid assigned.
    fn peek(self, state: &mut State) {
        let Some(peek) = state.peek.take() else {
            state.peeks += 1;
            state.peek = Some(Peek { at: state.clock, seen: None });
            return;
        };
        let Some((oldest, xmin, xmax)) = peek.seen else {
            let is_open = |token: &&Token| token.place == Place::Uncommitted;
            let open = state.tokens.iter().filter(is_open).filter_map(|token| token.xid);
            let xmax = state.ended + 1;
            let xmin = open.filter(|xid| *xid < xmax).min().unwrap_or(xmax);
            let sees_leases = self.mistake != Some(Mistake::LeasesAreUnseen);
            let in_view = state.tokens.iter().filter(|token| {
                token.place == Place::Waiting || token.place == Place::Leased && sees_leases
            });
            let oldest = in_view.filter_map(|token| token.due).min();
            state.peek = Some(Peek { seen: Some((oldest, xmin, xmax)), ..peek });
            return;
        };
        let is_new = xmax > state.watermark.assigned_xid + 1;
        let assigned_xid = if self.mistake == Some(Mistake::SnapshotIsANumber) {
            Some(xmax)
        } else {
            is_new.then(|| state.number())
        };
        if self.mistake != Some(Mistake::SnapshotIsANumber) {
            state.ended = state.ended.max(assigned_xid.unwrap_or_default());
        }
        state.watermark.observe(Snapshot {
            at: at(peek.at),
            oldest: oldest.map(at),
            xmin,
            xmax,
            assigned_xid,
        });
    }
}

#[test]
fn the_watermark_passes_no_token_in_any_order_of_transactions() {
    let checker = Queue { mistake: None }.checker().spawn_bfs().join();
    checker.assert_properties();
    println!("{} states", checker.unique_state_count());
}

#[test]
fn without_one_of_its_premises_the_watermark_passes_a_token() {
    for mistake in
        [Mistake::ReadsBeforeItsNumber, Mistake::LeasesAreUnseen, Mistake::SnapshotIsANumber]
    {
        let checker = Queue { mistake: Some(mistake) }
            .checker()
            .finish_when(HasDiscoveries::AnyFailures)
            .spawn_bfs()
            .join();
        let found = checker.discovery("no token is older than the watermark");
        assert!(found.is_some(), "{mistake:?} breaks nothing");
    }
}
