//! Why a migration did not happen.

use mailroom_connect::explain;
use tokio_postgres::error::SqlState;

/// Why a command on migrations failed. Unless documented otherwise the database is as it was
/// before.
///
/// What the server said is part of the text and never offered as the source: its details quote
/// rows, which hold secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The database did not answer, or not as it should.
    #[error("a statement of the migration command failed: {}", describe(.0))]
    Database(tokio_postgres::Error),

    /// What the database has, lacks or records does not allow it.
    #[error("{0}")]
    Refused(String),

    /// A statement failed, or recording the version.
    #[error("{0}")]
    Failed(Box<FailedMigration>),

    /// A file was executed and is not recorded, because it ended its transaction or left an index
    /// invalid.
    #[error("{0}")]
    Unrecorded(String),

    /// The connection was lost when the server was to commit.
    #[error(
        "{0}: the connection was lost during a commit: {cause}; \
         `mailroom migrate status` shows what is applied",
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
#[derive(Debug, thiserror::Error)]
#[error("{file}: {part}: {}{advice}. {rest}", describe(cause))]
pub struct FailedMigration {
    pub(super) file: String,
    /// What failed, as a sentence.
    pub(super) part: String,
    /// What the server said.
    pub cause: tokio_postgres::Error,
    /// What to do about a lock that was waited for in vain.
    pub(super) advice: String,
    /// What is left of the migration.
    pub(super) rest: &'static str,
}

/// What the server said, with its hint; the detail only where it cannot quote a row, which may hold
/// a secret.
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
