//! Says that something is away, once a change and not once an attempt.
//!
//! Pure policy: the caller passes the time in and writes the log line.

use std::time::{Duration, Instant};

use crate::config::Span;

/// Another cause within this time is not worth a line: while a server starts, causes alternate.
const QUIET: Duration = Duration::from_secs(10);

/// How often a standing outage is told again.
const REMINDER: Duration = Duration::from_secs(60);

/// What is known of an outage.
#[derive(Debug)]
pub struct Outage {
    activity: String,
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
    pub fn of(activity: &str) -> Self {
        Self { activity: activity.to_owned(), standing: None }
    }

    /// An attempt failed. Returns a sentence if that is news.
    pub fn failed(&mut self, cause: &str, now: Instant) -> Option<String> {
        let activity = &self.activity;
        let Some(standing) = &mut self.standing else {
            self.standing = Some(Standing { since: now, said: now, cause: cause.to_owned() });
            return Some(format!("not {activity}: {cause}; trying again"));
        };
        let silence = now.duration_since(standing.said);
        let is_news = standing.cause != cause && silence >= QUIET;
        if !is_news && silence < REMINDER {
            return None;
        }
        standing.said = now;
        cause.clone_into(&mut standing.cause);
        let lasting = whole_seconds(now.duration_since(standing.since));
        Some(format!("still not {activity}, for {lasting} now: {cause}; trying again"))
    }

    /// An attempt succeeded. Returns a sentence if there was an outage.
    pub fn over(&mut self, now: Instant) -> Option<String> {
        let lasting = now.duration_since(self.standing.take()?.since);
        Some(if lasting < Duration::from_secs(1) {
            format!("{} again, after less than a second", self.activity)
        } else {
            format!("{} again, after {}", self.activity, whole_seconds(lasting))
        })
    }
}

fn whole_seconds(span: Duration) -> Span {
    Span(Duration::from_secs(span.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_said_when_it_begins_and_once_a_minute() {
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let mut outage = Outage::of("listening");
        assert_eq!(outage.over(start), None);
        let said: Vec<_> =
            (0..=130).filter_map(|second| outage.failed("refused", start + seconds(second))).collect();
        assert_eq!(
            said,
            [
                "not listening: refused; trying again",
                "still not listening, for 1m now: refused; trying again",
                "still not listening, for 2m now: refused; trying again",
            ]
        );
        assert_eq!(outage.over(start + seconds(131)).as_deref(), Some("listening again, after 131s"));
        assert_eq!(outage.over(start + seconds(132)), None);
        assert!(outage.failed("refused", start + seconds(133)).is_some());
        let over = outage.over(start + seconds(133) + Duration::from_millis(999));
        assert_eq!(over.as_deref(), Some("listening again, after less than a second"));
    }

    #[test]
    fn another_cause_is_said_after_a_while() {
        let start = Instant::now();
        let mut outage = Outage::of("listening");
        assert!(outage.failed("refused", start).is_some());
        assert_eq!(outage.failed("starting up", start + Duration::from_secs(9)), None);
        let said = outage.failed("starting up", start + QUIET);
        assert_eq!(said.as_deref(), Some("still not listening, for 10s now: starting up; trying again"));
        assert_eq!(outage.failed("starting up", start + 2 * QUIET), None);
    }
}
