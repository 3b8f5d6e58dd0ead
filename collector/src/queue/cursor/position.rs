//! Where a collector stands: what the database has recorded, what the reader has, and what is in between.

use std::collections::VecDeque;

use crate::queue::BatchId;

/// The cursor, and the batches that were claimed beyond it.
///
/// The cursor stands for all tokens up to an id, so it passes a batch only after every earlier one was settled too.
#[derive(Debug)]
pub(super) struct Position {
    /// What `jobs.last_seq` held when it was last read or written.
    recorded: i64,
    /// Where it was to be moved by statements whose answers did not come.
    attempted: Vec<i64>,
    /// The reader has everything up to here.
    settled: i64,
    /// Claimed and not yet passed by `settled`, in the order of claiming.
    claimed: VecDeque<Claimed>,
}

#[derive(Debug)]
struct Claimed {
    batch: BatchId,
    /// The cursor's place once this batch and all before it are settled.
    through: i64,
    /// The tokens of this batch with ids that earlier batches had passed.
    late: Vec<i64>,
    is_settled: bool,
}

/// What a new session found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The cursor where it was left.
    AsLeft,
    /// The cursor further on: another collector worked meanwhile.
    MovedOn {
        /// Where it was left.
        from: i64,
        /// Where it is.
        to: i64,
    },
    /// The cursor further back: somebody wants tokens sent again, or the database was restored.
    SetBack {
        /// Where it was left.
        from: i64,
        /// Where it is.
        to: i64,
    },
}

impl Position {
    /// Nothing claimed beyond `recorded`.
    pub(super) fn at(recorded: i64) -> Self {
        Self { recorded, attempted: Vec::new(), settled: recorded, claimed: VecDeque::new() }
    }

    /// What the database is known to hold.
    pub(super) fn recorded(&self) -> i64 {
        self.recorded
    }

    /// Tokens with higher ids have not been claimed.
    pub(super) fn claimed_through(&self) -> i64 {
        self.claimed.back().map_or(self.settled, |claimed| claimed.through)
    }

    /// A batch of the tokens `ids` was claimed.
    pub(super) fn claim(&mut self, batch: BatchId, ids: impl IntoIterator<Item = i64>) {
        let before = self.claimed_through();
        let (mut through, mut late) = (before, Vec::new());
        for id in ids {
            // Tokens whose account got the right status late go out after tokens with higher ids.
            if id <= before {
                late.push(id);
            }
            through = through.max(id);
        }
        self.claimed.push_back(Claimed { batch, through, late, is_settled: false });
    }

    /// The reader has these batches. Others than the claimed ones are ignored: they were claimed before the cursor was
    /// set back, and would carry it over tokens that are to be sent again.
    pub(super) fn settle(&mut self, batches: &[BatchId]) {
        for batch in batches {
            // Batches are numbered in the order of claiming.
            if let Ok(index) = self.claimed.binary_search_by_key(batch, |claimed| claimed.batch) {
                self.claimed[index].is_settled = true;
            }
        }
        let settled = self.claimed.iter().take_while(|claimed| claimed.is_settled).count();
        if let Some(last) = self.claimed.drain(..settled).next_back() {
            self.settled = self.settled.max(last.through);
        }
    }

    /// Nothing was sent of these batches. They and all that were claimed after the first of them count as not claimed,
    /// settled or not: reading goes on only forwards, so a later batch that stayed would hide the tokens before it.
    /// Returns the tokens that do not lie beyond [`claimed_through`](Self::claimed_through) afterwards.
    pub(super) fn release(&mut self, batches: &[BatchId]) -> Vec<i64> {
        let Some(first) = self.claimed.iter().position(|claimed| batches.contains(&claimed.batch)) else {
            return Vec::new();
        };
        let mut late: Vec<_> = self.claimed.drain(first..).flat_map(|claimed| claimed.late).collect();
        let through = self.claimed_through();
        late.retain(|id| *id <= through);
        late
    }

    /// Where the cursor can be moved, if it can.
    pub(super) fn advance(&self) -> Option<i64> {
        (self.settled > self.recorded).then_some(self.settled)
    }

    /// A statement that moves the cursor is about to be sent.
    pub(super) fn attempt(&mut self, to: i64) {
        self.attempted.push(to);
    }

    /// The cursor was moved.
    pub(super) fn record(&mut self, to: i64) {
        self.recorded = to;
        self.attempted.clear();
    }

