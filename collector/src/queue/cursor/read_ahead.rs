//! What was read of the queue and not claimed yet.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::session::Page;
use crate::queue::Token;

/// Tokens that were read longer ago are read again before they go out: they may be consumed or
/// expired by now.
const FRESH: Duration = Duration::from_secs(1);

/// The most deferred tokens that are kept; some megabytes.
pub(super) const MAX_DEFERRED: usize = 100_000;

/// Tokens that were read and not claimed yet, and how far reading came.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// Eligible tokens: first those that became so late, then those beyond `passed` in id order.
    tokens: VecDeque<Token>,
    /// Everything up to here was claimed, is deferred, or can never be sent.
    pub(super) passed: i64,
    /// Everything up to here was read; reading goes on behind it.
    pub(super) read: i64,
    /// When the oldest of `tokens` was read.
    oldest_read_at: Option<Instant>,
    /// Unexpired, unconsumed tokens up to `read` whose account had the wrong status.
    deferred: BTreeSet<i64>,
    /// Whether some of them may be eligible by now, so that none with a higher id may be claimed
    /// before they were read again.
    pub(super) is_deferred_due: bool,
    /// Whether the log has reported too many, and their number has not halved since.
    is_full: bool,
}

impl ReadAhead {
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn deferred_after(&self, id: i64, count: usize) -> Vec<i64> {
        self.deferred.range(id.saturating_add(1)..).take(count).copied().collect()
    }

    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.oldest_read_at.is_some_and(|since| now.duration_since(since) > FRESH)
    }

    /// The number of tokens that reading on from `passed` would not meet.
    pub(super) fn late_len(&self) -> usize {
        self.tokens.partition_point(|token| token.id <= self.passed)
    }

    /// Reads on after `id`. Tokens that were read and not claimed are read again.
    pub(super) fn start_at(&mut self, id: i64) {
        let late = self.late_len();
        let late: Vec<_> = self.tokens.drain(..).take(late).map(|token| token.id).collect();
        self.put_back(late);
        self.oldest_read_at = None;
        self.passed = id;
        self.read = id;
        // What lies beyond is read anyhow.
        self.deferred.split_off(&id.saturating_add(1));
    }

    /// Defers tokens that may be eligible: they are read again before anything is claimed.
    pub(super) fn put_back(&mut self, ids: Vec<i64>) {
        self.is_deferred_due |= !ids.is_empty();
        self.defer(ids);
    }

    pub(super) fn drop_deferred_through(&mut self, id: i64) {
        self.deferred = self.deferred.split_off(&id.saturating_add(1));
    }

    pub(super) fn add(&mut self, page: Page, now: Instant) {
        self.read = page.through;
        self.extend(page, now);
        self.pass();
    }

    /// Takes a page of the deferred tokens `ids`.
    pub(super) fn add_deferred(&mut self, page: Page, ids: &[i64], now: Instant) {
        for id in ids {
            self.deferred.remove(id);
        }
        let beyond = self.tokens.split_off(self.late_len());
        self.extend(page, now);
        self.tokens.extend(beyond);
    }

    /// Takes out `limit` tokens, or fewer if a partial batch is wanted.
    pub(super) fn cut(&mut self, limit: usize, partial: bool) -> Option<Vec<Token>> {
        let count = self.tokens.len().min(limit);
        if count == 0 || (count < limit && !partial) {
            return None;
        }
        let tokens: Vec<_> = self.tokens.drain(..count).collect();
        self.passed = tokens.iter().map(|token| token.id).fold(self.passed, i64::max);
        if self.tokens.is_empty() {
            self.oldest_read_at = None;
        }
        self.pass();
        Some(tokens)
    }

    fn extend(&mut self, page: Page, now: Instant) {
        self.defer(page.ineligible);
        if !page.tokens.is_empty() {
            self.oldest_read_at.get_or_insert(now);
        }
        self.tokens.extend(page.tokens);
    }

    fn defer(&mut self, ids: Vec<i64>) {
        self.deferred.extend(ids);
        if self.deferred.len() > MAX_DEFERRED && !self.is_full {
            self.is_full = true;
            tracing::warn!(
                event = "deferred_dropped",
                most = MAX_DEFERRED,
                "too many tokens wait for the status they need; only the newest are read again"
            );
        } else if self.deferred.len() < MAX_DEFERRED / 2 {
            self.is_full = false;
        }
        while self.deferred.len() > MAX_DEFERRED {
            // The oldest expires first.
            self.deferred.pop_first();
        }
    }

    /// Once every token that was read is claimed, nothing up to there needs to be read again.
    fn pass(&mut self) {
        if self.tokens.back().is_none_or(|token| token.id <= self.passed) {
            self.passed = self.read;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_deferred_tokens_is_bounded_and_the_oldest_go_first() {
        let mut ahead = ReadAhead::default();
        let most = i64::try_from(MAX_DEFERRED).unwrap();
        ahead.put_back((1..=most + 5).collect());
        assert_eq!((ahead.deferred.len(), ahead.deferred.first()), (MAX_DEFERRED, Some(&6)));
    }
}
