//! What the program does, one command a module, and what the commands have in common.

mod action;
pub(crate) mod actions;

pub(crate) mod check;
pub(crate) mod collect;
pub(crate) mod completions;
pub(crate) mod dead;
mod dead_letters;
#[cfg(feature = "dev")]
pub(crate) mod dev;
pub(crate) mod discard;
#[cfg(feature = "send")]
pub(crate) mod init;
pub(crate) mod keygen;
mod level;
pub(crate) mod man;
pub(crate) mod migrate;
pub(crate) mod prune;
pub(crate) mod retry;
#[cfg(feature = "send")]
pub(crate) mod send;
pub(crate) mod sign;
pub(crate) mod status;
pub(crate) mod subject;
pub(crate) mod suppress;
pub(crate) mod trace;
#[cfg(feature = "ui")]
pub(crate) mod ui;
pub(crate) mod verify;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::str::FromStr as _;

use mailroom_connect::{
    ConnectError, ConnectionSettings, Environment, PasswordCommand, Schema, SchemaClient, Session,
    SessionOptions, explain,
};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use zeroize::Zeroizing;

use crate::collect::CollectError;
use crate::colour::{ERROR, WARNING};
use crate::config::{SchemaSetting, setting_of_variable, unknown_variables};
use crate::keys::KeyError;
use crate::migrate::MigrateError;
use crate::preflight::{self, Requirements};
use crate::sink::StartError;

pub(crate) type Outcome = Result<ExitCode, CommandError>;

/// There is no flag for it: it may hold a password.
const DATABASE_URL: &str = "MAILROOM_DATABASE_URL";
const PASSWORD_COMMAND: &str = "MAILROOM_DATABASE_PASSWORD_COMMAND";

const UNREADABLE: &str = "standard input cannot be read";

/// What a command ends with if the reader of its output has closed the pipe: as if by SIGPIPE.
const CLOSED_PIPE: u8 = 128 + 13;

/// Why a command fails.
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
    /// The reader of standard output wants no more: `mailroom dead | head`.
    #[error("the reader of standard output has closed it")]
    ClosedPipe,
}

impl CommandError {
    /// Whether the caller has to change how the command is called, a setting or a key.
    fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::Key(_) | Self::Start(StartError::Discards))
    }

    fn because<E: Display>(what: impl Display) -> impl FnOnce(E) -> Self {
        move |error| Self::Failure(format!("{what}: {error}"))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::ClosedPipe => ExitCode::from(CLOSED_PIPE),
            error if error.is_usage() => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}

/// Only the message of an error is shown: its detail can quote rows.
impl From<tokio_postgres::Error> for CommandError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Failure(explain(&error))
    }
}

/// Why a view of the schema cannot be read. What grants it or makes it is said.
fn unreadable_view(error: tokio_postgres::Error, schema: &Schema, view: &str) -> CommandError {
    let fault = match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            format!(
                "a right is missing; GRANT SELECT ON {schema}.{view} to this role, as its owner"
            )
        }
        Some(&SqlState::UNDEFINED_TABLE) => {
            format!(
                "the database has no view {schema}.{view}; run `mailroom migrate up`, \
                 or name the right database"
            )
        }
        _ => return error.into(),
    };
    CommandError::Failure(fault)
}

/// The JSON of a column. PostgreSQL takes for JSON what no number and no text can be read from, and
/// keeps it as it was written.
fn json_in(row: &Row, column: usize) -> Result<Value, CommandError> {
    Value::from_str(row.try_get(column)?)
        .map_err(CommandError::because("what the database has cannot be read as JSON"))
}

