//! `mailroom status`: how much waits in the queue of deliveries, and since when, and whether that is an alarm.

use std::process::ExitCode;
use std::str::FromStr as _;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::session::connect_to_queue;
use super::{CommandError, Outcome, print};
use crate::config::TimeoutSettings;
use crate::log::display::Counted;
use crate::preflight;

const STATUS: &str = include_str!("status.sql");
const SENT: &str = include_str!("sent.sql");

/// How long a token may be due beyond the time for which batches fill.
const LATE: Duration = Duration::from_secs(60);

/// A batch that was claimed so many timeouts of the sender ago is an alarm.
const STUCK: u32 = 10;

/// Arguments of `mailroom status`.
#[derive(clap::Args)]
pub struct StatusArguments {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    timeouts: TimeoutSettings,
}

/// Ends with 0 if nothing is an alarm.
pub async fn run(StatusArguments { json, timeouts }: StatusArguments) -> Outcome {
    let (client, _) = connect_to_queue("mailroom status", &["mailroom_status"]).await?;
    let status = QueueStatus::read(&client, timeouts).await?;
    print(if json { status.json.to_string() } else { status.text() })?;
    Ok(if status.alarms.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the queue holds.
struct QueueStatus {
    /// As docs/OPERATIONS.md describes it, and as `status.sql` and `sent.sql` make it.
    json: Value,
    /// What keeps tokens from being made or sent.
    warnings: Vec<String>,
    /// The places of what is an alarm.
    alarms: Vec<&'static str>,
}

impl QueueStatus {
    async fn read(client: &Client, timeouts: TimeoutSettings) -> Result<Self, CommandError> {
        let sent = match query(client, SENT).await {
            // Only this needs a right on a table.
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Value::Null,
            sent => sent?,
        };
        let (json, warnings) = (query(client, STATUS).await?, preflight::warnings(client).await?);
        let mut status = Self { json, warnings, alarms: Vec::new() };
        let milliseconds = |age: Duration| i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        // As docs/OPERATIONS.md lists them.
        let bounds = [
            ("pending.oldest_due_ms", milliseconds(timeouts.batch_timeout + LATE)),
            ("leases.oldest_ms", milliseconds(timeouts.sender_timeout * STUCK)),
            ("leases.lapsed", 0),
            ("dead", 0),
            ("expired.last_hour", 0),
        ];
        let alarms = bounds.into_iter().filter(|(place, bound)| status.at(place) > Some(*bound));
        status.alarms = alarms.map(|(place, _)| place).collect();
        if !status.warnings.is_empty() {
            status.alarms.push("warnings");
        }
        status.json["sent"] = sent;
        status.json["warnings"] = json!(status.warnings);
        status.json["alarms"] = json!(status.alarms);
        Ok(status)
    }

    /// The number at a place such as `leases.oldest_ms`, unless it is null.
    fn at(&self, place: &str) -> Option<i64> {
        self.json.pointer(&format!("/{}", place.replace('.', "/")))?.as_i64()
    }

    /// As it is printed for people.
    fn text(&self) -> String {
        let number = |place| self.at(place).unwrap_or_default();
        let counted = |place, one, many| Counted(number(place), one, many);
        let tokens = |place| counted(place, "token", "tokens");
        let since = |place, what: &str| {
            self.at(place)
                .map_or_else(String::new, |oldest| format!(", the oldest {what} for {}", age(oldest)))
        };
        let recoveries = counted("pending.recoveries_due", "recovery", "recoveries");
        let activations = counted("pending.activations_due", "activation", "activations");
        let (due, later) = (recoveries.0 + activations.0, number("pending.later"));
        let (leased, batches) = (tokens("leases.tokens"), counted("leases.batches", "batch", "batches"));
        let (claimed_since, lapsed) = (since("leases.oldest_ms", "claimed"), number("leases.lapsed"));
        let (expired, last_hour) = (tokens("expired.logged"), number("expired.last_hour"));
        let sent = if self.json["sent"].is_null() {
            "unknown: this role may not read the table handovers".to_owned()
        } else {
            let (minute, hour) = (tokens("sent.last_minute"), number("sent.last_hour"));
            format!("{minute} within the last minute, {hour} within the last hour")
        };
        let mut lines = vec![
            ("waiting", format!("{}{}", tokens("pending.depth"), since("pending.oldest_due_ms", "due"))),
            ("", format!("{due} due: {recoveries}, {activations}; {later} later")),
            ("leased", format!("{leased} in {batches}{claimed_since}; {lapsed} lapsed")),
            ("parked", format!("{}, until their account's status is right", tokens("parked"))),
            ("dead", tokens("dead").to_string()),
            ("expired", format!("{expired} unsent, {last_hour} of them within the last hour")),
            ("sent", sent),
        ];
        lines.extend(self.warnings.iter().map(|warning| ("warning", warning.clone())));
        if !self.alarms.is_empty() {
            lines.push(("alarm", self.alarms.join(", ")));
        }
        let lines: Vec<_> = lines.iter().map(|(name, text)| format!("{name:<10}{text}")).collect();
        lines.join("\n")
    }
}

/// The object of a query's one row, which is the text of JSON.
async fn query(client: &Client, query: &str) -> Result<Value, tokio_postgres::Error> {
    let row = client.query_typed_one(query, &[]).await?;
    Ok(Value::from_str(row.try_get(0)?).expect("PostgreSQL makes valid JSON"))
}

/// Milliseconds in a unit that fits.
fn age(milliseconds: i64) -> String {
    match milliseconds / 1_000 {
        ..1 => format!("{milliseconds} ms"),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_shown_in_a_unit_that_fits() {
        let ages = [0, 999, 1_000, 119_999, 120_000, 7_200_000, 172_800_000].map(age);
        assert_eq!(ages, ["0 ms", "999 ms", "1 s", "119 s", "2 min", "2 h", "2 days"]);
    }
}
