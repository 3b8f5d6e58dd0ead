//! What is applied and what is not.

use std::fmt;

use tokio_postgres::Client;

use super::error::Error;
use super::ledger::{Ledger, Recorded};
use super::migration::Migration;
use super::run::Plan;

/// A migration and whether the database has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The migration.
    pub migration: &'a Migration,
    /// Whether the recorded version includes it.
    pub is_applied: bool,
}

/// Where a database stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status<'a> {
    /// The schema that was looked at.
    pub schema: String,
    /// What the database records, if it records anything.
    pub recorded: Option<Recorded>,
    /// Tables with names of Mailroom's, if nothing is recorded.
    pub unrecorded_tables: Vec<String>,
    /// All migrations that this program knows, oldest first.
    pub entries: Vec<Entry<'a>>,
}

/// Says which migrations the database has. Reads only and waits for nobody.
pub async fn status<'a>(client: &Client, plan: impl Into<Plan<'a>>) -> Result<Status<'a>, Error> {
    let Plan { migrations, table } = plan.into();
    let ledger = Ledger::of_session(client, &table).await?;
    let recorded = ledger.read(client).await?;
    let unrecorded_tables = if recorded.is_none() { ledger.own_tables(client).await? } else { Vec::new() };
    let is_applied = |migration: &Migration| {
        recorded.is_some_and(|recorded| {
            u64::try_from(recorded.version).is_ok_and(|version| migration.version <= version)
        })
    };
    let entries =
        migrations.iter().map(|migration| Entry { migration, is_applied: is_applied(migration) }).collect();
    Ok(Status { schema: ledger.schema, recorded, unrecorded_tables, entries })
}

/// A table of the migrations, then what is out of the ordinary.
impl fmt::Display for Status<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_dirty = self.recorded.is_some_and(|recorded| recorded.dirty);
        for entry in &self.entries {
            let is_newest = self
                .recorded
                .is_some_and(|recorded| i64::try_from(entry.migration.version) == Ok(recorded.version));
            let state = match entry.is_applied {
                true if is_dirty && is_newest => "dirty",
                true => "applied",
                false => "pending",
            };
            writeln!(formatter, "{state:<8} {}", entry.migration)?;
        }
        let schema = &self.schema;
        match (self.recorded, self.unrecorded_tables.is_empty()) {
            (Some(Recorded { version, dirty: true }), _) => {
                write!(formatter, "schema {schema}: version {version} was left dirty by golang-migrate")
            }
            (Some(Recorded { version, dirty: false }), _) => {
                write!(formatter, "schema {schema}: version {version}")?;
                let newest = self.entries.last().map(|entry| entry.migration.version);
                if newest.is_none_or(|newest| i64::try_from(newest).is_ok_and(|newest| newest < version)) {
                    formatter.write_str(", which is newer than this mailroom")?;
                }
                Ok(())
            }
            (None, true) => write!(formatter, "schema {schema}: nothing is applied"),
            (None, false) => write!(
                formatter,
                "schema {schema}: tables are there that nothing records; see `mailroom migrate up --help` on --baseline"
            ),
        }
    }
}
