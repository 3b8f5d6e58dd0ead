//! `mailroom status`: how much waits in the queue of deliveries, and since when, and whether that is an alarm.

use std::process::ExitCode;
use std::str::FromStr as _;
use std::time::Duration;

use mailroom_connect::{Schema, SchemaClient};
use serde_json::{Value, json};
use tokio_postgres::error::SqlState;

use super::{Outcome, connect_to_queue, print};
use crate::config::{SchemaSetting, TimeoutSettings};
use crate::log::display::{Counted, HumanDuration, milliseconds};
use crate::preflight;

const STATUS: &str = include_str!("status.sql");
const SENT: &str = include_str!("sent.sql");

/// How long a token may be due beyond the time for which batches fill.
const LATE: Duration = Duration::from_secs(60);

/// A batch that was claimed so many timeouts of the sender ago is an alarm.
const STUCK: u32 = 10;

#[derive(clap::Args)]
pub(crate) struct StatusArguments {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    timeouts: TimeoutSettings,

    #[command(flatten)]
    schema: SchemaSetting,
}

/// Ends with 0 if nothing is an alarm.
pub(crate) async fn run(StatusArguments { json, timeouts, schema }: StatusArguments) -> Outcome {
    let (client, _) = connect_to_queue(schema, "mailroom status", &["mailroom.status"]).await?;
    let sent = match query(&client, SENT).await {
        // Only this needs a right on a table.
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Value::Null,
        sent => sent?,
    };
    let (mut status, warnings) = (query(&client, STATUS).await?, preflight::warnings(&client).await?);
    // As docs/OPERATIONS.md lists them.
    let bounds = [
        ("queue.oldest_due_ms", milliseconds(timeouts.batch_timeout + LATE)),
        ("leases.oldest_ms", milliseconds(timeouts.sender_timeout * STUCK)),
        ("leases.lapsed", 0),
        ("dead_letters", 0),
        ("expired.last_hour", 0),
    ];
    let alarms = bounds.into_iter().filter(|(place, bound)| at(&status, place) > Some(*bound));
    let mut alarms: Vec<_> = alarms.map(|(place, _)| place).collect();
    if !warnings.is_empty() {
        alarms.push("warnings");
    }
    status["sent"] = sent;
    status["warnings"] = json!(warnings);
    status["alarms"] = json!(alarms);
    print(if json { status.to_string() } else { text(&status, &warnings, &alarms, &client.schema) })?;
    Ok(if alarms.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The number at a place such as `leases.oldest_ms`, unless it is null.
fn at(status: &Value, place: &str) -> Option<i64> {
    status.pointer(&format!("/{}", place.replace('.', "/")))?.as_i64()
}

fn text(status: &Value, warnings: &[String], alarms: &[&str], schema: &Schema) -> String {
    let number = |place| at(status, place).unwrap_or_default();
    let counted = |place, one, many| Counted(number(place), one, many);
    let tokens = |place| counted(place, "token", "tokens");
    let since = |place, what: &str| {
        at(status, place)
            .map_or_else(String::new, |oldest| format!(", the oldest {what} for {}", age(oldest)))
    };
    let (first, second, later) =
        (number("queue.first_due"), number("queue.second_due"), number("queue.later"));
    let (leased, batches) = (tokens("leases.tokens"), counted("leases.batches", "batch", "batches"));
    let (claimed_since, lapsed) = (since("leases.oldest_ms", "claimed"), number("leases.lapsed"));
    let (expired, last_hour) = (tokens("expired.logged"), number("expired.last_hour"));
    let sent = if status["sent"].is_null() {
        format!("unknown: this role may not read the table {schema}.delivery_attempts")
    } else {
        let (minute, hour) = (tokens("sent.last_minute"), number("sent.last_hour"));
        format!("{minute} within the last minute, {hour} within the last hour")
    };
    let mut lines = vec![
        ("waiting", format!("{}{}", tokens("queue.depth"), since("queue.oldest_due_ms", "due"))),
        ("", format!("{} due: {first} of priority 0, {second} of priority 1; {later} later", first + second)),
        (
            "deferred",
            format!("{}, until their subject is eligible and their action can be signed", tokens("deferred")),
        ),
        ("leased", format!("{leased} in {batches}{claimed_since}; {lapsed} lapsed")),
        ("dead", format!("{}; {} to suppressed addresses", tokens("dead_letters"), number("suppressed"))),
        ("expired", format!("{expired} unsent, {last_hour} of them within the last hour")),
        ("sent", sent),
    ];
    lines.extend(warnings.iter().map(|warning| ("warning", warning.clone())));
    if !alarms.is_empty() {
        lines.push(("alarm", alarms.join(", ")));
    }
    let lines: Vec<_> = lines.iter().map(|(name, text)| format!("{name:<10}{text}")).collect();
    lines.join("\n")
}

/// The object of a query's one row, which is the text of JSON.
async fn query(client: &SchemaClient, query: &str) -> Result<Value, tokio_postgres::Error> {
    let row = client.query_typed_one(query, &[]).await?;
    Ok(Value::from_str(row.try_get(0)?).expect("PostgreSQL makes valid JSON"))
}

/// Rounded down to whole days, hours, minutes or seconds, whichever there are at least two of.
fn age(milliseconds: i64) -> HumanDuration {
    let milliseconds = milliseconds.unsigned_abs();
    let fits = |unit: &u64| milliseconds >= 2 * unit;
    let unit = [86_400_000, 3_600_000, 60_000, 1_000].into_iter().find(fits).unwrap_or(1);
    HumanDuration(Duration::from_millis(milliseconds / unit * unit))
}
