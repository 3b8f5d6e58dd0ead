//! The database of `MAILROOM_DATABASE_URL`. There is no flag for it: it may hold a password.

use mailroom_connect::{ConnectionSettings, Environment, Session, SessionOptions};
use tokio_postgres::Client;

use super::CommandError;
use crate::config::variable;
use crate::preflight::{self, Requirements};

const DATABASE_URL: &str = "MAILROOM_DATABASE_URL";

/// How to connect.
pub(super) fn connection_settings() -> Result<ConnectionSettings, CommandError> {
    let text = variable(DATABASE_URL).ok_or_else(|| {
        CommandError::Usage(format!(
            "{DATABASE_URL} is not set; set it to a URL (postgresql://user@host/database) or a keyword string \
             (host=… dbname=…)"
        ))
    })?;
    let text = text.into_string().map_err(|_| {
        CommandError::Usage(format!(
            "{DATABASE_URL} is not valid UTF-8; write it in UTF-8, or percent-encode it"
        ))
    })?;
    ConnectionSettings::resolve(&text, &Environment::of_process())
        .map_err(|error| CommandError::Usage(format!("{DATABASE_URL} cannot be used: {error}")))
}

/// Connects. The session has to be driven, see [`Session`].
pub(super) async fn connect(application_name: &str, needs_session: bool) -> Result<Session, CommandError> {
    let settings = connection_settings()?;
    let options = SessionOptions { application_name, statement_timeout: None, needs_session };
    Ok(Box::pin(mailroom_connect::connect(&settings, &options)).await?)
}

/// Connects, by a pooler's sessions if it is one's, and requires functions of the queue. Returns also whether a lock of the
/// session lasts.
pub(super) async fn connect_to_queue(
    application_name: &str,
    functions: &[&str],
) -> Result<(Client, bool), CommandError> {
    let Session { client, connection, keeps_state, .. } = connect(application_name, false).await?;
    connection.spawn();
    let requirements = Requirements { functions, tables: &[], alternative: "" };
    match preflight::missing(&client, requirements).await? {
        Some(fault) => Err(CommandError::Failure(fault)),
        None => Ok((client, keeps_state)),
    }
}
