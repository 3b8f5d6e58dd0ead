//! Why a command fails.

use std::io;
use std::process::ExitCode;

use mailroom_connect::{ConnectError, explain};
use tokio_postgres::error::SqlState;

use crate::collect::CollectError;
use crate::keys::KeyError;
use crate::sink::StartError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It was called in the wrong way, or a setting cannot be used.
    #[error("{0}")]
    Usage(String),
    /// A key is missing or cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The database cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The collector's output cannot be used.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Collecting failed.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// Standard output is closed or full.
    #[error("standard output cannot be written: {0}")]
    Output(io::Error),
    /// Standard input is broken.
    #[error("standard input cannot be read: {0}")]
    Input(io::Error),
    /// There is no random number generator.
    #[error("the operating system gives no random bytes: {0}")]
    Randomness(getrandom::Error),
    /// Anything else.
    #[error("{0}")]
    Failure(String),
}

impl CommandError {
    /// Whether the caller has to change how the command is called, a setting or a key.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::Key(_) | Self::Start(StartError::Discards))
    }

    /// 2 or 1.
    pub fn exit_code(&self) -> ExitCode {
        if self.is_usage() { ExitCode::from(2) } else { ExitCode::FAILURE }
    }
}

/// Only the message of an error is shown: its detail can quote rows.
impl From<tokio_postgres::Error> for CommandError {
    fn from(error: tokio_postgres::Error) -> Self {
        const MISSING: [SqlState; 4] = [
            SqlState::UNDEFINED_TABLE,
            SqlState::UNDEFINED_COLUMN,
            SqlState::UNDEFINED_FUNCTION,
            SqlState::UNDEFINED_OBJECT,
        ];
        let reason = explain(&error);
        if error.code().is_some_and(|code| MISSING.contains(code)) {
            return Self::Failure(format!(
                "the database has no queue of deliveries that this program can use ({reason}); run `mailroom migrate up`, \
                 or name the right database and schema in MAILROOM_DATABASE_URL"
            ));
        }
        Self::Failure(reason)
    }
}
