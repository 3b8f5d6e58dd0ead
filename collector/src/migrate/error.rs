//! Why a migration did not happen.

use std::fmt;

use mailroom_connect::explain;
use tokio_postgres::error::SqlState;

use super::apply::LOCK_ATTEMPTS;
use super::migration::Migration;

/// Why a command on migrations failed. Unless documented otherwise the database is as it was before.
///
/// What the server said is part of the text and never offered as the source: its details quote rows, which hold secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The database did not answer, or not as it should.
    #[error("the database does not do what migrating needs: {}", describe(.0))]
    Database(tokio_postgres::Error),

    /// The search path names no schema in which tables can be created.
    #[error(
        "no schema of the search path exists; create one or set search_path for the role or the database, for instance \
         to public"
    )]
    NoSchema,

    /// Server or role lack something that migrating needs.
    #[error("the {0}; nothing was changed")]
    Prerequisite(String),

    /// What the database records does not allow it.
    #[error("{0}")]
    History(String),

    /// A baseline beyond the newest migration.
    #[error("there is no migration {0}; --baseline takes one of 0 to {1}")]
    UnknownBaseline(i64, i64),

    /// Going down would drop tables.
    #[error("taking back {0} drops {1}, and nothing brings that back; repeat with --yes if it is meant")]
    WouldLose(Migration, String),

    /// A file committed or rolled back in the middle.
    #[error(
        "{0} ends the transaction that it runs in, so that what it did before may be committed and its version is not \
         recorded; only the lines BEGIN; and COMMIT; may stand around a migration"
    )]
    EndsTransaction(String),

    /// A statement failed, or recording the version.
    #[error("{0}")]
    Failed(Box<FailedMigration>),

    /// An index that was built has not become valid, because somebody else built one of its name.
    #[error(
        "{0}: its index {1} is invalid and is not used; `mailroom migrate up` builds it again, `mailroom migrate down` \
         takes it back"
    )]
    InvalidIndex(String, String),

    /// The connection was lost when the server was to commit.
    #[error(
        "{0}: its transaction cannot be committed: {cause}. It may have taken place; `mailroom migrate status` tells",
        cause = describe(.1)
    )]
    UnknownOutcome(String, tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for MigrateError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

/// A migration that failed, where, and what the server said.
#[derive(Debug)]
pub struct FailedMigration {
    pub(super) file: String,
    /// What failed, as a sentence.
    pub(super) part: String,
    /// What the server said.
    pub cause: tokio_postgres::Error,
    /// Whether nothing of it is left.
    pub(super) is_undone: bool,
    /// The oldest transaction that was open besides, when a lock was waited for in vain.
    pub(super) oldest_transaction: Option<String>,
}

impl FailedMigration {
    /// Whether it failed because of what others were doing, so that it may succeed later.
    pub(super) fn is_about_locks(&self) -> bool {
        matches!(self.cause.code(), Some(&SqlState::LOCK_NOT_AVAILABLE | &SqlState::T_R_DEADLOCK_DETECTED))
    }

    /// Whether somebody waits in `pg_advisory_lock` for the lock of migrations: CREATE INDEX CONCURRENTLY waits for that
    /// statement, which waits for it.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.is_undone && self.cause.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED)
    }
}

impl fmt::Display for FailedMigration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}", self.file, self.part, describe(&self.cause))?;
        if self.is_about_locks() {
            let advice = if self.is_waited_for() {
                "end the other migration tool that waits for this one, most likely golang-migrate"
            } else {
                "end what holds the lock, or try at a quieter time"
            };
            write!(formatter, ". It was tried {LOCK_ATTEMPTS} times; {advice}")?;
        }
        if let Some(oldest) = &self.oldest_transaction {
            write!(formatter, " (the oldest open transaction is {oldest})")?;
        }
        formatter.write_str(if self.is_undone {
            ". The database is as it was before this migration"
        } else {
            ". What it did stays: `mailroom migrate up` completes it, `mailroom migrate down` takes it back"
        })
    }
}

/// What the server said, with its hint; the detail only where it cannot quote a row, which may hold a secret.
fn describe(error: &tokio_postgres::Error) -> String {
    let mut text = explain(error);
    let Some(server) = error.as_db_error() else { return text };
    if server.code() == &SqlState::INSUFFICIENT_PRIVILEGE {
        text.push_str("; connect as the role that owns Mailroom's tables");
    }
    let quotes_rows = ["22", "23"].iter().any(|class| server.code().code().starts_with(class));
    let detail = server.detail().filter(|_| !quotes_rows);
    for part in [detail, server.hint()].into_iter().flatten() {
        text.push_str(". ");
        text.push_str(&part.trim_end_matches('.').replace('\n', "; "));
    }
    text
}
