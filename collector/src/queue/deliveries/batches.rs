//! The batches of this process, and what the database may not know of them yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::queue::activity::Activity;
use crate::queue::{Batch, BatchId, Nack, Receipt, Settlement, Traceparent};

/// How long a statement without an answer may still reach the server: longer than the operating
/// system retransmits it.
const IN_DOUBT_TIME: Duration = Duration::from_secs(30);

/// Where a batch is between claim and settlement.
///
/// No method of [`Batches`] awaits: a call that is dropped at an await leaves a state from which
/// the next one goes on.
#[derive(Debug)]
enum State {
    /// Named in a statement without an answer. If that call fails or is dropped, the next statement
    /// puts it in doubt.
    Claiming { since: Instant },
    /// Claimed by an earlier statement without an answer,
    /// which may still be on its way to the server.
    InDoubt { since: Instant },
    /// An unfinished call has claimed it, and has not yet returned it to the caller. If that call
    /// fails or is dropped, the next one releases it.
    Unreturned { tokens: usize, claimed_at: Instant },
    /// Returned to the caller.
    Held { tokens: usize, claimed_at: Instant },
    /// Settled by the caller; part of every statement until one is answered.
    Settling {
        tokens: usize,
        nacks: Vec<(i64, Nack)>,
        receipts: Vec<(i64, Receipt)>,
        traces: Vec<(i64, Traceparent)>,
    },
    /// To be released; part of every statement until one is answered.
    Releasing,
}

/// One state a batch. The caller passes the times in.
#[derive(Debug, Default)]
pub(super) struct Batches(BTreeMap<BatchId, State>);

impl Batches {
    /// A call begins: releases what an earlier one had claimed when it failed or was dropped.
    pub(super) fn begin_call(&mut self) {
        for state in self.0.values_mut().filter(|state| matches!(state, State::Unreturned { .. })) {
            *state = State::Releasing;
        }
    }

    /// Statements are about to be sent that settle and release all that is to be, and claim `ids`.
    pub(super) fn begin_statements(&mut self, ids: &[BatchId], now: Instant) {
        for state in self.0.values_mut().filter(|state| matches!(state, State::Claiming { .. })) {
            *state = State::InDoubt { since: now };
        }
        self.0.extend(ids.iter().map(|id| (*id, State::Claiming { since: now })));
    }

    /// The statement that settles was answered.
    pub(super) fn settled(&mut self) {
        self.0.retain(|_, state| !matches!(state, State::Settling { .. }));
    }

    /// The statement that releases was answered.
    pub(super) fn released(&mut self, now: Instant) {
        self.0.retain(|_, state| match state {
            State::Releasing => false,
            State::InDoubt { since } => now - *since < IN_DOUBT_TIME,
            _ => true,
        });
    }

    /// The statement that claims `ids` was answered.
    pub(super) fn claimed(&mut self, ids: &[BatchId], claimed: &[Batch]) {
        // All of them were named in the same statement.
        let mut claimed_at = None;
        for id in ids {
            if let Some(State::Claiming { since }) = self.0.remove(id) {
                claimed_at = Some(since);
            }
        }
        let Some(claimed_at) = claimed_at else { return };
        let unreturned = |batch: &Batch| {
            (batch.id, State::Unreturned { tokens: batch.tokens.len(), claimed_at })
        };
        self.0.extend(claimed.iter().map(unreturned));
    }

    /// The call returns the batches that it has claimed.
    pub(super) fn mark_returned(&mut self) {
        for state in self.0.values_mut() {
            if let State::Unreturned { tokens, claimed_at } = *state {
                *state = State::Held { tokens, claimed_at };
            }
        }
    }

    /// Changes nothing if the batch is settled, released or lost already.
    pub(super) fn settle(&mut self, settlement: Settlement, activity: &mut Activity) {
        let Settlement { batch, nacks, receipts, traces } = settlement;
        if let Some(state) = self.0.get_mut(&batch)
            && let State::Held { tokens, claimed_at } = *state
        {
            activity.settled(tokens, &nacks, claimed_at);
            *state = State::Settling { tokens, nacks, receipts, traces };
        }
    }

