//! One migration: its file is executed and its version recorded.

use std::collections::HashSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use tokio::time::sleep;
use tokio_postgres::error::{DbError, ErrorPosition, SqlState};
use tokio_postgres::{Client, IsolationLevel, SimpleQueryMessage};

use super::error::{FailedMigration, MigrateError};
use super::history::History;
use super::migration::Migration;
use super::{DataLoss, Report};
use crate::log::display::Counted;

/// How long a statement in a transaction waits for a lock if `lock_timeout` is not set: later
/// requests queue behind it.
const LOCK_TIMEOUT: &str = "5s";

/// How often a migration is tried that does not get its locks.
pub const LOCK_ATTEMPTS: u32 = 4;

/// CREATE INDEX CONCURRENTLY waits for the statement of a session that waits in `pg_advisory_lock`
/// for the lock of migrations.
const OTHER_TOOL: &str =
    "another migration tool, most likely golang-migrate, waits for this one to end; end that one";

const UNDONE: &str = "The database is as it was before this migration";
const LEFT: &str =
    "What it did stays: `mailroom migrate up` completes it, `mailroom migrate down` takes it back";

/// Nobody verifies links of a new installation yet, and v1 signs two actions only, which notices
/// are not. The rows are made anew, because an update leaves a mark on them that `enqueue` takes
/// for a change in stricter isolation levels. The trigger would refuse that.
pub(super) const SIGNS_V2: &str = "
UPDATE mailroom.installation SET token_format = 'v2';
ALTER TABLE mailroom.actions DISABLE TRIGGER before_action_change;
WITH gone AS (
    DELETE FROM mailroom.actions
    WHERE name IN ('recover', 'change_email', 'sign_in')
    RETURNING *
)
INSERT INTO mailroom.actions (
    number, name, path, code_digits, lifetime, cooldown, priority, proves_address, notice,
    code_notice
)
SELECT
    number, name, path, code_digits, lifetime, cooldown, priority, proves_address,
    CASE WHEN name IN ('recover', 'change_email') THEN 'notice' END,
    CASE WHEN name IN ('recover', 'sign_in') THEN 'notice' END
FROM gone;
ALTER TABLE mailroom.actions ENABLE TRIGGER before_action_change;";

/// One of a migration's files, to be executed.
pub(super) struct MigrationStep<'a> {
    migration: &'a Migration,
    /// `up` or `down`, as in the file's name.
    direction: &'static str,
    statements: String,
    /// The version to record afterwards, if any migration is applied then.
    target: Option<i64>,
    data_loss: DataLoss,
}

impl<'a> MigrationStep<'a> {
    pub(super) fn up(migration: &'a Migration, history: &History) -> Self {
        let mut statements = migration.statements(&history.mailroom.sql(migration.up));
        if history.is_created_by(migration) {
            // In the transaction that creates it, and never again: an installation keeps what it
            // has.
            statements += &history.mailroom.sql(SIGNS_V2);
        }
        Self {
            migration,
            direction: "up",
            statements,
            target: Some(migration.version),
            data_loss: DataLoss::Accepted,
        }
    }

    pub(super) fn down(
        migration: &'a Migration,
        before: Option<&Migration>,
        history: &History,
        data_loss: DataLoss,
    ) -> Self {
        let statements = migration.statements(&history.mailroom.sql(migration.down));
        let target = before.map(|before| before.version);
        Self { migration, direction: "down", statements, target, data_loss }
    }

