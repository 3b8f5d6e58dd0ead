//! How many batches are in flight at once. The caller passes the times in.
//!
//! Few keep the tokens of a slow reader fresh: what is claimed early is mailed late, and may have
//! expired or been used by then. Many spread the cost of a round trip to the database. So their
//! number follows the speed of the reader.

use std::time::Duration;

/// A batch that is acknowledged within this time lets the number grow.
const FAST: Duration = Duration::from_millis(250);

/// A batch that is acknowledged after this time lets it shrink.
const SLOW: Duration = Duration::from_secs(1);

/// The most tokens that are kept in memory: about 3 MB if the number follows the reader, 50 MB if
/// it is set. `cargo xtask bench memory` measures it.
const MAX_TOKENS: usize = 4_096;
const MAX_TOKENS_SET: usize = 100_000;

const FIRST: usize = 4;

/// Decides how many batches are claimed.
pub struct Prefetch {
    batches: usize,
    least: usize,
    most: usize,
    /// How many there may be until the reader goes on:
    /// what is sent beyond that would be cancelled again.
    held_back_to: Option<usize>,
    /// How many acks must come before the number may shrink again: batches sent before a change do
    /// not show its effect.
    unaffected: usize,
}

impl Prefetch {
    /// As set, for batches of at most `limit` tokens; `None` follows the reader.
    pub fn new(setting: Option<usize>, limit: usize) -> Self {
        let (first, least, most) = match setting {
            None => (FIRST, 1, (MAX_TOKENS / limit).max(2)),
            Some(count) => {
                let count = count.min(MAX_TOKENS_SET / limit).max(1);
                (count, count, count)
            }
        };
        Self { batches: first.min(most), least, most, held_back_to: None, unaffected: 0 }
    }

    /// How many batches to claim while `in_flight` are in flight.
    ///
    /// None until a third of them are acknowledged, so that a fast reader does not cost a round
    /// trip a batch. Not half, so that the next claim is under way while the last one is signed.
    pub fn wanted(&self, in_flight: usize) -> usize {
        let batches = self.held_back_to.map_or(self.batches, |most| most.min(self.batches));
        let free = batches.saturating_sub(in_flight);
        if free >= batches.div_ceil(3) { free } else { 0 }
    }

    /// A batch was acknowledged this long after it was sent.
    pub fn acked(&mut self, after: Duration) {
        // Not all at once: a reader that goes on slowly would have most of it cancelled.
        self.held_back_to =
            self.held_back_to.map(|most| most + 1).filter(|most| *most < self.batches);
        self.unaffected = self.unaffected.saturating_sub(1);
        if after <= FAST {
            self.batches = (self.batches + 1).min(self.most);
        } else if after > SLOW && self.unaffected == 0 {
            self.unaffected = self.batches;
            self.batches = (self.batches / 2).max(self.least);
        }
    }

    /// Stale batches were cancelled; `in_flight` were not.
    pub fn cancelled(&mut self, in_flight: usize) {
        self.held_back_to = Some(in_flight.max(1));
        self.unaffected = in_flight;
        self.batches = in_flight.clamp(self.least, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER_SLOW: Duration = Duration::from_secs(2);

    #[test]
    fn a_fast_reader_gets_thousands_of_tokens_a_round_trip_and_a_slow_one_single_batches() {
        let mut prefetch = Prefetch::new(None, 10);
        // Claims wait until a third of the batches are acknowledged.
        assert_eq!([0, 2, 3, 9].map(|in_flight| prefetch.wanted(in_flight)), [4, 2, 0, 0]);
        let mut acked = 0;
        for _ in 0..8 {
            let wanted = prefetch.wanted(0);
            (0..wanted).for_each(|_| prefetch.acked(FAST));
            acked += wanted;
        }
        let most = prefetch.wanted(0);
        assert_eq!(most, MAX_TOKENS / 10);
        assert!(acked < 2_000, "it took {acked} batches");
        let long = |setting| Prefetch::new(setting, 10_000).wanted(0);
        assert_eq!((long(None), long(Some(20))), (2, 10));
        // One stall shrinks the number once.
        (0..most).for_each(|_| prefetch.acked(AFTER_SLOW));
        assert_eq!(prefetch.wanted(0), most / 2);
        (0..2_000).for_each(|_| prefetch.acked(AFTER_SLOW));
        assert_eq!((prefetch.wanted(0), prefetch.wanted(1)), (1, 0));
    }
}
