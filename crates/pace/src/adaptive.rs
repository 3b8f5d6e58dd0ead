//! How long a token waits for others: a fixed time, or one that follows the traffic and the
//! reader's answers.
//!
//! Adaptive: a token goes out at once while nothing is in flight. Otherwise it waits until as many
//! are there as usually come during an answer, or for as long as an answer usually takes: a reader
//! of one batch at a time begins no sooner. All that wait then go out as one batch, so its size
//! follows the depth of the queue. The caller passes the times in.

use std::time::{Duration, Instant};

/// For how long tokens are counted before their number is used.
const WINDOW: Duration = Duration::from_secs(10);

/// The batch limit and timeout.
pub struct Adaptive {
    is_on: bool,
    /// The most tokens of a batch.
    pub limit: usize,
    /// As set. Nothing waits longer.
    timeout: Duration,
    /// How long answers took lately.
    answer_time: Duration,
    /// Since when tokens are counted, how many were claimed since, and in the window before.
    counted_since: Option<Instant>,
    claimed: usize,
    claimed_before: usize,
}

impl Adaptive {
    /// Always `limit` and `timeout`, unless `is_on`.
    pub fn new(is_on: bool, limit: usize, timeout: Duration) -> Self {
        Self {
            is_on,
            limit,
            timeout,
            answer_time: Duration::ZERO,
            counted_since: None,
            claimed: 0,
            claimed_before: 0,
        }
    }

    /// Notes that a poll claimed `tokens`.
    pub fn polled(&mut self, tokens: usize, now: Instant) {
        let since = *self.counted_since.get_or_insert(now);
        if now - since >= WINDOW {
            self.claimed_before = if now - since < 2 * WINDOW { self.claimed } else { 0 };
            self.counted_since = Some(now);
            self.claimed = 0;
        }
        self.claimed = self.claimed.saturating_add(tokens);
    }

    /// A batch was acknowledged this long after it was sent.
    pub fn acked(&mut self, after: Duration) {
        // An outage counts no more than what a token may wait anyway.
        self.answer_time = (self.answer_time * 3 + after.min(self.timeout)) / 4;
    }

    /// The batch limit and timeout, while `in_flight` batches are in flight
    /// and `waiting` tokens wait.
    pub fn limits(&self, in_flight: usize, waiting: usize) -> (usize, Duration) {
        if !self.is_on {
            return (self.limit, self.timeout);
        }
        let tokens = self.claimed.max(self.claimed_before) as u128;
        let during_answer = (tokens * self.answer_time.as_nanos()).div_ceil(WINDOW.as_nanos());
        let usual = usize::try_from(during_answer).unwrap_or(usize::MAX).clamp(1, self.limit);
        let limit = if in_flight == 0 { 1 } else { usual };
        (limit, if in_flight == 0 || waiting >= limit { Duration::ZERO } else { self.answer_time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: (usize, Duration) = (100, Duration::from_secs(5));

    /// Limit and timeout after each answer, while 20 tokens come a second and an answer takes 150
    /// ms and 5 ms a token.
    fn steady(adaptive: &mut Adaptive, start: Instant) -> Vec<(usize, Duration)> {
        let (mut now, mut waiting) = (start, 1);
        let answer = |_| {
            let after = Duration::from_millis(150 + 5 * waiting as u64);
            adaptive.polled(waiting, now);
            adaptive.acked(after);
            now += after;
            waiting = usize::try_from(after.as_millis() / 50).unwrap();
            adaptive.limits(1, 0)
        };
        (0..500).map(answer).collect()
    }

    #[test]
    fn limit_and_timeout_settle_and_return_after_an_outage_and_after_a_flood() {
        let mut adaptive = Adaptive::new(true, BOUNDS.0, BOUNDS.1);
        let start = Instant::now();
        assert_eq!(adaptive.limits(1, 0), (1, Duration::ZERO));
        for minutes in [0, 10, 20] {
            let settled = &steady(&mut adaptive, start + Duration::from_secs(60 * minutes))[100..];
            assert!(settled.iter().all(|(limit, _)| (3..=5).contains(limit)), "{settled:?}");
            assert!(settled.iter().all(|(_, timeout)| (150..=175).contains(&timeout.as_millis())));
            assert_eq!(adaptive.limits(0, 0), (1, Duration::ZERO));
            assert_eq!(adaptive.limits(1, 5).1, Duration::ZERO);
            // Nothing exceeds what is set.
            adaptive.polled(usize::MAX, start + Duration::from_secs(60 * minutes + 500));
            (0..50).for_each(|_| adaptive.acked(Duration::MAX));
            let (limit, timeout) = adaptive.limits(1, 0);
            assert!(
                limit == BOUNDS.0 && timeout <= BOUNDS.1 && timeout > BOUNDS.1 / 2,
                "{limit} {timeout:?}"
            );
        }
        let fixed = Adaptive::new(false, BOUNDS.0, BOUNDS.1);
        assert_eq!([fixed.limits(0, 0), fixed.limits(1, 100)], [BOUNDS; 2]);
    }
}