    /// Executes the file and records the version, again if it does not get its locks.
    pub(super) async fn run(
        self,
        client: &mut Client,
        history: &History,
        report: Report<'_>,
    ) -> Result<(), MigrateError> {
        let Self { migration, direction, .. } = self;
        report(&format!("{migration}: going {direction}"));
        let mut attempt = 1;
        loop {
            let began = Instant::now();
            let outcome = if migration.is_transactional() {
                self.in_transaction(client, history).await
            } else {
                self.outside_transaction(client, history).await
            };
            let Err(MigrateError::Failed(mut failed)) = outcome else {
                let seconds = began.elapsed().as_secs_f32();
                return outcome.inspect(|()| {
                    report(&format!("{migration}: went {direction} in {seconds:.1} s"));
                });
            };
            let (obstacle, advice) = match failed.cause.code() {
                Some(&SqlState::T_R_DEADLOCK_DETECTED) if failed.rest == LEFT => {
                    (OTHER_TOOL, OTHER_TOOL)
                }
                Some(&SqlState::LOCK_NOT_AVAILABLE | &SqlState::T_R_DEADLOCK_DETECTED) => (
                    "others hold a lock it needs",
                    "end what holds the lock, or try at a quieter time",
                ),
                _ => return Err(MigrateError::Failed(failed)),
            };
            if attempt == LOCK_ATTEMPTS {
                let oldest = client.query_opt(include_str!("oldest_transaction.sql"), &[]).await?;
                let oldest = oldest.map_or_else(String::new, |row| {
                    format!(" (the oldest open transaction is {})", row.get::<_, &str>(0))
                });
                failed.advice = format!(". It was tried {LOCK_ATTEMPTS} times; {advice}{oldest}");
                return Err(MigrateError::Failed(failed));
            }
            let seconds = 1 << (attempt - 1);
            report(&format!("{migration}: {obstacle}; trying again in {seconds} s"));
            sleep(Duration::from_secs(seconds)).await;
            attempt += 1;
        }
    }

    /// Does both or neither: a transaction that is dropped never commits.
    async fn in_transaction(
        &self,
        client: &mut Client,
        history: &History,
    ) -> Result<(), MigrateError> {
        let begin = client
            .build_transaction()
            .isolation_level(IsolationLevel::ReadCommitted)
            .read_only(false);
        let transaction = begin.start().await?;
        transaction.query(include_str!("limits.sql"), &[&LOCK_TIMEOUT, &true]).await?;
        let tables = transaction.query(include_str!("droppable_tables.sql"), &[]).await?;
        let current = "SELECT pg_current_xact_id()::text";
        let id: String = transaction.query_one(current, &[]).await?.get(0);
        self.execute(transaction.client()).await?;
        if transaction.query_one(current, &[]).await?.get::<_, &str>(0) != id {
            return Err(MigrateError::Unrecorded(format!(
                "{} ends the transaction that it runs in, so that what it did before may be \
                 committed and its version is not recorded; only the lines BEGIN; and COMMIT; may \
                 stand around a migration",
                self.file()
            )));
        }
        if self.data_loss == DataLoss::Refused {
            let rows = transaction.query(include_str!("dropped.sql"), &[]).await?;
            let gone: HashSet<u32> = rows.iter().map(|row| row.get(0)).collect();
            let dropped = tables.iter().filter(|table| gone.contains(&table.get(0)));
            let dropped: Vec<&str> = dropped.map(|table| table.get(1)).collect();
            if !dropped.is_empty() {
                transaction.rollback().await?;
                return Err(MigrateError::Refused(format!(
                    "taking back {} drops {}, and nothing brings that back; \
                     repeat with --yes if it is meant",
                    self.migration,
                    sizes(client, &dropped).await?
                )));
            }
        }
        let recorded = history.record(&transaction, self.target, false).await;
        recorded.map_err(|cause| self.failed("its version cannot be recorded", cause))?;
        transaction.commit().await.map_err(|cause| match cause.as_db_error() {
            Some(_) => self.failed("its transaction cannot be committed", cause),
            None => MigrateError::UnknownOutcome(self.file(), cause),
        })
    }

