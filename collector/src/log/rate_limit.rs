//! A limit on log lines of one kind. The caller passes the time in and writes the line.

use std::time::{Duration, Instant};

/// How many lines are written within [`WINDOW`].
const MOST: usize = 10;
const WINDOW: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    since: Option<Instant>,
    written: usize,
    withheld: usize,
}

impl RateLimiter {
    /// Whether a line is written now; if so, how many were not since the last one.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<usize> {
        if self.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            self.since = Some(now);
            self.written = 0;
        }
        if self.written == MOST {
            self.withheld += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.withheld))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_written_at_once_and_the_others_are_counted() {
        let start = Instant::now();
        let mut limiter = RateLimiter::default();
        assert_eq!((0..1_000).filter(|_| limiter.admit(start) == Some(0)).count(), MOST);
        assert_eq!(limiter.admit(start + WINDOW), Some(1_000 - MOST));
        assert_eq!(limiter.admit(start + WINDOW), Some(0));
    }
}
