//! How many batches are on their way to the reader at once.
//!
//! Few keep a slow reader's tokens fresh: what is claimed early is mailed late, and may have expired or been used by
//! then. Many make each round trip to the database worth its while. So their number follows how fast the reader is.
//!
//! Pure policy: the caller passes the times in.

use std::time::Duration;

use crate::config;

/// A batch that is taken within this time lets the number grow.
const FAST: Duration = Duration::from_millis(250);

/// A batch that is taken after this time lets it shrink.
const SLOW: Duration = Duration::from_secs(1);

/// What is kept in memory at most, in tokens: about 3 MB if the number follows the reader, 50 MB if it is set.
/// `cargo xtask bench memory` measures it.
const MOST_TOKENS: usize = 4_096;
const MOST_TOKENS_SET: usize = 100_000;

/// Where the number starts.
const FIRST: usize = 4;

/// The number of batches that may be on their way.
#[derive(Debug)]
pub struct Prefetch {
    batches: usize,
    /// The bounds of `batches`.
    least: usize,
    most: usize,
    /// How many there may be until the reader goes on: what is sent beyond that would be recalled again.
    held_back_to: Option<usize>,
    /// How many batches must have been taken since the last change before the number may shrink again: those that
    /// were sent before a change say nothing about it.
    unaffected: usize,
}

impl Prefetch {
    /// As the settings say, for batches of `limit` tokens.
    pub fn new(setting: config::Prefetch, limit: usize) -> Self {
        let (first, least, most) = match setting {
            config::Prefetch::Auto => (FIRST, 1, (MOST_TOKENS / limit).max(2)),
            config::Prefetch::Batches(count) => {
                let count = count.min(MOST_TOKENS_SET / limit).max(1);
                (count, count, count)
            }
        };
        Self { batches: first.min(most), least, most, held_back_to: None, unaffected: 0 }
    }

    /// How many batches to claim while `in_flight` are on their way.
    ///
    /// Nothing until half of them are taken, so that a fast reader does not cost a round trip a batch.
    pub fn wanted(&self, in_flight: usize) -> usize {
        let batches = self.held_back_to.map_or(self.batches, |most| most.min(self.batches));
        let free = batches.saturating_sub(in_flight);
        if free >= batches.div_ceil(2) { free } else { 0 }
    }

    /// A batch was taken this long after it was sent.
    pub fn taken(&mut self, after: Duration) {
        // Not all at once: a reader that goes on slowly would have most of it recalled.
        self.held_back_to = self.held_back_to.map(|most| most + 1).filter(|most| *most < self.batches);
        self.unaffected = self.unaffected.saturating_sub(1);
        if after <= FAST {
            self.batches = (self.batches + 1).min(self.most);
        } else if after > SLOW {
            self.shrink();
        }
    }

    /// Batches had to be recalled, because the reader took nothing for a while; `in_flight` were not.
    pub fn recalled(&mut self, in_flight: usize) {
        self.held_back_to = Some(in_flight.max(1));
        self.unaffected = in_flight;
        self.batches = in_flight.clamp(self.least, self.most);
    }

    fn shrink(&mut self) {
        if self.unaffected == 0 {
            self.unaffected = self.batches;
            self.batches = (self.batches / 2).max(self.least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(limit: usize) -> Prefetch {
        Prefetch::new(config::Prefetch::Auto, limit)
    }

    #[test]
    fn a_fast_reader_gets_thousands_of_tokens_a_round_trip() {
        let mut prefetch = auto(10);
        let mut taken = 0;
        for _ in 0..8 {
            let wanted = prefetch.wanted(0);
            (0..wanted).for_each(|_| prefetch.taken(FAST));
            taken += wanted;
        }
        assert_eq!(prefetch.wanted(0), MOST_TOKENS / 10);
        assert!(taken < 2_000, "it took {taken} batches");
    }

    #[test]
    fn a_slow_reader_gets_single_batches() {
        let mut prefetch = auto(10);
        (0..1_000).for_each(|_| prefetch.taken(FAST));
        (0..2_000).for_each(|_| prefetch.taken(SLOW * 2));
        assert_eq!(prefetch.wanted(0), 1);
        assert_eq!(prefetch.wanted(1), 0);
    }

    #[test]
    fn one_stall_shrinks_the_number_once() {
        let mut prefetch = auto(10);
        (0..1_000).for_each(|_| prefetch.taken(FAST));
        let before = prefetch.wanted(0);
        (0..before).for_each(|_| prefetch.taken(SLOW * 2));
        assert_eq!(prefetch.wanted(0), before / 2);
    }

    #[test]
    fn claims_wait_until_half_of_the_batches_are_taken() {
        let prefetch = auto(10);
        assert_eq!(prefetch.wanted(0), 4);
        assert_eq!(prefetch.wanted(2), 2);
        assert_eq!(prefetch.wanted(3), 0);
        assert_eq!(prefetch.wanted(9), 0);
    }

    #[test]
    fn after_a_recall_nothing_is_claimed_until_the_reader_goes_on() {
        let mut prefetch = auto(10);
        (0..1_000).for_each(|_| prefetch.taken(FAST));
        prefetch.recalled(40);
        assert_eq!(prefetch.wanted(40), 0);
        assert_eq!(prefetch.wanted(20), 20);
        prefetch.recalled(0);
        assert_eq!(prefetch.wanted(0), 1);
    }

    #[test]
    fn a_number_in_the_settings_stays() {
        let mut prefetch = Prefetch::new(config::Prefetch::Batches(7), 10_000);
        prefetch.recalled(1);
        (0..20).for_each(|_| prefetch.taken(SLOW * 2));
        (0..20).for_each(|_| prefetch.taken(FAST));
        assert_eq!(prefetch.wanted(0), 7);
    }

    #[test]
    fn a_number_in_the_settings_comes_back_as_the_reader_goes_on() {
        let mut prefetch = Prefetch::new(config::Prefetch::Batches(50), 10);
        prefetch.recalled(20);
        // Nothing that would only have to be recalled again.
        assert_eq!(prefetch.wanted(20), 0);
        (0..20).for_each(|_| prefetch.taken(FAST));
        assert_eq!(prefetch.wanted(0), 40);
        (0..40).for_each(|_| prefetch.taken(FAST));
        assert_eq!(prefetch.wanted(0), 50);
        // A reader that has begun nothing yet is offered a line, or it could never go on.
        prefetch.recalled(0);
        assert_eq!(prefetch.wanted(0), 1);
    }

    #[test]
    fn a_reader_slower_than_the_number_in_the_settings_has_little_recalled() {
        let mut prefetch = Prefetch::new(config::Prefetch::Batches(200), 10);
        let (mut in_flight, mut recalled) = (200, 0);
        // It holds 28 and takes one in a tenth of a second; what waits for a second is recalled.
        for tenth in 0..1_000 {
            in_flight -= 1;
            prefetch.taken(SLOW * 2);
            in_flight += prefetch.wanted(in_flight);
            if tenth % 10 == 9 && in_flight > 28 {
                recalled += in_flight - 28;
                in_flight = 28;
                prefetch.recalled(in_flight);
            }
        }
        assert!(recalled < 172 + 1_000, "{recalled} batches were recalled for 1000 that were taken");
    }

    #[test]
    fn large_batches_keep_the_memory_bounded() {
        let mut prefetch = auto(10_000);
        (0..1_000).for_each(|_| prefetch.taken(FAST));
        assert_eq!(prefetch.wanted(0), 2);
    }
}
