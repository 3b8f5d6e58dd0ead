//! A limit on log lines of one kind. The caller passes the time in and writes the line.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many lines are written within [`WINDOW`].
const MAX_LINES: usize = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts the lines of one kind; threads may share it.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    since: Option<Instant>,
    written: usize,
    withheld: usize,
}

impl LogLimit {
    /// Whether a line is written now; if so, how many were not since the last one.
    pub fn admit(&self, now: Instant) -> Option<usize> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            lines.since = Some(now);
            lines.written = 0;
        }
        if lines.written == MAX_LINES {
            lines.withheld += 1;
            return None;
        }
        lines.written += 1;
        Some(std::mem::take(&mut lines.withheld))
    }
}

/// The number of lines that were not written, as a line has it: only if there are any.
pub fn withheld(lines: usize) -> Option<usize> {
    (lines > 0).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_written_at_once_and_the_others_are_counted() {
        let start = Instant::now();
        let limit = LogLimit::default();
        assert_eq!((0..1_000).filter(|_| limit.admit(start) == Some(0)).count(), MAX_LINES);
        assert_eq!(limit.admit(start + WINDOW), Some(1_000 - MAX_LINES));
        assert_eq!(limit.admit(start + WINDOW), Some(0));
    }
}