    /// Their tokens take nothing from a budget.
    pub(super) fn release(&mut self, ids: &[BatchId], activity: &mut Activity) {
        for id in ids {
            if let Some(state) = self.0.get_mut(id)
                && let State::Held { tokens, claimed_at } = *state
            {
                activity.unspent(tokens, claimed_at);
                *state = State::Releasing;
            }
        }
    }

    /// Drops the held batches that are not among `kept`. Returns them, and how many tokens they
    /// have.
    pub(super) fn drop_lost(&mut self, kept: &BTreeSet<BatchId>) -> (Vec<BatchId>, usize) {
        let (mut lost, mut lost_tokens) = (Vec::new(), 0);
        self.0.retain(|id, state| {
            let State::Held { tokens, .. } = *state else { return true };
            let is_kept = kept.contains(id);
            if !is_kept {
                lost.push(*id);
                lost_tokens += tokens;
            }
            is_kept
        });
        (lost, lost_tokens)
    }

    pub(super) fn is_held(&self, batch: BatchId) -> bool {
        matches!(self.0.get(&batch), Some(State::Held { .. } | State::Unreturned { .. }))
    }

    /// How many tokens were sent and are not settled yet.
    pub(super) fn unrecorded(&self) -> usize {
        let sent = |state: &State| match state {
            State::Settling { tokens, nacks, .. } => tokens.saturating_sub(nacks.len()),
            _ => 0,
        };
        self.0.values().map(sent).sum()
    }

    pub(super) fn leased(&self) -> impl Iterator<Item = BatchId> {
        self.with(|state| matches!(state, State::Held { .. } | State::Settling { .. }))
    }

    pub(super) fn releasing(&self) -> impl Iterator<Item = BatchId> {
        self.with(|state| matches!(state, State::Releasing | State::InDoubt { .. }))
    }

    pub(super) fn settling(&self) -> impl Iterator<Item = (BatchId, &[(i64, Nack)])> {
        self.0.iter().filter_map(|(id, state)| match state {
            State::Settling { nacks, .. } => Some((*id, nacks.as_slice())),
            _ => None,
        })
    }

    /// What providers said of tokens of the batches that are to be settled.
    pub(super) fn receipts(&self) -> impl Iterator<Item = (BatchId, &(i64, Receipt))> {
        self.0.iter().flat_map(|(id, state)| {
            let receipts = match state {
                State::Settling { receipts, .. } => receipts.as_slice(),
                _ => &[],
            };
            receipts.iter().map(|receipt| (*id, receipt))
        })
    }

    pub(super) fn nack(&self, batch: BatchId, token: i64) -> Option<&Nack> {
        match self.0.get(&batch)? {
            State::Settling { nacks, .. } => {
                nacks.iter().find(|(id, _)| *id == token).map(|(_, nack)| nack)
            }
            _ => None,
        }
    }

    /// The traces of the tokens of a batch that is to be settled.
    pub(super) fn traces(&self, batch: BatchId) -> &[(i64, Traceparent)] {
        match self.0.get(&batch) {
            Some(State::Settling { traces, .. }) => traces,
            _ => &[],
        }
    }

    /// Whether no statement is needed.
    pub(super) fn is_reported(&self) -> bool {
        self.0.values().all(|state| matches!(state, State::Held { .. }))
    }

    fn with(&self, condition: impl Fn(&State) -> bool) -> impl Iterator<Item = BatchId> {
        self.0.iter().filter(move |(_, state)| condition(state)).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_without_an_answer_is_released_until_it_cannot_reach_the_server_any_more() {
        let start = Instant::now();
        let mut batches = Batches::default();
        let id = BatchId::from(1);
        batches.begin_statements(&[id], start);
        assert_eq!(batches.releasing().count(), 0);
        for seconds in [0, 1, 29] {
            batches.begin_call();
            batches.begin_statements(&[], start);
            assert_eq!(batches.releasing().collect::<Vec<_>>(), [id]);
            batches.released(start + Duration::from_secs(seconds));
            assert!(!batches.is_reported());
        }
        batches.released(start + IN_DOUBT_TIME);
        assert!(batches.is_reported());
    }
}
