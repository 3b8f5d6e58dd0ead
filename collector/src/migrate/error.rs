//! Why a migration did not happen.

use std::fmt::{self, Write as _};

use tokio_postgres::error::{DbError, ErrorPosition, SqlState};

use super::lexer::Unterminated;
use super::migration::{Direction, Migration};
use super::statements::Statement;
use crate::counted::Counted;

/// Why a command on migrations failed. Unless it says otherwise the database is as it was before.
///
/// What the server said is part of the text and never offered as the source: its details quote rows, which hold secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database did not answer, or not as it should.
    #[error("the database does not do what migrating needs: {}", server_message(.0))]
    Database(tokio_postgres::Error),

    /// Nothing says where tables would be made.
    #[error(
        "no schema of the search path exists; create one or set search_path for the role or the database, for instance \
        to public"
    )]
    NoSchema,

    /// `schema_migrations` has other columns than golang-migrate gives it.
    #[error(
        "the table {table} in schema {schema} is another tool's, without the columns `version bigint` and `dirty boolean`; \
        give Mailroom a table of its own by --migrations-table or MAILROOM_MIGRATIONS_TABLE, such as mailroom_migrations"
    )]
    ForeignLedger {
        /// The table's schema.
        schema: String,
        /// The table.
        table: String,
    },

    /// A version is recorded that the schema does not look like.
    #[error(
        "the table {table} in schema {schema} records version {version}, but schema {home} does not have what Mailroom's \
        migrations up to that one make; most likely it is another program's: give Mailroom a table of its own by \
        --migrations-table or MAILROOM_MIGRATIONS_TABLE, such as mailroom_migrations (together with --baseline, if its schema was \
        loaded by hand)"
    )]
    ForeignRecord {
        /// The table's schema.
        schema: String,
        /// The table.
        table: String,
        /// What it records.
        version: i64,
        /// The schema of Mailroom's tables.
        home: String,
    },

    /// The server is too old.
    #[error("the server is PostgreSQL {version}, and Mailroom needs {oldest} or newer; nothing was changed")]
    OldServer {
        /// Its major version.
        version: i32,
        /// The oldest major version that works.
        oldest: i32,
    },

    /// The role lacks something that migrating needs.
    #[error("the role \"{role}\" {fault}; nothing was changed")]
    Prerequisite {
        /// The role.
        role: String,
        /// What it lacks, and what helps.
        fault: String,
    },

    /// `schema_migrations` says several things.
    #[error(
        "the table {table} in schema {schema} has several rows instead of one; delete all but that of the newest applied \
        migration"
    )]
    AmbiguousLedger {
        /// The table's schema.
        schema: String,
        /// The table.
        table: String,
    },

    /// golang-migrate was stopped or failed.
    #[error(
        "golang-migrate left version {version} marked as dirty, because that migration failed or was stopped; find out \
        by `mailroom migrate status` and the files which version the schema really has, and record it: UPDATE \
        schema_migrations SET version = …, dirty = false"
    )]
    Dirty {
        /// What it recorded.
        version: i64,
    },

    /// The database is newer than this program, or was migrated from other files.
    #[error(
        "the database is at version {version}, which this mailroom does not know; its newest is {newest}. Either a \
        newer mailroom migrated it: use that one. Or the table schema_migrations is another product's: give Mailroom a \
        schema of its own, first on the search path"
    )]
    UnknownVersion {
        /// What is recorded.
        version: i64,
        /// The newest version this program knows.
        newest: u64,
    },

    /// Tables are there, but nothing says of which version.
    #[error(
        "schema {schema} already has {}, but nothing records which migrations made them; if an installation was loaded \
        by hand, run `mailroom migrate up --baseline 0`, otherwise give Mailroom a schema of its own",
        list(.tables)
    )]
    Unrecorded {
        /// The schema.
        schema: String,
        /// Its tables that bear names of Mailroom's.
        tables: Vec<String>,
    },

    /// A baseline was asked for where there is nothing to take over.
    #[error(
        "schema {schema} has no tables of Mailroom's that a baseline could describe; run `mailroom migrate up` without \
        --baseline"
    )]
    NothingToTakeOver {
        /// The schema.
        schema: String,
    },

    /// A baseline was asked for where other tables are than Mailroom's.
    #[error(
        "{column} is {} instead of {expected}, so these are no tables that Mailroom can take over; change them, or give \
        Mailroom a schema of its own",
        .found.as_deref().unwrap_or("missing")
    )]
    ForeignColumn {
        /// Table and column.
        column: String,
        /// Its type in all versions.
        expected: String,
        /// Its type here, if it is there.
        found: Option<String>,
    },

    /// A baseline was asked for that the schema does not look like.
    #[error(
        "the schema has what the migrations up to {found} make, and not what those up to {baseline} make; run `mailroom \
        migrate up --baseline {found}`"
    )]
    OtherBaseline {
        /// What was asked for.
        baseline: u64,
        /// What the schema looks like.
        found: i64,
    },

    /// A baseline below or beyond what this program knows.
    #[error("there is no migration {version}; --baseline takes one of 0 to {newest}")]
    UnknownBaseline {
        /// What was asked for.
        version: u64,
        /// The newest version this program knows.
        newest: u64,
    },

    /// A baseline other than what is recorded.
    #[error(
        "the database already records version {recorded}, so --baseline {baseline} would have migrations left out; run \
        `mailroom migrate up` without --baseline"
    )]
    AlreadyRecorded {
        /// What is recorded.
        recorded: u64,
        /// What was asked for.
        baseline: u64,
    },

    /// Going down would drop tables.
    #[error(
        "taking back {migration} drops {}, and nothing brings that back; repeat with --yes if it is meant",
        rows(.tables)
    )]
    WouldLose {
        /// The migration.
        migration: Migration,
        /// The tables it drops, and how many rows each has.
        tables: Vec<(String, i64)>,
    },

    /// A statement failed, or the end of the transaction.
    #[error("{0}")]
    Failed(Box<FailedStatement>),

    /// A migration's file cannot be split into statements.
    #[error("{migration}.{direction}.sql: {unterminated}")]
    Unterminated {
        /// The migration.
        migration: Migration,
        /// Which of its files.
        direction: Direction,
        /// What is not closed.
        unterminated: Unterminated,
    },

    /// A migration's file ends the transaction around it.
    #[error(
        "{migration}.{direction}.sql: `{excerpt}` on line {line} has no place in a migration, which is one transaction; \
        only a plain BEGIN and COMMIT may stand around it"
    )]
    TransactionControl {
        /// The migration.
        migration: Migration,
        /// Which of its files.
        direction: Direction,
        /// The line, counted from 1.
        line: usize,
        /// The statement's first words.
        excerpt: String,
    },
}

