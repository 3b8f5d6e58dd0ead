//! What migrations would execute, as text: to be read before, or for another migration tool.

use std::fmt;

use mailroom_connect::Schema;
use tokio_postgres::Client;

use super::apply::SIGNS_V2;
use super::error::MigrateError;
use super::history::{History, HistoryTable};
use super::migration::{CREATES_SCHEMA, Migration};
use super::{Plan, kind, prerequisites};

/// The last line of a file that runs in a transaction.
const COMMIT: &str = "COMMIT;";

/// One file of a migration, for the schema that was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    name: String,
    sql: String,
}

/// Statements alone, and comments: it can be executed.
impl fmt::Display for Script {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "-- {}\n{}", self.name, self.sql.trim_end())
    }
}

impl Script {
    /// The file's name, such as `1_create_mailroom.up.sql`.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn up(migration: &Migration, schema: &Schema, is_without_accounts: bool) -> Self {
        let mut sql = schema.sql(migration.up).into_owned();
        if is_without_accounts && migration.version == CREATES_SCHEMA {
            let end = sql.rfind(COMMIT).unwrap_or(sql.len());
            sql.insert_str(end, &format!("{}\n", schema.sql(SIGNS_V2).trim_start()));
        }
        Self { name: format!("{migration}.up.sql"), sql }
    }

    fn down(migration: &Migration, schema: &Schema) -> Self {
        let sql = schema.sql(migration.down).into_owned();
        Self { name: format!("{migration}.down.sql"), sql }
    }
}

/// The migrations that [`up`](super::up) would apply now. Changes nothing, and waits for no lock.
///
/// # Errors
/// As [`up`](super::up), as far as that can be known before.
pub async fn missing<'a>(
    client: &mut Client,
    plan: impl Into<Plan<'a>>,
) -> Result<Vec<Script>, MigrateError> {
    let Plan { migrations, table, schema, is_kind_known, is_table_named } = plan.into();
    let history = History::of_session(client, &table, schema).await?;
    kind::refuse_unknown(client, &history, is_kind_known, is_table_named).await?;
    let applied = history.applied(client, migrations).await?;
    let missing = &migrations[applied.count - usize::from(applied.is_unfinished)..];
    if let Some(next) = missing.first() {
        prerequisites::check(client, &history, next.version).await?;
    }
    let script = |migration| Script::up(migration, &history.mailroom, history.is_standalone);
    Ok(missing.iter().map(script).collect())
}

/// The files of a plan's migrations, or of the one with this number: the way up, or the way down
/// from the newest to the oldest. Of all, the last script records what `mailroom migrate` reads.
pub fn scripts(plan: &Plan<'_>, number: Option<i64>, is_down: bool) -> Vec<Script> {
    let is_without_accounts = plan.table == HistoryTable::without_accounts(&plan.schema);
    let wanted =
        plan.migrations.iter().filter(|one| number.is_none_or(|number| one.version == number));
    if is_down {
        return wanted.rev().map(|migration| Script::down(migration, &plan.schema)).collect();
    }
    let script = |migration| Script::up(migration, &plan.schema, is_without_accounts);
    let mut scripts: Vec<_> = wanted.map(script).collect();
    if let (None, Some(newest)) = (number, plan.migrations.last()) {
        scripts.push(Script {
            name: "what `mailroom migrate` reads".to_owned(),
            sql: record(&plan.table, newest.version),
        });
    }
    scripts
}

/// Records a version as [`up`](super::up) does.
fn record(table: &HistoryTable, version: i64) -> String {
    [
        "BEGIN;",
        &format!("CREATE TABLE IF NOT EXISTS {table} ("),
        "    version bigint NOT NULL PRIMARY KEY,",
        "    dirty boolean NOT NULL",
        ");",
        &format!("DELETE FROM {table};"),
        &format!("INSERT INTO {table} VALUES ({version}, false);"),
        COMMIT,
    ]
    .join("\n")
}
