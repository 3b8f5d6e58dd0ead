//! One line for Nagios, Icinga and what reads their format: "Monitoring Plugins Development
//! Guidelines", sections 2 and 2.6.

use std::fmt::Display;

use serde_json::Value;

use super::alarms::{Alarm, Bounds, Level, WATCHED, at};

/// Figures that are no alarms.
const OTHERS: [&str; 6] = [
    "queue.depth",
    "leases.tokens",
    "deferred",
    "suppressed",
    "sent.last_hour",
    "collectors.alive",
];

pub(super) fn line(status: &Value, alarms: &[Alarm], bounds: &Bounds) -> String {
    let worst = alarms.iter().map(|alarm| alarm.level).max();
    let state = match worst {
        None => "OK",
        Some(Level::Warning) => "WARNING",
        Some(Level::Critical) => "CRITICAL",
    };
    let mut said: Vec<_> = alarms.iter().map(|alarm| shown(status, alarm)).collect();
    if said.is_empty() {
        let depth = at(status, "queue.depth").unwrap_or_default();
        said.push(format!(
            "{depth} waiting, {} dead",
            at(status, "dead_letters").unwrap_or_default()
        ));
    }
    let watched = WATCHED.iter().map(|watched| {
        let [warning, critical] =
            watched.bounds(bounds).map(|bound| bound.map(|bound| bound.to_string()));
        let figure = figure(status, watched.place, watched.unit);
        format!("{figure};{};{}", warning.unwrap_or_default(), critical.unwrap_or_default())
    });
    let figures = watched.chain(OTHERS.iter().map(|place| figure(status, place, "")));
    format!("MAILROOM {state}: {} | {}", said.join(", "), figures.collect::<Vec<_>>().join(" "))
}

/// What is said if nothing can be looked at. A bar would begin the figures, and a second line is
/// long output.
pub(super) fn unknown(reason: impl Display) -> String {
    let reason: String =
        reason.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("MAILROOM UNKNOWN: {}", reason.replace('|', "/"))
}

fn shown(status: &Value, Alarm { place, level }: &Alarm) -> String {
    let value = at(status, place).unwrap_or_default();
    match place.strip_suffix("_ms") {
        Some(name) => format!("{name} {} s ({})", value / 1_000, level.name()),
        None => format!("{place} {value} ({})", level.name()),
    }
}

/// `U` stands for a figure that is not known.
fn figure(status: &Value, place: &str, unit: &str) -> String {
    at(status, place).map_or_else(|| format!("{place}=U"), |value| format!("{place}={value}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stays_one_line_and_begins_no_figures() {
        assert_eq!(unknown("a | b\nc"), "MAILROOM UNKNOWN: a / b c");
    }
}
