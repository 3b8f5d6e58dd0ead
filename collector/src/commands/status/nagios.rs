//! One line for Nagios, Icinga and what reads their format: "Monitoring Plugins Development
//! Guidelines", sections 2 and 2.6.

use std::fmt::Display;

use serde_json::Value;

use super::alarms::{Alarm, Bounds, WATCHED, at, worst};
use crate::commands::level::Level;

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
    let state = state(worst(alarms));
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

/// The lines of several databases as one, whose figures have the name of theirs before them. Each
/// has a name, its level, and its line or why there is none.
pub(super) fn of_several<'a>(
    worst: Level,
    lines: impl Iterator<Item = (&'a str, Level, &'a str)>,
) -> String {
    let (mut said, mut figures) = (Vec::new(), Vec::new());
    for (name, level, line) in lines {
        let (text, numbers) = line.split_once(" | ").unwrap_or((line, ""));
        let text = text
            .strip_prefix("MAILROOM ")
            .map_or_else(|| format!("{}: {}", state(level), in_a_line(text)), str::to_owned);
        said.push(format!("{} {text}", in_a_line(name)));
        figures.extend(numbers.split_whitespace().map(|figure| labelled(name, figure)));
    }
    format!("MAILROOM {}: {} | {}", state(worst), said.join("; "), figures.join(" "))
}

/// The word of the guidelines for a level.
pub(super) fn state(level: Level) -> String {
    level.name().to_uppercase()
}

/// A figure with the name of its database in its label. Section 2.6: such a label may have every
/// character but `=` and `'`, in quotes if it has a blank.
fn labelled(name: &str, figure: &str) -> String {
    let name: String = name
        .chars()
        .map(|sign| if "='|".contains(sign) || sign.is_control() { '_' } else { sign })
        .collect();
    let (label, value) = figure.split_once('=').unwrap_or((figure, "U"));
    format!("'{name}/{label}'={value}")
}

/// What is said if nothing can be looked at.
pub(super) fn unknown(reason: impl Display) -> String {
    format!("MAILROOM UNKNOWN: {}", in_a_line(&reason.to_string()))
}

/// A bar would begin the figures, and a second line is long output.
fn in_a_line(text: &str) -> String {
    let sign = |sign: char| match sign {
        '|' => '/',
        sign if sign.is_control() => ' ',
        sign => sign,
    };
    text.chars().map(sign).collect()
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
