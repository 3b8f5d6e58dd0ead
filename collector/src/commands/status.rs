//! `mailroom status`: how much waits in the queue of deliveries, and since when, and whether that is an alarm.

use std::fmt;
use std::io::{self, Write as _};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row};

use super::operator::{Error, connect};
use crate::config::{Timeouts, process_variables};
use crate::counted::Counted;
use crate::preflight;

const STATUS: &str = include_str!("status.sql");
const SENT: &str = include_str!("sent.sql");

/// How long a token may be due beyond the time for which batches fill.
const LATE: Duration = Duration::from_secs(60);

/// A batch that was claimed so many timeouts of the sender ago.
const STUCK: u32 = 10;

/// Arguments of `mailroom status`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Arguments {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// What the queue holds. Times are in milliseconds, but for `log_since`.
#[derive(Debug)]
struct Status {
    recoveries_due: i64,
    activations_due: i64,
    later: i64,
    oldest_due: Option<i64>,
    leases: i64,
    leased_tokens: i64,
    lapsed_leases: i64,
    oldest_lease: Option<i64>,
    parked: i64,
    dead: i64,
    expired: i64,
    expired_last_hour: i64,
    /// Seconds since the Unix epoch.
    log_since: i64,
    /// What keeps tokens from being made or sent.
    warnings: Vec<String>,
    /// `None` if the role may not read the log.
    sent: Option<Sent>,
    /// The names in JSON of what is an alarm.
    alarms: Vec<&'static str>,
}

/// How many tokens were sent.
#[derive(Debug)]
struct Sent {
    last_minute: i64,
    last_hour: i64,
}

/// Runs the command; answers whether nothing is an alarm.
pub async fn run(arguments: Arguments) -> Result<bool, Error> {
    let timeouts = Timeouts::read(&process_variables)?;
    let client = connect("mailroom status", &["mailroom_status"]).await?.client;
    let warnings = preflight::warnings(&client).await?;
    let mut status = Status::read(&client.query_typed_one(STATUS, &[]).await?, warnings)?;
    status.sent = Sent::read(&client).await?;
    status.alarms = status.alarms(timeouts);
    let text = if arguments.json { status.as_json() } else { status.to_string() };
    writeln!(io::stdout(), "{text}")?;
    Ok(status.alarms.is_empty())
}

impl Sent {
    async fn read(client: &Client) -> Result<Option<Self>, Error> {
        match client.query_typed_one(SENT, &[]).await {
            Ok(row) => Ok(Some(Self { last_minute: row.try_get(0)?, last_hour: row.try_get(1)? })),
            // Only this needs a right on a table.
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Status {
    fn read(row: &Row, warnings: Vec<String>) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            warnings,
            recoveries_due: row.try_get(0)?,
            activations_due: row.try_get(1)?,
            later: row.try_get(2)?,
            oldest_due: row.try_get(3)?,
            leases: row.try_get(4)?,
            leased_tokens: row.try_get(5)?,
            lapsed_leases: row.try_get(6)?,
            oldest_lease: row.try_get(7)?,
            parked: row.try_get(8)?,
            dead: row.try_get(9)?,
            expired: row.try_get(10)?,
            expired_last_hour: row.try_get(11)?,
            log_since: row.try_get(12)?,
            sent: None,
            alarms: Vec::new(),
        })
    }

    /// As docs/OPERATIONS.md lists them.
    fn alarms(&self, timeouts: Timeouts) -> Vec<&'static str> {
        let above = |age: Option<i64>, bound: Duration| {
            age.is_some_and(|age| u128::try_from(age).is_ok_and(|age| age > bound.as_millis()))
        };
        let alarms = [
            ("pending.oldest_due_ms", above(self.oldest_due, timeouts.batch + LATE)),
            ("leases.oldest_ms", above(self.oldest_lease, timeouts.sender * STUCK)),
            ("leases.lapsed", self.lapsed_leases > 0),
            ("dead", self.dead > 0),
            ("expired.last_hour", self.expired_last_hour > 0),
            ("warnings", !self.warnings.is_empty()),
        ];
        alarms.into_iter().filter_map(|(name, is_true)| is_true.then_some(name)).collect()
    }

    fn depth(&self) -> i64 {
        self.recoveries_due + self.activations_due + self.later
    }

    fn as_json(&self) -> String {
        json!({
            "pending": {
                "depth": self.depth(),
                "recoveries_due": self.recoveries_due,
                "activations_due": self.activations_due,
                "later": self.later,
                "oldest_due_ms": self.oldest_due,
            },
            "leases": {
                "batches": self.leases,
                "tokens": self.leased_tokens,
                "lapsed": self.lapsed_leases,
                "oldest_ms": self.oldest_lease,
            },
            "parked": self.parked,
            "dead": self.dead,
            "expired": { "logged": self.expired, "last_hour": self.expired_last_hour },
            "log_since": self.log_since,
            "warnings": self.warnings,
            "sent": self.sent.as_ref().map(|sent| json!({
                "last_minute": sent.last_minute,
                "last_hour": sent.last_hour,
            })),
            "alarms": self.alarms,
        })
        .to_string()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let due = self.recoveries_due + self.activations_due;
        let since = |oldest: Option<i64>, what: &str| {
            oldest.map_or_else(String::new, |oldest| format!(", the oldest {what} for {}", Lasting(oldest)))
        };
        let tokens = |count| Counted(count, "token", "tokens");
        writeln!(formatter, "waiting   {}{}", tokens(self.depth()), since(self.oldest_due, "due"))?;
        writeln!(
            formatter,
            "          {due} due: {}, {}; {} later",
            Counted(self.recoveries_due, "recovery", "recoveries"),
            Counted(self.activations_due, "activation", "activations"),
            self.later
        )?;
        writeln!(
            formatter,
            "leased    {} in {}{}; {} lapsed",
            tokens(self.leased_tokens),
            Counted(self.leases, "batch", "batches"),
            since(self.oldest_lease, "claimed"),
            self.lapsed_leases
        )?;
        writeln!(formatter, "parked    {}, until their account's status is right", tokens(self.parked))?;
        writeln!(formatter, "dead      {}", tokens(self.dead))?;
        writeln!(
            formatter,
            "expired   {} unsent, {} of them within the last hour",
            tokens(self.expired),
            self.expired_last_hour
        )?;
        match &self.sent {
            Some(sent) => write!(
                formatter,
                "sent      {} within the last minute, {} within the last hour",
                tokens(sent.last_minute),
                sent.last_hour
            )?,
            None => write!(formatter, "sent      unknown: this role may not read the table handovers")?,
        }
        self.warnings.iter().try_for_each(|warning| write!(formatter, "\nwarning   {warning}"))?;
        if self.alarms.is_empty() {
            Ok(())
        } else {
            write!(formatter, "\nalarm     {}", self.alarms.join(", "))
        }
    }
}

/// Milliseconds as a person says them.
struct Lasting(i64);

impl fmt::Display for Lasting {
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
    fn times_are_said_in_a_unit_that_fits() {
        for (milliseconds, said) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (119_999, "119 s"),
            (120_000, "2 min"),
            (7_200_000, "2 h"),
            (172_800_000, "2 days"),
        ] {
            assert_eq!(Lasting(milliseconds).to_string(), said);
        }
    }
}