    /// A new session found the cursor at `found`.
    pub(super) fn resume(&mut self, found: i64) -> Found {
        let from = self.recorded;
        let attempted = std::mem::take(&mut self.attempted);
        if found == from || attempted.contains(&found) {
            self.recorded = found;
            return Found::AsLeft;
        }
        if found < from {
            // Not even what this process knows to be taken is skipped: after a restore, the same ids can belong to
            // other tokens.
            *self = Self::at(found);
            return Found::SetBack { from, to: found };
        }
        self.recorded = found;
        self.settled = self.settled.max(found);
        for claimed in &mut self.claimed {
            claimed.through = claimed.through.max(found);
        }
        Found::MovedOn { from, to: found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(recorded: i64, highest: &[i64]) -> Position {
        let mut position = Position::at(recorded);
        for (number, highest) in (1..).zip(highest) {
            position.claim(BatchId(number), [highest - 1, *highest]);
        }
        position
    }

    #[test]
    fn the_cursor_passes_a_batch_only_after_all_earlier_ones() {
        let mut position = claimed(0, &[10, 20, 30]);
        position.settle(&[BatchId(2)]);
        assert_eq!(position.advance(), None);
        position.settle(&[BatchId(1)]);
        assert_eq!(position.advance(), Some(20));
        position.settle(&[BatchId(3)]);
        assert_eq!(position.advance(), Some(30));
        position.record(30);
        assert_eq!(position.advance(), None);
    }

    #[test]
    fn a_released_batch_is_claimed_again() {
        let mut position = claimed(0, &[10, 20, 30]);
        assert_eq!(position.claimed_through(), 30);
        assert_eq!(position.release(&[BatchId(2), BatchId(3)]), [0_i64; 0]);
        assert_eq!(position.claimed_through(), 10);
        position.settle(&[BatchId(1)]);
        assert_eq!(position.claimed_through(), 10);
    }

    #[test]
    fn a_released_token_with_a_low_id_is_not_forgotten() {
        let mut position = claimed(0, &[10, 20]);
        position.claim(BatchId(3), [4, 15, 30]);
        assert_eq!(position.release(&[BatchId(2), BatchId(3)]), [4]);
        assert_eq!(position.claimed_through(), 10);
    }

    #[test]
    fn a_released_batch_takes_later_ones_with_it_even_if_they_are_settled() {
        let mut position = claimed(0, &[10, 20, 30]);
        position.settle(&[BatchId(1), BatchId(3)]);
        assert_eq!(position.release(&[BatchId(2)]), [0_i64; 0]);
        assert_eq!(position.claimed_through(), 10);
        assert_eq!(position.advance(), Some(10));
        // What was still to be told of the later batch changes nothing.
        position.settle(&[BatchId(3)]);
        assert_eq!(position.advance(), Some(10));
    }

    #[test]
    fn late_tokens_of_batches_behind_a_released_one_are_not_forgotten() {
        let mut position = claimed(0, &[10, 20]);
        position.claim(BatchId(3), [4, 15, 30]);
        position.settle(&[BatchId(1), BatchId(3)]);
        assert_eq!(position.release(&[BatchId(2)]), [4]);
        assert_eq!(position.claimed_through(), 10);
        assert_eq!(position.advance(), Some(10));
    }

    #[test]
    fn a_late_token_with_a_low_id_does_not_move_the_cursor_back() {
        let mut position = claimed(0, &[10, 4]);
        position.settle(&[BatchId(1)]);
        assert_eq!(position.advance(), Some(10));
        position.record(10);
        position.settle(&[BatchId(2)]);
        assert_eq!(position.advance(), None);
    }

    #[test]
    fn a_lost_session_keeps_what_was_sent_and_taken() {
        let mut position = claimed(0, &[10, 20]);
        position.settle(&[BatchId(1)]);
        assert_eq!(position.resume(0), Found::AsLeft);
        assert_eq!(position.advance(), Some(10));
        assert_eq!(position.claimed_through(), 20);
    }

    #[test]
    fn a_lost_answer_counts_as_whatever_the_database_has() {
        for (found, advance) in [(0, Some(10)), (10, None)] {
            let mut position = claimed(0, &[10]);
            position.settle(&[BatchId(1)]);
            position.attempt(10);
            assert_eq!(position.resume(found), Found::AsLeft);
            assert_eq!(position.advance(), advance);
        }
    }

    #[test]
    fn a_cursor_that_was_moved_on_is_followed() {
        let mut position = claimed(0, &[10, 20, 30]);
        assert_eq!(position.resume(25), Found::MovedOn { from: 0, to: 25 });
        assert_eq!(position.claimed_through(), 30);
        position.settle(&[BatchId(1), BatchId(2)]);
        assert_eq!(position.advance(), None);
        position.settle(&[BatchId(3)]);
        assert_eq!(position.advance(), Some(30));
    }

    #[test]
    fn a_cursor_that_was_set_back_is_followed_and_not_overrun() {
        let mut position = claimed(100, &[110, 120]);
        position.settle(&[BatchId(1)]);
        assert_eq!(position.resume(50), Found::SetBack { from: 100, to: 50 });
        assert_eq!(position.claimed_through(), 50);
        position.settle(&[BatchId(2)]);
        assert_eq!(position.advance(), None);
        position.claim(BatchId(3), [60]);
        position.settle(&[BatchId(3)]);
        assert_eq!(position.advance(), Some(60));
    }
}
