//! Logs an outage when it begins, changes its cause and ends, not at every attempt; one that comes
//! and goes is counted. The caller passes the time in.

use std::time::{Duration, Instant};

use super::display::milliseconds;

/// No line for another cause within this time: while a server starts, causes alternate. An outage
/// within [`REMINDER`] of an earlier one is logged once it has lasted as long.
const QUIET: Duration = Duration::from_secs(10);

/// How often an outage that lasts, or comes again and again, is logged.
const REMINDER: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct OutageLog {
    activity: &'static str,
    outage: Option<Outage>,
    /// Whether outages that follow each other closely are counted instead of logged.
    counts: bool,
    /// When the last line was written that an outage begins or lasts, and how many began since
    /// without a line.
    logged: Option<Instant>,
    withheld: usize,
}

#[derive(Debug)]
pub(crate) struct Outage {
    pub(crate) since: Instant,
    pub(crate) failed: Instant,
    pub(crate) cause: String,
    logged: Option<Instant>,
}

/// What a line says of an outage.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    lasted: Duration,
    /// How many other outages began since the last line.
    others: usize,
}

impl OutageLog {
    /// For an activity such as "listening".
    pub(crate) fn of(activity: &'static str) -> Self {
        Self { activity, outage: None, counts: false, logged: None, withheld: 0 }
    }

    /// For an activity that can fail and succeed in turn for hours: a line when it fails after a
    /// quiet time, then one a minute.
    pub(crate) fn counting(activity: &'static str) -> Self {
        Self { counts: true, ..Self::of(activity) }
    }

    /// The outage that lasts.
    pub(crate) fn current(&self) -> Option<&Outage> {
        self.outage.as_ref()
    }

    pub(crate) fn failed(&mut self, cause: &str, now: Instant) {
        let activity = self.activity;
        let Some(Line { lasted, others }) = self.failure(cause, now) else { return };
        let still = if lasted.is_zero() { "" } else { "still " };
        let again = if others > 0 { "again and again " } else { "" };
        let count = (others > 0).then_some(others + 1);
        tracing::warn!(
            event = "outage",
            activity,
            reason = %cause,
            lasted_ms = milliseconds(lasted),
            count,
            "{still}{again}not {activity}, trying again"
        );
    }

    /// An attempt succeeded. Returns whether that ends an outage.
    pub(crate) fn over(&mut self, now: Instant) -> bool {
        let Some(outage) = self.outage.take() else { return false };
        if outage.logged.is_some() {
            let activity = self.activity;
            let lasted_ms = milliseconds(now.duration_since(outage.since));
            tracing::info!(event = "outage_over", activity, lasted_ms, "{activity} again");
        }
        true
    }

    /// What is to be logged now, if anything is.
    fn failure(&mut self, cause: &str, now: Instant) -> Option<Line> {
        let is_new = self.outage.is_none();
        let outage = self.outage.get_or_insert_with(|| Outage {
            since: now,
            failed: now,
            cause: cause.to_owned(),
            logged: None,
        });
        outage.failed = now;
        let is_logged = if let Some(logged) = outage.logged {
            let silence = now.duration_since(logged);
            silence >= REMINDER || outage.cause != cause && silence >= QUIET
        } else {
            let is_quiet = self.logged.is_none_or(|logged| now.duration_since(logged) >= REMINDER);
            !self.counts || is_quiet || now.duration_since(outage.since) >= QUIET
        };
        if outage.logged.is_none() || is_logged {
            cause.clone_into(&mut outage.cause);
        }
        if !is_logged {
            self.withheld += usize::from(is_new);
            return None;
        }
        // One that is logged late was counted when it began.
        let others = self.withheld - usize::from(!is_new && outage.logged.is_none());
        outage.logged = Some(now);
        self.logged = Some(now);
        self.withheld = 0;
        Some(Line { lasted: now.duration_since(outage.since), others })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::unnecessary_wraps, reason = "it is compared with what may be none")]
    fn line(seconds: u64, others: usize) -> Option<Line> {
        Some(Line { lasted: Duration::from_secs(seconds), others })
    }

    #[test]
    fn an_outage_is_logged_when_it_begins_once_a_minute_and_when_its_cause_changes() {
        for mut outage in [OutageLog::of("listening"), OutageLog::counting("listening")] {
            let (start, seconds) = (Instant::now(), Duration::from_secs);
            assert!(!outage.over(start));
            let logged =
                (0..=130).filter_map(|second| outage.failure("refused", start + seconds(second)));
            assert!(logged.eq([0, 60, 120].map(|second| line(second, 0).unwrap())));
            assert_eq!(outage.failure("starting up", start + seconds(129)), None);
            assert_eq!(outage.failure("starting up", start + seconds(130)), line(130, 0));
            assert_eq!(outage.failure("starting up", start + seconds(140)), None);
            assert!(outage.over(start + seconds(141)));
        }
    }

    #[test]
    fn outages_that_follow_each_other_are_counted_once_a_minute() {
        let (start, seconds) = (Instant::now(), Duration::from_secs);
        let mut outage = OutageLog::counting("sending");
        let mut logged = Vec::new();
        for second in 0..=125 {
            logged.extend(outage.failure("421", start + seconds(second)));
            assert!(outage.over(start + seconds(second)));
        }
        assert_eq!(logged, [line(0, 0), line(0, 59), line(0, 59)].map(Option::unwrap));
        // One that lasts is logged, also soon after.
        let begins = start + seconds(126);
        assert_eq!(outage.failure("421", begins), None);
        assert_eq!(outage.failure("421", begins + seconds(9)), None);
        assert_eq!(outage.failure("421", begins + seconds(10)), line(10, 5));
        assert!(outage.over(begins + seconds(11)));
        // Others are logged each time.
        let mut outage = OutageLog::of("collecting");
        for second in 0..3 {
            assert_eq!(outage.failure("refused", start + seconds(second)), line(0, 0));
            outage.over(start + seconds(second));
        }
    }
}
