//! Random histories of the cursor's state and of reading against one rule: every token that the
//! cursor has passed was sent, or the next process can find it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use proptest::prelude::*;

use super::session::Page;
use super::state::CursorState;
use crate::queue::{BatchId, Token};

/// More than the steps of the longest history, so that there is something new
/// to claim at every step.
const TOKENS: i64 = 96;

/// The longest time without reading what is deferred.
const POLL: i64 = 8;

/// What happens, and two numbers that say to which rows, lines or accounts.
type Step = (&'static str, usize, usize);

fn step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![
        8 => Just("claim"),
        6 => Just("take"),
        1 => Just("settle without a line"),
        2 => Just("cancel unsent"),
        6 => Just("record"),
        1 => Just("suspend"),
        3 => Just("restore"),
        1 => Just("set back"),
        1 => Just("kill"),
    ];
    (what, 0..12_usize, 0..8_usize)
}

/// A collector without a server: what the database holds, and what the reader has.
#[derive(Debug, Default)]
struct Model {
    now: i64,
    state: CursorState,
    scanned: i64,
    /// What `jobs.last_seq` holds.
    cursor: i64,
    /// Accounts with the wrong status.
    ineligible: BTreeSet<i64>,
    /// When accounts changed their status last.
    changed: BTreeMap<i64, i64>,
    /// Lines on their way, and batches without a line.
    in_flight: BTreeMap<BatchId, Vec<i64>>,
    last_batch: u128,
    /// Tokens that the reader has, or that were passed for good with a reason.
    done: BTreeSet<i64>,
}

impl Model {
    fn page(&self, ids: impl Iterator<Item = i64>, through: i64) -> Page {
        let (ineligible, eligible): (Vec<_>, Vec<_>) =
            ids.partition(|id| self.ineligible.contains(id));
        let tokens = eligible.into_iter().map(|id| Token::example(id, b"")).collect();
        Page { tokens, ineligible, through, rows: 0 }
    }

    /// As `CursorQueue::claim` does it; returns whether there may be more to claim.
    fn claim(&mut self, rows: usize, limit: usize) -> bool {
        let ahead = &self.state.ahead;
        if ahead.late_len() < limit && ahead.is_deferred_due || self.now - self.scanned >= POLL {
            self.rescan(limit);
        }
        let newest = self.now.min(TOKENS);
        let read = self.state.ahead.read;
        let last = (read + i64::try_from(rows).unwrap()).min(newest);
        if self.state.ahead.len() < limit {
            let page = self.page(read + 1..=last, last.max(read));
            self.state.ahead.add(page, Instant::now());
        }
        self.last_batch += 1;
        let batch = BatchId::from(self.last_batch);
        let Some(tokens) = self.state.claim(batch, limit, true) else { return last < newest };
        self.in_flight.insert(batch, tokens.iter().map(|token| token.id).collect());
        true
    }

    /// As `CursorQueue::rescan` does it, two tokens at a time.
    fn rescan(&mut self, enough: usize) {
        self.state.ahead.start_at(self.state.claimed_through());
        let mut part = self.state.ahead.deferred_after(i64::MIN, 2);
        while let Some(last) = part.last().copied()
            && self.state.ahead.len() < enough
        {
            let page = self.page(part.iter().copied(), 0);
            self.state.ahead.add_deferred(page, &part, Instant::now());
            part = self.state.ahead.deferred_after(last, 2);
        }
        self.state.ahead.is_deferred_due = !part.is_empty();
        self.scanned = self.now;
    }

    /// What `recover_skipped.sql` finds before the cursor.
    fn is_skipped(&self, id: i64) -> bool {
        let changed = self.changed.get(&id);
        self.ineligible.contains(&id)
            || changed.is_some_and(|changed| *changed >= id && *changed >= self.cursor - POLL)
    }

    fn settle(&mut self, batch: Option<BatchId>) {
        let Some(batch) = batch else { return };
        self.done.extend(self.in_flight.remove(&batch).unwrap());
        self.state.settle(&[batch]);
    }

    fn cancel_unsent(&mut self, kept: usize) {
        let released: Vec<_> = self.in_flight.keys().copied().skip(kept).collect();
        self.in_flight.retain(|batch, _| !released.contains(batch));
        self.state.release(&released);
    }

    /// Writes the cursor; the answer comes or not, and if not, the statement was executed or not.
    fn record(&mut self, is_answered: bool, is_executed: bool) {
        let Some((_, to)) = self.state.begin_advance() else { return };
        if is_answered || is_executed {
            self.cursor = to;
        }
        if is_answered {
            self.state.advanced(to);
        } else {
            self.cancel_unsent(1);
            self.state.resume(self.cursor);
        }
    }

    /// A new session finds a cursor that somebody has moved.
    /// Lines that were sent before go on to the reader.
    fn set_back(&mut self, by: i64) {
        self.cursor = (self.cursor - by).max(0);
        if self.state.resume(self.cursor) {
            self.recover_skipped();
        }
    }

    fn begin_anew(&mut self) {
        self.in_flight.clear();
        self.state = CursorState::at(self.cursor);
        self.recover_skipped();
    }

    fn recover_skipped(&mut self) {
        self.scanned = self.now;
        let skipped: Vec<_> = (1..=self.cursor).filter(|id| self.is_skipped(*id)).collect();
        self.state.ahead.put_back(skipped);
    }

    fn act(&mut self, (what, some, other): Step) {
        self.now += 1;
        match what {
            "claim" => _ = self.claim(1 + some % 8, 1 + other % 4),
            // The reader takes the oldest line.
            "take" => self.settle(self.in_flight.keys().next().copied()),
            // While earlier batches wait.
            "settle without a line" => {
                self.settle(self.in_flight.keys().rev().nth(some % 3).copied());
            }
            "cancel unsent" => self.cancel_unsent(some % 3),
            "record" => self.record(some % 2 == 0, other % 2 == 0),
            // An account gets the wrong status.
            "suspend" => {
                let id = i64::try_from(1 + 8 * some + other).unwrap();
                if self.ineligible.insert(id) {
                    self.changed.insert(id, self.now);
                }
            }
            "restore" => {
                let restored: Vec<_> =
                    self.ineligible.iter().copied().skip(some).take(1 + other).collect();
                self.ineligible.retain(|id| !restored.contains(id));
                self.changed.extend(restored.into_iter().map(|id| (id, self.now)));
            }
            "set back" => self.set_back(i64::try_from(some).unwrap()),
            _ => self.begin_anew(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_history_loses_a_token(
        ineligible in proptest::collection::btree_set(1..=TOKENS, 0..40),
        steps in proptest::collection::vec(step(), 0..80),
    ) {
        let mut model = Model { ineligible, ..Model::default() };
        for step in steps {
            model.act(step);
            // What a kill at this point leaves to the next process: everything after the cursor,
            // and what it recovers.
            for id in 1..=model.cursor {
                prop_assert!(
                    model.done.contains(&id) || model.is_skipped(id),
                    "the cursor passed {} in {:?}", id, model
                );
            }
        }
        // In the end every token has the right status and goes out.
        model.now += TOKENS + POLL;
        model.ineligible.clear();
        while model.claim(8, 5) {}
        while !model.in_flight.is_empty() {
            model.act(("take", 0, 0));
        }
        model.record(true, true);
        prop_assert_eq!(&model.done, &(1..=TOKENS).collect::<BTreeSet<_>>());
        prop_assert_eq!(model.state.begin_advance(), None);
        prop_assert_eq!(model.state.claimed_through(), model.cursor);
    }
}
