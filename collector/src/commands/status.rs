//! `mailroom status`: how much waits in the queue of deliveries, and since when.

use std::fmt;
use std::io::{self, Write as _};

use clap::Args;
use serde_json::json;
use tokio_postgres::Row;

use super::operator::{Error, connect};
use crate::preflight;

const STATUS: &str = include_str!("status.sql");

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
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Error> {
    let client = connect("mailroom status", &["mailroom_status"]).await?.client;
    let warnings = preflight::warnings(&client).await?;
    let status = Status::read(&client.query_typed_one(STATUS, &[]).await?, warnings)?;
    let text = if arguments.json { status.as_json() } else { status.to_string() };
    writeln!(io::stdout(), "{text}")?;
    Ok(())
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
        })
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
        writeln!(formatter, "waiting   {} tokens{}", self.depth(), since(self.oldest_due, "due"))?;
        writeln!(
            formatter,
            "          {due} due: {} recoveries, {} activations; {} later",
            self.recoveries_due, self.activations_due, self.later
        )?;
        writeln!(
            formatter,
            "leased    {} tokens in {} batches{}; {} lapsed",
            self.leased_tokens,
            self.leases,
            since(self.oldest_lease, "claimed"),
            self.lapsed_leases
        )?;
        writeln!(formatter, "parked    {} tokens, until their account's status is right", self.parked)?;
        writeln!(formatter, "dead      {} tokens", self.dead)?;
        write!(
            formatter,
            "expired   {} tokens unsent, {} of them within the last hour",
            self.expired, self.expired_last_hour
        )?;
        self.warnings.iter().try_for_each(|warning| write!(formatter, "\nwarning   {warning}"))
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
