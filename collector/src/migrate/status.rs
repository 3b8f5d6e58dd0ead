//! What is applied and what is not.

use std::fmt;

use serde_json::{Value, json};
use tokio_postgres::Client;

use super::error::MigrateError;
use super::history::{History, RecordedVersion};
use super::{Migration, Plan};

/// Which migrations a database has, and what is recorded.
#[derive(Clone, Debug)]
pub struct Status<'a> {
    /// Each migration with its state: applied, pending or dirty.
    states: Vec<(&'static str, &'a Migration)>,
    schema: String,
    summary: String,
}

/// A line for each migration, then one on what is recorded.
impl fmt::Display for Status<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (state, migration) in &self.states {
            writeln!(formatter, "{state:<8} {migration}")?;
        }
        write!(formatter, "schema {}: {}", self.schema, self.summary)
    }
}

impl Status<'_> {
    /// The same as an object.
    pub fn to_json(&self) -> Value {
        let migrations: Vec<_> = self
            .states
            .iter()
            .map(|(state, migration)| {
                json!({ "version": migration.version, "name": migration.name, "state": state })
            })
            .collect();
        json!({ "schema": self.schema, "summary": self.summary, "migrations": migrations })
    }
}

/// Says which migrations the database has, for people.
pub async fn status<'a>(
    client: &Client,
    plan: impl Into<Plan<'a>>,
) -> Result<String, MigrateError> {
    Ok(look(client, plan).await?.to_string())
}

/// Finds out which migrations the database has. Only reads, and waits for no lock.
pub async fn look<'a>(
    client: &Client,
    plan: impl Into<Plan<'a>>,
) -> Result<Status<'a>, MigrateError> {
    let Plan { migrations, table, schema, .. } = plan.into();
    let history = History::of_session(client, &table, schema).await?;
    let recorded = history.read(client).await?;
    let mut states = Vec::new();
    let mut summary = match recorded {
        Some(RecordedVersion { version, dirty: true }) => {
            format!("version {version} was left dirty by golang-migrate or a newer mailroom")
        }
        Some(RecordedVersion { version, .. })
            if migrations.iter().all(|known| known.version < version) =>
        {
            format!("version {version}, which is newer than this mailroom")
        }
        Some(RecordedVersion { version, .. }) => format!("version {version}"),
        None if history.tables(client).await?.is_some() => {
            "tables are there that nothing records; see `mailroom migrate up --help` on --baseline"
                .to_owned()
        }
        None => "nothing is applied".to_owned(),
    };
    for migration in migrations {
        let state = match recorded {
            Some(RecordedVersion { version, dirty: true }) if version == migration.version => {
                if history.resumes(client, migration).await? {
                    summary = format!(
                        "version {version} is unfinished; `mailroom migrate up` completes it, \
                         `mailroom migrate down` takes it back"
                    );
                }
                "dirty"
            }
            Some(recorded) if migration.version <= recorded.version => "applied",
            _ => "pending",
        };
        states.push((state, migration));
    }
    Ok(Status { states, schema: history.schema, summary })
}
