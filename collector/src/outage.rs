//! Logs that something is away, once a change and not once an attempt. The caller passes the time in.

use std::time::{Duration, Instant};

/// Another cause within this time is not worth a line: while a server starts, causes alternate.
const QUIET: Duration = Duration::from_secs(10);

/// How often a standing outage is told again.
const REMINDER: Duration = Duration::from_secs(60);

/// What is known of an outage.
#[derive(Debug)]
pub struct Outage {
    activity: &'static str,
    standing: Option<Standing>,
}

#[derive(Debug)]
struct Standing {
    since: Instant,
    said: Instant,
    cause: String,
}

impl Outage {
    /// None yet of an activity, such as "listening".
    pub fn of(activity: &'static str) -> Self {
        Self { activity, standing: None }
    }

    /// An attempt failed. That is logged if it is news.
    pub fn failed(&mut self, cause: &str, now: Instant) {
        let activity = self.activity;
        let Some(lasted) = self.failure(cause, now) else { return };
        let still = if lasted.is_zero() { "" } else { "still " };
        let lasted_ms = milliseconds(lasted);
        tracing::warn!(event = "outage", activity, reason = %cause, lasted_ms, "{still}not {activity}, trying again");
    }

    /// An attempt succeeded. That is logged if there was an outage; answers whether there was.
    pub fn over(&mut self, now: Instant) -> bool {
        let Some(standing) = self.standing.take() else { return false };
        let activity = self.activity;
        let lasted_ms = milliseconds(now.duration_since(standing.since));
        tracing::info!(event = "outage_over", activity, lasted_ms, "{activity} again");
        true
    }

    /// How long the outage has lasted if that is to be said now.
    fn failure(&mut self, cause: &str, now: Instant) -> Option<Duration> {
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
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_said_when_it_begins_and_once_a_minute() {
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let mut outage = Outage::of("listening");
        assert!(!outage.over(start));
        let said: Vec<_> =
            (0..=130).filter_map(|second| outage.failure("refused", start + seconds(second))).collect();
        assert_eq!(said, [0, 60, 120].map(seconds));
        assert!(outage.over(start + seconds(131)));
        assert!(!outage.over(start + seconds(132)));
        assert_eq!(outage.failure("refused", start + seconds(133)), Some(Duration::ZERO));
    }

    #[test]
    fn another_cause_is_said_after_a_while() {
        let start = Instant::now();
        let mut outage = Outage::of("listening");
        assert_eq!(outage.failure("refused", start), Some(Duration::ZERO));
        assert_eq!(outage.failure("starting up", start + Duration::from_secs(9)), None);
        assert_eq!(outage.failure("starting up", start + QUIET), Some(QUIET));
        assert_eq!(outage.failure("starting up", start + 2 * QUIET), None);
    }
}
