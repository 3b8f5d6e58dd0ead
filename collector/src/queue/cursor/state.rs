//! What the database has recorded, what the reader has, and what is in between.

use std::collections::{HashSet, VecDeque};

use crate::queue::BatchId;

/// The cursor, and the batches that were claimed beyond it.
///
/// The cursor stands for all tokens up to an id, so it passes a batch only after every earlier one was settled too.
#[derive(Debug)]
pub(super) struct CursorState {
    /// What `jobs.last_seq` held when it was last read or written.
    recorded: i64,
    /// Where it was to be moved by statements whose answers did not come.
    attempted: Vec<i64>,
    /// The reader has everything up to here.
    settled: i64,
    /// Claimed and not yet passed by `settled`, in the order of claiming.
    claimed: VecDeque<ClaimedBatch>,
    /// Those of `claimed` that are not settled.
    unsettled: HashSet<BatchId>,
}

#[derive(Debug)]
struct ClaimedBatch {
    id: BatchId,
    /// The cursor's place once this batch and all before it are settled.
    through: i64,
    /// The tokens of this batch with ids that earlier batches had passed.
    late: Vec<i64>,
}

/// Where a new session found the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CursorMove {
    /// Where it was left.
    None,
    /// Further on: another collector moved it meanwhile.
    Forward { from: i64 },
    /// Further back: an operator wants tokens sent again, or the database was restored.
    Back { from: i64 },
}

impl CursorState {
    /// Nothing claimed beyond `recorded`.
    pub(super) fn at(recorded: i64) -> Self {
        Self {
            recorded,
            attempted: Vec::new(),
            settled: recorded,
            claimed: VecDeque::new(),
            unsettled: HashSet::new(),
        }
    }

    /// Tokens with higher ids have not been claimed.
    pub(super) fn claimed_through(&self) -> i64 {
        self.claimed.back().map_or(self.settled, |claimed| claimed.through)
    }

    /// A batch of the tokens `ids` was claimed.
    pub(super) fn claim(&mut self, id: BatchId, ids: impl IntoIterator<Item = i64>) {
        let before = self.claimed_through();
        let (mut through, mut late) = (before, Vec::new());
        for id in ids {
            // Tokens whose account got the right status late go out after tokens with higher ids.
            if id <= before {
                late.push(id);
            }
            through = through.max(id);
        }
        self.claimed.push_back(ClaimedBatch { id, through, late });
        self.unsettled.insert(id);
    }

    /// The reader has these batches. Others than the claimed ones are ignored: they were claimed before the cursor was set back, and
    /// would carry it over tokens that are to be sent again.
    pub(super) fn settle(&mut self, batches: &[BatchId]) {
        for batch in batches {
            self.unsettled.remove(batch);
        }
        let settled = self.claimed.iter().take_while(|claimed| !self.unsettled.contains(&claimed.id)).count();
        if let Some(last) = self.claimed.drain(..settled).next_back() {
            self.settled = self.settled.max(last.through);
        }
    }

    /// Nothing was sent of these batches. They and all that were claimed after the first of them count as not claimed, settled or
    /// not: reading goes on only forwards, so a later batch that stayed would hide the tokens before it. Returns the tokens that do
    /// not lie beyond [`claimed_through`](Self::claimed_through) afterwards.
    pub(super) fn release(&mut self, batches: &[BatchId]) -> Vec<i64> {
        let batches: HashSet<_> = batches.iter().collect();
        let Some(first) = self.claimed.iter().position(|claimed| batches.contains(&claimed.id)) else {
            return Vec::new();
        };
        let mut late = Vec::new();
        for claimed in self.claimed.drain(first..) {
            self.unsettled.remove(&claimed.id);
            late.extend(claimed.late);
        }
        let through = self.claimed_through();
        late.retain(|id| *id <= through);
        late
    }

    /// From where to where the cursor can be moved, if it can, by a statement that is about to be sent.
    pub(super) fn begin_advance(&mut self) -> Option<(i64, i64)> {
        (self.settled > self.recorded).then(|| {
            self.attempted.push(self.settled);
            (self.recorded, self.settled)
        })
    }

    /// The cursor was moved.
    pub(super) fn advanced(&mut self, to: i64) {
        self.recorded = to;
        self.attempted.clear();
    }

