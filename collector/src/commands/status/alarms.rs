//! Which figures of `mailroom status` are an alarm: docs/reference/status.md lists the same,
//! and a test compares them.

use std::time::Duration;

use serde_json::Value;

use crate::commands::level::Level;
use crate::config::TimeoutSettings;
use crate::log::display::milliseconds;
use crate::sink::MAX_WORK;

/// How long a mail may be due beyond the time for which batches fill.
const LATE: Duration = Duration::from_secs(60);
const VERY_LATE: Duration = Duration::from_secs(300);

/// How long a sender may be unavailable: a mail server that is restarted is no alarm.
const UNAVAILABLE: Duration = Duration::from_secs(30);
const LONG_UNAVAILABLE: Duration = Duration::from_secs(300);

/// How long a mail may be in doubt: longer than the pauses between its attempts.
const LONG_IN_DOUBT: Duration = Duration::from_secs(600);

/// Percent of a month's budget that may be used.
const NEARLY_SPENT: i64 = 90;

/// A batch that was claimed so many timeouts of the sender ago is an alarm.
const STUCK: u32 = 10;

/// What the bounds depend on.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Bounds {
    pub(in crate::commands) timeouts: TimeoutSettings,
    pub(in crate::commands) max_dead: Option<i64>,
}

/// A figure, by its path in the JSON, and the bounds above which it is an alarm; what is no number
/// counts its elements.
pub(super) struct Watched {
    pub(super) place: &'static str,
    pub(super) unit: &'static str,
    warning: fn(&Bounds) -> Option<i64>,
    critical: fn(&Bounds) -> Option<i64>,
}

const NONE: fn(&Bounds) -> Option<i64> = |_| None;
const ANY: fn(&Bounds) -> Option<i64> = |_| Some(0);

pub(super) const WATCHED: [Watched; 16] = [
    Watched {
        place: "queue.oldest_due_ms",
        unit: "ms",
        warning: |bounds| Some(milliseconds(bounds.timeouts.batch_timeout + LATE)),
        critical: |bounds| Some(milliseconds(bounds.timeouts.batch_timeout + VERY_LATE)),
    },
    Watched {
        place: "leases.oldest_ms",
        unit: "ms",
        warning: |bounds| Some(milliseconds(stuck(bounds.timeouts.sender_timeout))),
        critical: NONE,
    },
    Watched { place: "leases.lapsed", unit: "", warning: ANY, critical: NONE },
    Watched {
        place: "collectors.unavailable_ms",
        unit: "ms",
        warning: |_| Some(milliseconds(UNAVAILABLE)),
        critical: |_| Some(milliseconds(LONG_UNAVAILABLE)),
    },
    Watched { place: "collectors.lost", unit: "", warning: ANY, critical: NONE },
    Watched { place: "collectors.all_lost", unit: "", warning: NONE, critical: ANY },
    Watched {
        place: "in_doubt.oldest_ms",
        unit: "ms",
        warning: |_| Some(milliseconds(LONG_IN_DOUBT)),
        critical: NONE,
    },
    Watched { place: "in_doubt.dead_last_hour", unit: "", warning: ANY, critical: NONE },
    Watched { place: "dead.last_hour", unit: "", warning: ANY, critical: NONE },
    Watched { place: "dead_letters", unit: "", warning: |bounds| bounds.max_dead, critical: NONE },
    Watched { place: "expired.last_hour", unit: "", warning: NONE, critical: ANY },
    Watched { place: "handed_over.overdue_last_hour", unit: "", warning: ANY, critical: NONE },
    Watched { place: "unsignable", unit: "", warning: NONE, critical: ANY },
    Watched { place: "collectors.token_formats", unit: "", warning: |_| Some(1), critical: NONE },
    Watched {
        place: "budget.used_percent",
        unit: "%",
        warning: |_| Some(NEARLY_SPENT),
        critical: |_| Some(99),
    },
    Watched { place: "warnings", unit: "", warning: NONE, critical: ANY },
];

/// How long a batch may be claimed: until a sender that says
/// that it is at work counts as silent, too.
fn stuck(sender_timeout: Duration) -> Duration {
    (sender_timeout * STUCK).max(MAX_WORK + sender_timeout)
}

impl Watched {
    /// The bounds of a warning and of a critical alarm.
    pub(super) fn bounds(&self, bounds: &Bounds) -> [Option<i64>; 2] {
        [(self.warning)(bounds), (self.critical)(bounds)]
    }

    /// What kind of alarm the figure is, if it is one.
    fn level(&self, status: &Value, bounds: &Bounds) -> Option<Level> {
        let value = at(status, self.place)?;
        let [warning, critical] =
            self.bounds(bounds).map(|bound| bound.is_some_and(|bound| value > bound));
        if critical {
            return Some(Level::Critical);
        }
        warning.then_some(Level::Warning)
    }
}

pub(in crate::commands) struct Alarm {
    pub(in crate::commands) place: &'static str,
    pub(in crate::commands) level: Level,
}

/// The worst of all.
pub(super) fn worst(alarms: &[Alarm]) -> Level {
    alarms.iter().map(|alarm| alarm.level).max().unwrap_or_default()
}

/// The alarms in the order of [`WATCHED`].
pub(in crate::commands) fn alarms(status: &Value, bounds: &Bounds) -> Vec<Alarm> {
    let alarm = |watched: &Watched| {
        let level = watched.level(status, bounds)?;
        Some(Alarm { place: watched.place, level })
    };
    WATCHED.iter().filter_map(alarm).collect()
}

/// The number at a place such as `leases.oldest_ms`,
/// or how long the list there is; `None` for null.
pub(in crate::commands) fn at(status: &Value, place: &str) -> Option<i64> {
    match status.pointer(&format!("/{}", place.replace('.', "/")))? {
        Value::Array(list) => i64::try_from(list.len()).ok(),
        value => value.as_i64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which alarms the document lists, with the level of each.
    #[test]
    fn the_table_of_the_documents_has_every_alarm_with_its_bounds() {
        let document = include_str!("../../../../docs/reference/status.md");
        let rows = document.lines().skip_while(|line| !line.starts_with("| alarm ")).skip(2);
        let rows = rows.take_while(|line| line.starts_with('|'));
        let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
        let documented: Vec<_> =
            cells.map(|cells| [cells[1], cells[2], cells[3]].map(str::to_owned)).collect();
        let timeouts = TimeoutSettings {
            batch_timeout: Duration::from_secs(5),
            sender_timeout: Duration::from_secs(30),
        };
        let bounds = Bounds { timeouts, max_dead: Some(i64::MAX) };
        let shown = |watched: &Watched, bound: Option<i64>| match bound {
            None => String::new(),
            Some(i64::MAX) => "N".to_owned(),
            Some(bound) if watched.unit == "%" => format!("{bound}%"),
            Some(bound) if watched.unit == "ms" => format!("{} s", bound / 1_000),
            Some(bound) => bound.to_string(),
        };
        let row = |watched: &Watched| {
            let [warning, critical] = watched.bounds(&bounds).map(|bound| shown(watched, bound));
            [format!("`{}`", watched.place), warning, critical]
        };
        assert_eq!(documented, WATCHED.iter().map(row).collect::<Vec<_>>());
    }
}
