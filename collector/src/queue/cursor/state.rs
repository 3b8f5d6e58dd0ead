//! What the database has recorded, what the reader has, and what is in between.

use std::collections::VecDeque;

use super::read_ahead::ReadAhead;
use crate::queue::{BatchId, Token};

/// The cursor, the batches that were claimed beyond it, and the tokens that were read beyond those.
///
/// The cursor stands for all tokens up to an id, so it passes a batch only after every earlier one
/// was settled too.
#[derive(Debug, Default)]
pub(super) struct CursorState {
    /// What `jobs.last_seq` held when it was last read or written.
    recorded: i64,
    /// Where it was to be moved by statements whose answers did not come.
    attempted: Vec<i64>,
    /// The reader has everything up to here.
    settled: i64,
    /// Claimed and not yet passed by `settled`, in the order of claiming.
    claimed: VecDeque<ClaimedBatch>,
    pub(super) ahead: ReadAhead,
}

#[derive(Debug)]
struct ClaimedBatch {
    id: BatchId,
    /// The cursor's place once this batch and all before it are settled.
    through: i64,
    /// The tokens of this batch with ids that earlier batches had passed.
    late: Vec<i64>,
    is_settled: bool,
}

impl CursorState {
    /// Nothing claimed beyond `recorded`.
    pub(super) fn at(recorded: i64) -> Self {
        let mut state = Self { recorded, settled: recorded, ..Self::default() };
        state.ahead.start_at(recorded);
        state
    }

    /// Tokens with higher ids have not been claimed.
    pub(super) fn claimed_through(&self) -> i64 {
        self.claimed.back().map_or(self.settled, |claimed| claimed.through)
    }

    /// Claims a batch of `limit` tokens that were read, or of fewer if it may be partial.
    pub(super) fn claim(&mut self, id: BatchId, limit: usize, partial: bool) -> Option<Vec<Token>> {
        let tokens = self.ahead.cut(limit, partial)?;
        let before = self.claimed_through();
        let ids = || tokens.iter().map(|token| token.id);
        // Tokens whose account got the right status late go out after tokens with higher ids.
        let late = ids().filter(|id| *id <= before).collect();
        let through = ids().fold(before, i64::max);
        self.claimed.push_back(ClaimedBatch { id, through, late, is_settled: false });
        Some(tokens)
    }

    /// The reader has these batches. Batches that are no longer claimed are ignored: they were
    /// claimed before the cursor was set back, and would carry it over tokens
    /// that are to be sent again.
    pub(super) fn settle(&mut self, batches: &[BatchId]) {
        for batch in batches {
            if let Some(claimed) = self.claimed.iter_mut().find(|claimed| claimed.id == *batch) {
                claimed.is_settled = true;
            }
        }
        let settled = self.claimed.iter().take_while(|claimed| claimed.is_settled).count();
        if let Some(last) = self.claimed.drain(..settled).next_back() {
            self.settled = self.settled.max(last.through);
        }
    }

    /// Nothing was sent of these batches. They and all that were claimed after the first of them
    /// count as not claimed, settled or not: reading goes on only forwards, so a later batch that
    /// stayed would hide the tokens before it.
    pub(super) fn release(&mut self, batches: &[BatchId]) {
        if let Some(first) = self.claimed.iter().position(|claimed| batches.contains(&claimed.id)) {
            let released: Vec<_> = self.claimed.drain(first..).collect();
            let through = self.claimed_through();
            self.ahead.start_at(through);
            let late = released.into_iter().flat_map(|claimed| claimed.late);
            self.ahead.put_back(late.filter(|id| *id <= through).collect());
        }
    }

    /// Whether the reader has more than the database knows of.
    pub(super) fn has_unrecorded(&self) -> bool {
        self.recorded < self.settled || self.claimed.iter().any(|claimed| claimed.is_settled)
    }

    /// From where to where the cursor can be moved, if it can,
    /// by a statement that is about to be sent.
    pub(super) fn begin_advance(&mut self) -> Option<(i64, i64)> {
        (self.settled > self.recorded).then(|| {
            self.attempted.push(self.settled);
            (self.recorded, self.settled)
        })
    }

    pub(super) fn advanced(&mut self, to: i64) {
        self.recorded = to;
        self.attempted.clear();
    }

    /// A new session found the cursor at `found`. Returns whether it was moved by anybody else.
    pub(super) fn resume(&mut self, found: i64) -> bool {
        let from = self.recorded;
        let is_own = std::mem::take(&mut self.attempted).contains(&found) || found == from;
        if found < from && !is_own {
            tracing::warn!(
                event = "cursor_set_back",
                from,
                to = found,
                "the cursor was set back; the tokens after it go out again"
            );
            // Not even what the reader is known to have is skipped: after a restore, the same ids
            // can belong to other tokens.
            *self = Self::at(found);
            return true;
        }
        self.recorded = found;
        if !is_own {
            tracing::warn!(
                event = "cursor_moved",
                from,
                to = found,
                "another collector moved the cursor; going on from there"
            );
            self.settled = self.settled.max(found);
            for claimed in &mut self.claimed {
                claimed.through = claimed.through.max(found);
            }
        }
        self.ahead.start_at(self.claimed_through());
        if !is_own {
            // What this process has deferred of them may have been sent since.
            self.ahead.drop_deferred_through(found);
        }
        !is_own
    }
}
