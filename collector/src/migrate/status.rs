//! What is applied and what is not.

use tokio_postgres::Client;

use super::Plan;
use super::error::MigrateError;
use super::history::{History, RecordedVersion};

/// Says which migrations the database has: a line for each, then one on what is recorded. Only
/// reads, and waits for no lock.
pub async fn status<'a>(
    client: &Client,
    plan: impl Into<Plan<'a>>,
) -> Result<String, MigrateError> {
    let Plan { migrations, table, schema, .. } = plan.into();
    let history = History::of_session(client, &table, schema).await?;
    let recorded = history.read(client).await?;
    let mut lines = Vec::new();
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
        lines.push(format!("{state:<8} {migration}"));
    }
    lines.push(format!("schema {}: {summary}", history.schema));
    Ok(lines.join("\n"))
}