fn print(line: impl Display) -> Outcome {
    writeln!(io::stdout(), "{line}").map_err(unwritable)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a line that has colours, if this is a terminal.
fn print_coloured(line: impl Display) -> Outcome {
    writeln!(anstream::stdout(), "{line}").map_err(unwritable)?;
    Ok(ExitCode::SUCCESS)
}

/// Why standard output does not take what is written.
#[expect(clippy::needless_pass_by_value, reason = "map_err passes it so")]
fn unwritable(error: io::Error) -> CommandError {
    match error.kind() {
        io::ErrorKind::BrokenPipe => CommandError::ClosedPipe,
        _ => CommandError::Failure(format!("standard output cannot be written: {error}")),
    }
}

/// Writes a line to standard error. If standard error is closed,
/// the command goes on and keeps its outcome.
fn report(line: impl Display) {
    writeln!(io::stderr(), "{line}").ok();
}

/// Says what a person should know, and that nothing has failed.
fn warn(sentence: impl Display) {
    writeln!(anstream::stderr(), "{WARNING}warning:{WARNING:#} {sentence}").ok();
}

/// Says why a command fails, and which variables may have been meant for settings that are missing.
pub(crate) fn report_error(error: &CommandError) {
    if matches!(error, CommandError::ClosedPipe) {
        return;
    }
    writeln!(anstream::stderr(), "{ERROR}mailroom:{ERROR:#} {error}").ok();
    let said = error.to_string();
    // Only where it may be the cause: what is missing was perhaps set under another name.
    for (name, nearest) in unknown_variables() {
        if let Some(nearest) =
            nearest.filter(|nearest| error.is_usage() && said.contains(nearest.as_str()))
        {
            report(format_args!(
                "mailroom: the variable {name} is set, which is no setting; did you mean {nearest}?"
            ));
        }
    }
}

fn random_bytes() -> Result<Zeroizing<[u8; 32]>, CommandError> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut())
        .map_err(CommandError::because("the operating system gives no random bytes"))?;
    Ok(bytes)
}

/// 32 random bytes in hexadecimal.
#[cfg(any(feature = "dev", feature = "ui"))]
fn random_text() -> Result<Zeroizing<String>, CommandError> {
    Ok(Zeroizing::new(base16ct::lower::encode_string(random_bytes()?.as_slice())))
}

pub(crate) fn connection_settings(
    schema: SchemaSetting,
) -> Result<ConnectionSettings, CommandError> {
    let schema = schema.read().map_err(CommandError::Usage)?;
    let resolve = |text: &str| {
        let settings = ConnectionSettings::resolve(text, &Environment::of_process());
        settings.map_err(|error| format!("cannot be used: {error}"))
    };
    let settings = setting_of_variable(DATABASE_URL, resolve).map_err(CommandError::Usage)?;
    let mut settings = settings.ok_or_else(|| {
        let advice = "set it to a URL (postgresql://user@host/database) or a keyword string \
             (host=… dbname=…)";
        CommandError::Usage(format!("{DATABASE_URL} is not set; {advice}"))
    })?;
    settings.schema = schema;
    let parse = |text: &str| {
        let allowed = "the words of a command; a quote does not end, or there is no word";
        PasswordCommand::parse(text).ok_or_else(|| format!("must be {allowed}"))
    };
    let command = setting_of_variable(PASSWORD_COMMAND, parse).map_err(CommandError::Usage)?;
    if let Some(command) = command {
        settings
            .ask_for_password(command)
            .map_err(|error| CommandError::Usage(format!("{PASSWORD_COMMAND}: {error}")))?;
    }
    Ok(settings)
}

/// Connects. The session has to be driven, see [`Session`].
pub(crate) async fn connect(
    settings: &ConnectionSettings,
    application_name: &str,
    needs_session: bool,
) -> Result<Session, CommandError> {
    let options = SessionOptions { application_name, statement_timeout: None, needs_session };
    Ok(Box::pin(mailroom_connect::connect(settings, &options)).await?)
}

/// Connects, also through a pooler, and requires functions of the queue. Returns also whether a
/// lock of the session lasts.
async fn connect_to_queue(
    schema: SchemaSetting,
    application_name: &str,
    functions: &[&str],
) -> Result<(SchemaClient, bool), CommandError> {
    connect_to_queue_with(schema, application_name, functions, &[]).await
}

/// Does the same, and requires the right to execute those `optional` functions that exist.
async fn connect_to_queue_with(
    schema: SchemaSetting,
    application_name: &str,
    functions: &[&str],
    optional: &[&str],
) -> Result<(SchemaClient, bool), CommandError> {
    let settings = connection_settings(schema)?;
    let Session { client, connection, keeps_state, .. } =
        connect(&settings, application_name, false).await?;
    connection.spawn();
    let client = SchemaClient { raw: client, schema: settings.schema };
    require(&client, functions, optional).await?;
    Ok((client, keeps_state))
}

/// Fails if functions are missing, or the right to execute them; if an `optional` one is missing,
/// nothing is.
async fn require(
    client: &SchemaClient,
    functions: &[&str],
    optional: &[&str],
) -> Result<(), CommandError> {
    let requirements = Requirements { functions, optional, tables: &[], alternative: "" };
    let missing = preflight::missing(client, requirements).await?;
    missing.map_or(Ok(()), |fault| Err(CommandError::Failure(fault)))
}