    /// Executes the file's one statement, which commits what it does. After a failure or a kill the
    /// version stays recorded as dirty, which golang-migrate refuses; the next run executes the
    /// file again.
    async fn outside_transaction(
        &self,
        client: &Client,
        history: &History,
    ) -> Result<(), MigrateError> {
        client.query(include_str!("limits.sql"), &[&"0", &false]).await?;
        let recorded = history.record(client, Some(self.migration.version), true).await;
        recorded.map_err(|cause| match cause.as_db_error() {
            Some(_) => self.failed_leaving(UNDONE, "it cannot be recorded as dirty", cause),
            None => MigrateError::UnknownOutcome(self.file(), cause),
        })?;
        // An interrupted CREATE INDEX CONCURRENTLY leaves an invalid index, which IF NOT EXISTS
        // would accept.
        let index = built_index(&self.statements);
        let invalid = "SELECT indexrelid::regclass::text FROM pg_index
            WHERE indexrelid = to_regclass($1)::oid AND NOT indisvalid";
        if let Some(row) = client.query_opt(invalid, &[&index]).await? {
            let drop = format!("DROP INDEX CONCURRENTLY {}", row.get::<_, &str>(0));
            let dropped = client.batch_execute(&drop).await;
            dropped.map_err(|cause| self.failed("its invalid index cannot be dropped", cause))?;
        }
        self.execute(client).await?;
        if let Some(row) = client.query_opt(invalid, &[&index]).await? {
            let file = self.file();
            let index: &str = row.get(0);
            return Err(MigrateError::Unrecorded(format!(
                "{file}: its index {index} is invalid and is not used; `mailroom migrate up` \
                 builds it again, `mailroom migrate down` takes it back"
            )));
        }
        let recorded = history.record(client, self.target, false).await;
        recorded.map_err(|cause| self.failed("its version cannot be recorded", cause))
    }

    async fn execute(&self, client: &Client) -> Result<(), MigrateError> {
        let mut completed = 0;
        let executed = async {
            let mut messages = pin!(client.simple_query_raw(&self.statements).await?);
            while let Some(message) = messages.try_next().await? {
                completed += usize::from(matches!(message, SimpleQueryMessage::CommandComplete(_)));
            }
            Ok(())
        };
        let executed: Result<(), tokio_postgres::Error> = executed.await;
        executed.map_err(|cause| self.failed(&place(&cause, &self.statements, completed), cause))
    }

    fn failed(&self, part: &str, cause: tokio_postgres::Error) -> MigrateError {
        let rest = if self.migration.is_transactional() { UNDONE } else { LEFT };
        self.failed_leaving(rest, part, cause)
    }

    fn failed_leaving(
        &self,
        rest: &'static str,
        part: &str,
        cause: tokio_postgres::Error,
    ) -> MigrateError {
        MigrateError::Failed(Box::new(FailedMigration {
            file: self.file(),
            part: part.to_owned(),
            cause,
            advice: String::new(),
            rest,
        }))
    }

    fn file(&self) -> String {
        format!("{}.{}.sql", self.migration, self.direction)
    }
}

/// The name of the index that is built concurrently, if one is.
fn built_index(statements: &str) -> Option<String> {
    let lines = statements.lines().filter(|line| !line.trim_start().starts_with("--"));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let statement = words.join(" ");
    let (_, rest) = statement.split_once("INDEX CONCURRENTLY IF NOT EXISTS ")?;
    rest.split(' ').next().map(str::to_owned)
}

/// The line that failed, if the server gives a position; else the statement's number (without
/// `BEGIN`) and routine.
fn place(cause: &tokio_postgres::Error, statements: &str, completed: usize) -> String {
    let error = cause.as_db_error();
    if let Some(ErrorPosition::Original(character)) = error.and_then(DbError::position) {
        let before = statements.chars().take((*character as usize).saturating_sub(1));
        return format!(
            "line {} failed",
            1 + before.filter(|character| *character == '\n').count()
        );
    }
    // Other lines of the context can quote values.
    let mut context = error.and_then(DbError::where_).unwrap_or_default().lines();
    let routine = context.find(|line| line.starts_with("PL/pgSQL function "));
    let routine = routine.map_or_else(String::new, |routine| format!(", {routine},"));
    format!("statement {}{routine} failed", completed + 1)
}

/// Each table's name and how many rows it has; unknown if the role may drop the table, but not read
/// it.
async fn sizes(client: &Client, tables: &[&str]) -> Result<String, MigrateError> {
    let mut sizes = Vec::new();
    for table in tables {
        let counted = client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await;
        sizes.push(match counted {
            Ok(row) => format!("{table} ({})", Counted(row.get::<_, i64>(0), "row", "rows")),
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                format!("{table} (rows unknown)")
            }
            Err(error) => return Err(error.into()),
        });
    }
    Ok(sizes.join(", "))
}