    /// A new session found the cursor at `found`.
    pub(super) fn resume(&mut self, found: i64) -> CursorMove {
        let from = self.recorded;
        let attempted = std::mem::take(&mut self.attempted);
        if found == from || attempted.contains(&found) {
            self.recorded = found;
            return CursorMove::None;
        }
        if found < from {
            // Not even what the reader is known to have is skipped: after a restore, the same ids can belong to other tokens.
            *self = Self::at(found);
            return CursorMove::Back { from };
        }
        self.recorded = found;
        self.settled = self.settled.max(found);
        for claimed in &mut self.claimed {
            claimed.through = claimed.through.max(found);
        }
        CursorMove::Forward { from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches 1, 2, … up to these ids.
    fn claimed(recorded: i64, highest: &[i64]) -> CursorState {
        let mut state = CursorState::at(recorded);
        for (number, highest) in (1..).zip(highest) {
            state.claim(BatchId::from(number), [highest - 1, *highest]);
        }
        state
    }

    fn settle(state: &mut CursorState, batches: &[u128]) {
        state.settle(&batches.iter().map(|batch| BatchId::from(*batch)).collect::<Vec<_>>());
    }

    fn release(state: &mut CursorState, batches: &[u128]) -> Vec<i64> {
        state.release(&batches.iter().map(|batch| BatchId::from(*batch)).collect::<Vec<_>>())
    }

    /// Where the cursor goes, if it moves.
    fn advance(state: &mut CursorState) -> Option<i64> {
        let (_, to) = state.begin_advance()?;
        state.advanced(to);
        Some(to)
    }

    #[test]
    fn the_cursor_passes_a_batch_only_after_all_earlier_ones() {
        let mut state = claimed(0, &[10, 20, 30]);
        for (settled, to) in [(2, None), (1, Some(20)), (3, Some(30)), (3, None)] {
            settle(&mut state, &[settled]);
            assert_eq!(advance(&mut state), to);
        }
    }

    #[test]
    fn a_released_batch_takes_later_ones_with_it_even_if_they_are_settled() {
        let mut state = claimed(0, &[10, 20, 30]);
        settle(&mut state, &[1, 3]);
        assert_eq!(release(&mut state, &[2]), [0_i64; 0]);
        assert_eq!(state.claimed_through(), 10);
        assert_eq!(advance(&mut state), Some(10));
        // A late settlement of the later batch changes nothing.
        settle(&mut state, &[3]);
        assert_eq!((advance(&mut state), state.claimed_through()), (None, 10));
    }

    #[test]
    fn released_tokens_with_low_ids_are_not_forgotten() {
        for released in [&[2, 3][..], &[2]] {
            let mut state = claimed(0, &[10, 20]);
            state.claim(BatchId::from(3), [4, 15, 30]);
            settle(&mut state, &[1, 3]);
            assert_eq!(release(&mut state, released), [4]);
            assert_eq!(state.claimed_through(), 10);
            assert_eq!(advance(&mut state), Some(10));
        }
    }

    #[test]
    fn a_late_token_with_a_low_id_does_not_move_the_cursor_back() {
        let mut state = claimed(0, &[10, 4]);
        settle(&mut state, &[1]);
        assert_eq!(advance(&mut state), Some(10));
        settle(&mut state, &[2]);
        assert_eq!(advance(&mut state), None);
    }

    #[test]
    fn a_lost_answer_counts_as_whatever_the_database_has() {
        for (found, to) in [(0, Some(10)), (10, None)] {
            let mut state = claimed(0, &[10, 20]);
            settle(&mut state, &[1]);
            assert_eq!(state.begin_advance(), Some((0, 10)));
            assert_eq!(state.resume(found), CursorMove::None);
            assert_eq!((advance(&mut state), state.claimed_through()), (to, 20));
        }
    }

    #[test]
    fn a_cursor_that_was_moved_on_is_followed() {
        let mut state = claimed(0, &[10, 20, 30]);
        assert_eq!(state.resume(25), CursorMove::Forward { from: 0 });
        assert_eq!(state.claimed_through(), 30);
        settle(&mut state, &[1, 2]);
        assert_eq!(advance(&mut state), None);
        settle(&mut state, &[3]);
        assert_eq!(advance(&mut state), Some(30));
    }

    #[test]
    fn a_cursor_that_was_set_back_is_followed_and_not_overrun() {
        let mut state = claimed(100, &[110, 120]);
        settle(&mut state, &[1]);
        assert_eq!(state.resume(50), CursorMove::Back { from: 100 });
        assert_eq!(state.claimed_through(), 50);
        settle(&mut state, &[2]);
        assert_eq!(advance(&mut state), None);
        state.claim(BatchId::from(3), [60]);
        settle(&mut state, &[3]);
        assert_eq!(advance(&mut state), Some(60));
    }
}
