//! The database of `MAILROOM_DATABASE_URL`. There is no flag for it: it may hold a password.

use mailroom_connect::{ConnectionSettings, Environment, Session, SessionOptions};
use tokio_postgres::Client;

use super::CommandError;
use crate::config::setting_of_variable;
use crate::preflight::{self, Requirements};

const DATABASE_URL: &str = "MAILROOM_DATABASE_URL";

pub(super) fn connection_settings() -> Result<ConnectionSettings, CommandError> {
    let resolve = |text: &str| {
        let settings = ConnectionSettings::resolve(text, &Environment::of_process());
        settings.map_err(|error| format!("cannot be used: {error}"))
    };
    let settings = setting_of_variable(DATABASE_URL, resolve).map_err(CommandError::Usage)?;
    settings.ok_or_else(|| {
        let advice =
            "set it to a URL (postgresql://user@host/database) or a keyword string (host=… dbname=…)";
        CommandError::Usage(format!("{DATABASE_URL} is not set; {advice}"))
    })
}

/// Connects. The session has to be driven, see [`Session`].
pub(super) async fn connect(application_name: &str, needs_session: bool) -> Result<Session, CommandError> {
    let settings = connection_settings()?;
    let options = SessionOptions { application_name, statement_timeout: None, needs_session };
    Ok(Box::pin(mailroom_connect::connect(&settings, &options)).await?)
}

/// Connects, also by a pooler, and requires functions of the queue. Returns also whether a lock of the session lasts.
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
