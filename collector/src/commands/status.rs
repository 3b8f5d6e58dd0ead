//! `mailroom status`: how much waits in the queue of deliveries, and since when, and whether that is an alarm.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::session::connect_to_queue;
use super::{CommandError, Outcome};
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

/// What the queue holds, as it is printed in JSON.
#[derive(Serialize)]
struct QueueStatus {
    pending: PendingStatus,
    leases: LeaseStatus,
    parked: i64,
    dead: i64,
    expired: ExpiredStatus,
    /// Seconds since the Unix epoch.
    log_since: i64,
    /// What keeps tokens from being made or sent.
    warnings: Vec<String>,
    /// `None` if the role may not read the log.
    sent: Option<SentStatus>,
    /// The names of what is an alarm.
    alarms: Vec<&'static str>,
}

#[derive(Serialize)]
struct PendingStatus {
    depth: i64,
    recoveries_due: i64,
    activations_due: i64,
    later: i64,
    oldest_due_ms: Option<i64>,
}

#[derive(Serialize)]
struct LeaseStatus {
    batches: i64,
    tokens: i64,
    lapsed: i64,
    oldest_ms: Option<i64>,
}

#[derive(Serialize)]
struct ExpiredStatus {
    logged: i64,
    last_hour: i64,
}

#[derive(Serialize)]
struct SentStatus {
    last_minute: i64,
    last_hour: i64,
}

/// Ends with 0 if nothing is an alarm.
pub async fn run(arguments: StatusArguments) -> Outcome {
    let (client, _) = connect_to_queue("mailroom status", &["mailroom_status"]).await?;
    let mut status = QueueStatus::read(&client).await?;
    status.alarms = status.alarms(arguments.timeouts);
    let text = if arguments.json { json!(status).to_string() } else { status.to_string() };
    writeln!(io::stdout(), "{text}").map_err(CommandError::Output)?;
    Ok(if status.alarms.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl QueueStatus {
    async fn read(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let warnings = preflight::warnings(client).await?;
        let row = client.query_typed_one(STATUS, &[]).await?;
        let (recoveries_due, activations_due, later) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let sent = match client.query_typed_one(SENT, &[]).await {
            Ok(row) => Some(SentStatus { last_minute: row.try_get(0)?, last_hour: row.try_get(1)? }),
            // Only this needs a right on a table.
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            pending: PendingStatus {
                depth: recoveries_due + activations_due + later,
                recoveries_due,
                activations_due,
                later,
                oldest_due_ms: row.try_get(3)?,
            },
            leases: LeaseStatus {
                batches: row.try_get(4)?,
                tokens: row.try_get(5)?,
                lapsed: row.try_get(6)?,
                oldest_ms: row.try_get(7)?,
            },
            parked: row.try_get(8)?,
            dead: row.try_get(9)?,
            expired: ExpiredStatus { logged: row.try_get(10)?, last_hour: row.try_get(11)? },
            log_since: row.try_get(12)?,
            warnings,
            sent,
            alarms: Vec::new(),
        })
    }

    /// As docs/OPERATIONS.md lists them.
    fn alarms(&self, timeouts: TimeoutSettings) -> Vec<&'static str> {
        let above = |age: Option<i64>, bound: Duration| {
            age.is_some_and(|age| u128::try_from(age).is_ok_and(|age| age > bound.as_millis()))
        };
        let alarms = [
            ("pending.oldest_due_ms", above(self.pending.oldest_due_ms, timeouts.batch_timeout + LATE)),
            ("leases.oldest_ms", above(self.leases.oldest_ms, timeouts.sender_timeout * STUCK)),
            ("leases.lapsed", self.leases.lapsed > 0),
            ("dead", self.dead > 0),
            ("expired.last_hour", self.expired.last_hour > 0),
            ("warnings", !self.warnings.is_empty()),
        ];
        alarms.into_iter().filter_map(|(name, is_true)| is_true.then_some(name)).collect()
    }
}

impl fmt::Display for QueueStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pending, leases, expired, .. } = self;
        let since = |oldest: Option<i64>, what: &str| {
            oldest.map_or_else(String::new, |oldest| format!(", the oldest {what} for {}", Age(oldest)))
        };
        let tokens = |count| Counted(count, "token", "tokens");
        let recoveries = Counted(pending.recoveries_due, "recovery", "recoveries");
        let activations = Counted(pending.activations_due, "activation", "activations");
        let (due, later) = (pending.recoveries_due + pending.activations_due, pending.later);
        let batches = Counted(leases.batches, "batch", "batches");
        let (due_since, claimed_since) =
            (since(pending.oldest_due_ms, "due"), since(leases.oldest_ms, "claimed"));
        writeln!(f, "waiting   {}{due_since}", tokens(pending.depth))?;
        writeln!(f, "          {due} due: {recoveries}, {activations}; {later} later")?;
        writeln!(
            f,
            "leased    {} in {batches}{claimed_since}; {} lapsed",
            tokens(leases.tokens),
            leases.lapsed
        )?;
        writeln!(f, "parked    {}, until their account's status is right", tokens(self.parked))?;
        writeln!(f, "dead      {}", tokens(self.dead))?;
        let expired_last_hour = expired.last_hour;
        writeln!(
            f,
            "expired   {} unsent, {expired_last_hour} of them within the last hour",
            tokens(expired.logged)
        )?;
        match &self.sent {
            Some(SentStatus { last_minute, last_hour }) => {
                let last_minute = tokens(*last_minute);
                write!(
                    f,
                    "sent      {last_minute} within the last minute, {last_hour} within the last hour"
                )?;
            }
            None => write!(f, "sent      unknown: this role may not read the table handovers")?,
        }
        self.warnings.iter().try_for_each(|warning| write!(f, "\nwarning   {warning}"))?;
        if self.alarms.is_empty() { Ok(()) } else { write!(f, "\nalarm     {}", self.alarms.join(", ")) }
    }
}

/// Milliseconds in a unit that fits.
struct Age(i64);

impl fmt::Display for Age {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1_000;
        match seconds {
            ..1 => write!(formatter, "{} ms", self.0),
            1..120 => write!(formatter, "{seconds} s"),
            120..7_200 => write!(formatter, "{} min", seconds / 60),
            7_200..172_800 => write!(formatter, "{} h", seconds / 3_600),
            _ => write!(formatter, "{} days", seconds / 86_400),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_shown_in_a_unit_that_fits() {
        for (milliseconds, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (119_999, "119 s"),
            (120_000, "2 min"),
            (7_200_000, "2 h"),
            (172_800_000, "2 days"),
        ] {
            assert_eq!(Age(milliseconds).to_string(), text);
        }
    }
}
