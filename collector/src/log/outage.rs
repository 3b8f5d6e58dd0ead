//! Logs an outage when it begins, changes its cause and ends, not at every attempt. The caller passes the time in.

use std::time::{Duration, Instant};

use super::display::milliseconds;

/// No line for another cause within this time: while a server starts, causes alternate.
const QUIET: Duration = Duration::from_secs(10);

/// How often an outage that lasts is logged again.
const REMINDER: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct OutageLog {
    activity: &'static str,
    outage: Option<Outage>,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    logged: Instant,
    cause: String,
}

impl OutageLog {
    /// For an activity such as "listening".
    pub(crate) fn of(activity: &'static str) -> Self {
        Self { activity, outage: None }
    }

    pub(crate) fn failed(&mut self, cause: &str, now: Instant) {
        let activity = self.activity;
        let Some(lasted) = self.failure(cause, now) else { return };
        let still = if lasted.is_zero() { "" } else { "still " };
        let lasted_ms = milliseconds(lasted);
        tracing::warn!(event = "outage", activity, reason = %cause, lasted_ms, "{still}not {activity}, trying again");
    }

    /// An attempt succeeded. Returns whether that ends an outage.
    pub(crate) fn over(&mut self, now: Instant) -> bool {
        let Some(outage) = self.outage.take() else { return false };
        let activity = self.activity;
        let lasted_ms = milliseconds(now.duration_since(outage.since));
        tracing::info!(event = "outage_over", activity, lasted_ms, "{activity} again");
        true
    }

    /// How long the outage has lasted if that is to be logged now.
    fn failure(&mut self, cause: &str, now: Instant) -> Option<Duration> {
        let Some(outage) = &mut self.outage else {
            self.outage = Some(Outage { since: now, logged: now, cause: cause.to_owned() });
            return Some(Duration::ZERO);
        };
        let silence = now.duration_since(outage.logged);
        let is_news = outage.cause != cause && silence >= QUIET;
        if !is_news && silence < REMINDER {
            return None;
        }
        outage.logged = now;
        cause.clone_into(&mut outage.cause);
        Some(now.duration_since(outage.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_logged_when_it_begins_once_a_minute_and_when_its_cause_changes() {
        let (start, seconds) = (Instant::now(), Duration::from_secs);
        let mut outage = OutageLog::of("listening");
        assert!(!outage.over(start));
        let logged = (0..=130).filter_map(|second| outage.failure("refused", start + seconds(second)));
        assert!(logged.eq([0, 60, 120].map(seconds)));
        assert_eq!(outage.failure("starting up", start + seconds(129)), None);
        assert_eq!(outage.failure("starting up", start + seconds(130)), Some(seconds(130)));
        assert_eq!(outage.failure("starting up", start + seconds(140)), None);
        assert!(outage.over(start + seconds(141)));
        assert_eq!(outage.failure("refused", start + seconds(143)), Some(Duration::ZERO));
    }
}
