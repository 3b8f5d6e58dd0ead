//! Keeps a sender that talks nonsense, and rows that cannot be sent, from filling the log.
//!
//! Pure policy: the caller passes the time in and writes the log line.

use std::fmt::{Display, Write};
use std::time::{Duration, Instant};

/// How many lines are written within [`WINDOW`].
const MOST: usize = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// How many tokens a line names whose record is elsewhere.
pub const NAMED: usize = 10;

/// What was written lately.
#[derive(Debug, Default)]
pub struct Complaints {
    since: Option<Instant>,
    written: usize,
    withheld: usize,
}

impl Complaints {
    /// Whether a line is written now; if so, how many were not since the last one.
    pub fn admit(&mut self, now: Instant) -> Option<usize> {
        if self.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            (self.since, self.written) = (Some(now), 0);
        }
        if self.written == MOST {
            self.withheld += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.withheld))
    }
}

/// The field of a line that counts those that were not written.
pub fn withheld(lines: usize) -> Option<usize> {
    (lines > 0).then_some(lines)
}

/// The ids of tokens, of which at most `most` are named.
pub fn ids<R>(tokens: &[(i64, R)], most: usize) -> Vec<i64> {
    tokens.iter().take(most).map(|(id, _)| *id).collect()
}

/// Tokens with the reason for each, of which at most `most` are named.
pub fn listed<R: Display>(tokens: &[(i64, R)], most: usize) -> String {
    let mut list = String::new();
    for (id, reason) in tokens.iter().take(most) {
        let separator = if list.is_empty() { "" } else { "; " };
        // Nothing is written but to memory.
        write!(list, "{separator}token {id}: {reason}").ok();
    }
    if let others @ 1.. = tokens.len().saturating_sub(most) {
        let others = if others == 1 { "1 other".to_owned() } else { format!("{others} others") };
        write!(list, "; and {others}").ok();
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_listed_with_their_reasons_and_the_others_counted() {
        let tokens = [(4, "no"), (7, "never"), (9, "no")];
        assert_eq!(listed(&tokens, 3), "token 4: no; token 7: never; token 9: no");
        assert_eq!(listed(&tokens, 1), "token 4: no; and 2 others");
        assert_eq!(listed(&tokens, 2), "token 4: no; token 7: never; and 1 other");
    }

    #[test]
    fn a_few_are_written_at_once_and_the_others_are_counted() {
        let start = Instant::now();
        let mut complaints = Complaints::default();
        let written = (0..1_000).filter(|_| complaints.admit(start) == Some(0)).count();
        assert_eq!(written, MOST);
        assert_eq!(complaints.admit(start + WINDOW), Some(1_000 - MOST));
        assert_eq!(complaints.admit(start + WINDOW), Some(0));
    }
}