/// Where a migration failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A statement of the file.
    Statement {
        /// Its number in the file, counted from 1.
        number: usize,
        /// The line, counted from 1, that the server complains about or else that the statement begins on.
        line: usize,
        /// Its first words.
        excerpt: String,
    },
    /// The transaction's settings, before the first statement.
    Settings,
    /// Recording the version in `schema_migrations`.
    Record,
    /// The commit.
    Commit,
}

/// A migration that failed, where, and what the server said.
#[derive(Debug)]
pub struct FailedStatement {
    /// The migration.
    pub migration: Migration,
    /// Which way it went.
    pub direction: Direction,
    /// Where it failed.
    pub place: Place,
    /// What the server said.
    pub cause: tokio_postgres::Error,
    /// How often it was tried.
    pub attempts: u32,
    /// The oldest transaction that was open besides, when a lock was waited for in vain.
    pub oldest_transaction: Option<String>,
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl Place {
    pub(super) fn of(statement: &Statement<'_>, cause: &tokio_postgres::Error) -> Self {
        let line = match cause.as_db_error().and_then(DbError::position) {
            Some(ErrorPosition::Original(character)) => statement.line_of_character(*character as usize),
            _ => statement.line,
        };
        Self::Statement { number: statement.number, line, excerpt: statement.excerpt() }
    }
}

impl FailedStatement {
    /// Whether it failed because of what others were doing, so that it may succeed later.
    pub(super) fn is_about_locks(&self) -> bool {
        matches!(self.cause.code(), Some(&SqlState::LOCK_NOT_AVAILABLE | &SqlState::T_R_DEADLOCK_DETECTED))
    }
}

impl fmt::Display for FailedStatement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { migration, direction, .. } = self;
        write!(formatter, "{migration}.{direction}.sql: ")?;
        match &self.place {
            Place::Statement { number, line, excerpt } => {
                write!(formatter, "statement {number}, line {line} (`{excerpt}`) failed: ")?;
            }
            Place::Settings => formatter.write_str("its transaction cannot be set up: ")?,
            Place::Record => formatter.write_str("its version cannot be recorded: ")?,
            Place::Commit => formatter.write_str("its transaction cannot be committed: ")?,
        }
        formatter.write_str(&server_message(&self.cause))?;
        if self.is_about_locks() {
            write!(
                formatter,
                ". It was tried {} times; end what holds the lock, or try at a quieter time",
                self.attempts
            )?;
            if let Some(oldest) = &self.oldest_transaction {
                write!(formatter, " (the oldest open transaction is {oldest})")?;
            }
        }
        if self.place == Place::Commit && self.cause.as_db_error().is_none() {
            formatter.write_str(". It may have taken place; `mailroom migrate status` tells")
        } else {
            formatter.write_str(". The database is as it was before this migration")
        }
    }
}

/// What the server said, with its hint; the detail only where it cannot quote a row, which may hold a secret.
fn server_message(error: &tokio_postgres::Error) -> String {
    let Some(server) = error.as_db_error() else {
        return with_causes(error);
    };
    let mut text = format!("{} (SQLSTATE {})", server.message(), server.code().code());
    if server.code() == &SqlState::INSUFFICIENT_PRIVILEGE {
        text.push_str("; connect as the role that owns Mailroom's tables");
    }
    let quotes_rows = ["22", "23"].iter().any(|class| server.code().code().starts_with(class));
    let detail = server.detail().filter(|_| !quotes_rows);
    for part in [detail, server.hint()].into_iter().flatten() {
        let part = part.trim_end_matches('.').replace('\n', "; ");
        write!(text, ". {part}").expect("a string takes all that is written");
    }
    text
}

/// An error and what caused it, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(text, ": {error}").expect("a string takes all that is written");
        cause = error.source();
    }
    text
}

fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let noun = if names.len() == 1 { "a table" } else { "tables" };
    format!("{noun} {}", names.join(", "))
}

fn rows(tables: &[(String, i64)]) -> String {
    let rows = |count: i64| Counted(count, "row", "rows");
    let tables: Vec<String> =
        tables.iter().map(|(table, count)| format!("{table} ({})", rows(*count))).collect();
    tables.join(", ")
}
