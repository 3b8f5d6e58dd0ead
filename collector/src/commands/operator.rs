//! What the commands of an operator have in common: a session on the database, and what is said when that does not work.

use std::env::{self, VarError};
use std::io;
use std::process::ExitCode;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::config::SettingError;
use crate::postgres::{
    self, ConnectError, ConnectionSettings, ProcessEnvironment, SessionOptions, SettingsError, explain,
};
use crate::preflight::{self, Wanted};

/// Why an operator's command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing says which database.
    #[error("MAILROOM_DATABASE_URL is not set; set it to the database's URL or keyword string")]
    NoDatabase,
    /// A setting cannot be used.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Some tokens were named, and all.
    #[error("name ids or --all-dead, not both")]
    Named,
    /// What says which database is not text.
    #[error("MAILROOM_DATABASE_URL is not valid UTF-8; write it in UTF-8, or percent-encode it")]
    NotUtf8,
    /// What says which database is not understood.
    #[error("MAILROOM_DATABASE_URL: {0}")]
    Settings(SettingsError),
    /// The database was not reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The database has no queue of deliveries.
    #[error(
        "the database has no queue of deliveries that this program can use ({0}); run `mailroom migrate up`, or name the \
         right database and schema in MAILROOM_DATABASE_URL"
    )]
    NoQueue(String),
    /// The role does not find or may not use what the command needs.
    #[error("{0}")]
    Lacking(String),
    /// The database was reached and does not do what it is asked.
    #[error("{0}")]
    Refused(String),
    /// The connection was lost.
    #[error("the connection is lost: {0}")]
    Lost(String),
    /// Nobody reads what the command says.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// 2 if the command was called in the wrong way, otherwise 1.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::NoDatabase | Self::NotUtf8 | Self::Named | Self::Setting(_) | Self::Settings(_) => {
                ExitCode::from(2)
            }
            _ => ExitCode::FAILURE,
        }
    }
}

/// Only the message of an error is shown: its detail can quote rows.
impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(refusal) = error.as_db_error() else { return Self::Lost(error.to_string()) };
        let (code, message) = (refusal.code(), refusal.message().to_owned());
        if [
            &SqlState::UNDEFINED_TABLE,
            &SqlState::UNDEFINED_COLUMN,
            &SqlState::UNDEFINED_FUNCTION,
            &SqlState::UNDEFINED_OBJECT,
        ]
        .contains(&code)
        {
            Self::NoQueue(message)
        } else {
            Self::Refused(explain(&error))
        }
    }
}

/// A connection to the database.
pub(super) struct Operator {
    pub(super) client: Client,
    /// Whether a lock of the session lasts.
    pub(super) keeps_state: bool,
}

/// Connects to the database of `MAILROOM_DATABASE_URL`, by a pooler's sessions if it is one's.
pub(super) async fn connect(application_name: &str, functions: &[&str]) -> Result<Operator, Error> {
    let text = match env::var("MAILROOM_DATABASE_URL") {
        Ok(text) if !text.is_empty() => text,
        Err(VarError::NotUnicode(_)) => return Err(Error::NotUtf8),
        _ => return Err(Error::NoDatabase),
    };
    let settings = ConnectionSettings::resolve(&text, &ProcessEnvironment).map_err(Error::Settings)?;
    let options = SessionOptions { application_name, statement_timeout: None, needs_session: false };
    let session = Box::pin(postgres::connect(&settings, &options)).await?;
    tokio::spawn(async move {
        // The client's next call reports why a connection ended.
        session.connection.run().await.ok();
    });
    let (client, keeps_state) = (session.client, session.keeps_state);
    match preflight::lacking(&client, Wanted { functions, tables: &[], otherwise: "" }).await? {
        Some(fault) => Err(Error::Lacking(fault)),
        None => Ok(Operator { client, keeps_state }),
    }
}
