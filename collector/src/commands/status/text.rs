//! What `mailroom status` prints for people.

use mailroom_connect::Schema;
use serde_json::Value;

use super::alarms::{Alarm, at};
use super::sentences::{DEFERRED, age, budget, described, formats, named, server, unsignable};
use crate::colour::{ERROR, WARNING};
use crate::log::display::Counted;

/// How many collectors are listed.
const LISTED: usize = 20;

pub(super) fn text(status: &Value, alarms: &[Alarm], schema: &Schema) -> String {
    let number = |place| at(status, place).unwrap_or_default();
    let counted = |place, one, many| Counted(number(place), one, many);
    let tokens = |place| counted(place, "token", "tokens");
    let since = |place, what: &str| {
        at(status, place)
            .map_or_else(String::new, |oldest| format!(", the oldest {what} for {}", age(oldest)))
    };
    let first = number("queue.first_due");
    let second = number("queue.second_due");
    let later = number("queue.later");
    let leased = tokens("leases.tokens");
    let batches = counted("leases.batches", "batch", "batches");
    let claimed_since = since("leases.oldest_ms", "claimed");
    let lapsed = number("leases.lapsed");
    let last_hour = number("expired.last_hour");
    let expired = tokens("expired.logged");
    let sent = if status["sent"].is_null() {
        format!("unknown: this role may not read the table {schema}.delivery_attempts")
    } else {
        let minute = tokens("sent.last_minute");
        let hour = number("sent.last_hour");
        format!("{minute} within the last minute, {hour} within the last hour")
    };
    let dead_last_hour = number("dead.last_hour");
    let dead = tokens("dead_letters");
    let suppressed = number("suppressed");
    let mut lines = vec![
        ("waiting", format!("{}{}", tokens("queue.depth"), since("queue.oldest_due_ms", "due"))),
        (
            "",
            format!(
                "{} due: {first} of priority 0, {second} of priority 1; {later} later",
                first + second
            ),
        ),
        ("deferred", format!("{}, {DEFERRED}", tokens("deferred"))),
        ("leased", format!("{leased} in {batches}{claimed_since}; {lapsed} lapsed")),
        (
            "dead",
            format!(
                "{dead}, {dead_last_hour} of them within the last hour; \
                 {suppressed} to suppressed addresses"
            ),
        ),
        ("expired", format!("{expired} unsent, {last_hour} of them within the last hour")),
        ("sent", sent),
        ("format", formats(status)),
        ("name", named(status)),
        ("server", server(status)),
    ];
    if number("handed_over.waiting") > 0 {
        let overdue = number("handed_over.overdue");
        lines.push((
            "broker",
            format!(
                "{} handed over{}; {overdue} have expired without a verdict",
                tokens("handed_over.waiting"),
                since("handed_over.oldest_ms", "waiting")
            ),
        ));
    }
    if let Some(budget) = budget(status) {
        lines.push(("budget", budget));
    }
    let unsigned = status["unsigned"].as_array().map(Vec::as_slice).unwrap_or_default();
    lines.extend(unsigned.iter().map(|alike| ("unsigned", unsignable(alike))));
    let collectors = status["collectors"]["list"].as_array().map(Vec::as_slice).unwrap_or_default();
    lines.extend(
        collectors.iter().take(LISTED).map(|collector| ("collector", described(collector))),
    );
    let warnings = status["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    lines.extend(
        warnings.iter().map(|warning| ("warning", warning.as_str().unwrap_or_default().to_owned())),
    );
    lines.extend(
        alarms.iter().map(|alarm| ("alarm", format!("{} ({})", alarm.place, alarm.level.name()))),
    );
    let lines: Vec<_> = lines.iter().map(|(name, text)| line(name, text)).collect();
    lines.join("\n")
}

/// A line, whose name is coloured if it is about something that is wrong.
fn line(name: &str, text: &str) -> String {
    match name {
        "alarm" => format!("{ERROR}{name:<10}{ERROR:#}{text}"),
        "warning" => format!("{WARNING}{name:<10}{WARNING:#}{text}"),
        _ => format!("{name:<10}{text}"),
    }
}
