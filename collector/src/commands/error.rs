//! Why a command fails.

use std::fmt::Display;
use std::process::ExitCode;

use mailroom_connect::{ConnectError, explain};

use crate::collect::CollectError;
use crate::keys::KeyError;
use crate::migrate::MigrateError;
use crate::sink::StartError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// It was called in the wrong way, or a setting cannot be used.
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Collect(#[from] CollectError),
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    #[error("{0}")]
    Failure(String),
}

impl CommandError {
    /// Whether the caller has to change how the command is called, a setting or a key.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::Key(_) | Self::Start(StartError::Discards))
    }

    pub(super) fn because<E: Display>(what: impl Display) -> impl FnOnce(E) -> Self {
        move |error| Self::Failure(format!("{what}: {error}"))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.is_usage() { ExitCode::from(2) } else { ExitCode::FAILURE }
    }
}

/// Only the message of an error is shown: its detail can quote rows.
impl From<tokio_postgres::Error> for CommandError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Failure(explain(&error))
    }
}
