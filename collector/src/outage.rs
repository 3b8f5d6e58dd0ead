//! Says that something is away, once a change and not once an attempt.
//!
//! Pure policy: the caller passes the time in and writes the log line.

use std::time::{Duration, Instant};

/// Another cause within this time is not worth a line: while a server starts, causes alternate.
const QUIET: Duration = Duration::from_secs(10);

/// How often a standing outage is told again.
const REMINDER: Duration = Duration::from_secs(60);

/// What is known of an outage.
#[derive(Debug, Default)]
pub struct Outage {
    standing: Option<Standing>,
}

#[derive(Debug)]
struct Standing {
    since: Instant,
    said: Instant,
    cause: String,
}

impl Outage {
    /// An attempt failed. Returns how long the outage lasts by now, if that is to be said.
    pub fn failed(&mut self, cause: &str, now: Instant) -> Option<Duration> {
        let Some(standing) = &mut self.standing else {
            self.standing = Some(Standing { since: now, said: now, cause: cause.to_owned() });
            return Some(Duration::ZERO);
        };
        let silence = now.duration_since(standing.said);
        let is_news = standing.cause != cause && silence >= QUIET;
        if !is_news && silence < REMINDER {
            return None;
        }
        standing.said = now;
        cause.clone_into(&mut standing.cause);
        Some(now.duration_since(standing.since))
    }

    /// An attempt succeeded. Returns how long the outage lasted, if there was one.
    pub fn over(&mut self, now: Instant) -> Option<Duration> {
        self.standing.take().map(|standing| now.duration_since(standing.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_said_when_it_begins_and_once_a_minute() {
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let mut outage = Outage::default();
        assert_eq!(outage.over(start), None);
        let said: Vec<_> =
            (0..=180).filter(|second| outage.failed("refused", start + seconds(*second)).is_some()).collect();
        assert_eq!(said, [0, 60, 120, 180]);
        assert_eq!(outage.over(start + seconds(181)), Some(seconds(181)));
        assert_eq!(outage.failed("refused", start + seconds(182)), Some(Duration::ZERO));
    }

    #[test]
    fn another_cause_is_said_after_a_while() {
        let start = Instant::now();
        let mut outage = Outage::default();
        outage.failed("refused", start);
        assert_eq!(outage.failed("starting up", start + Duration::from_secs(9)), None);
        assert_eq!(outage.failed("starting up", start + QUIET), Some(QUIET));
        assert_eq!(outage.failed("starting up", start + 2 * QUIET), None);
    }
}
