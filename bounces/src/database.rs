//! Writes suppressions. The role needs the function `mailroom.suppress` and nothing else.

use std::time::Duration;

use mailroom_connect::{
    ConnectionSettings, SchemaClient, Session, SessionOptions, connect, explain,
};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::notice::{Notice, Refusal};

/// The longest time for a notification. Providers wait for longer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(8);

const AWAY: Refusal = Refusal::Unavailable("the database cannot be used now");

/// The database, and the connection that was used last.
pub(crate) struct Database {
    settings: ConnectionSettings,
    client: Mutex<Option<SchemaClient>>,
}

impl Database {
    pub(crate) fn new(settings: ConnectionSettings) -> Self {
        Self { settings, client: Mutex::new(None) }
    }

    /// Suppresses what a notification of a provider names;
    /// returns how many addresses were not before.
    ///
    /// # Errors
    /// The database cannot be reached, refuses it or takes too long. What is written by then stays,
    /// and changes nothing when the notification comes again.
    pub(crate) async fn suppress(
        &self,
        provider: &str,
        notices: &[Notice],
    ) -> Result<usize, Refusal> {
        if notices.is_empty() {
            return Ok(0);
        }
        let written = timeout(WRITE_TIMEOUT, async {
            let mut client = self.client.lock().await;
            // A connection may have ended since it was used last.
            if let Some(client) = client.take_if(|client| !client.raw.is_closed())
                && let Ok(count) = write(&client, provider, notices).await
            {
                return Ok((count, client));
            }
            let fresh = self.connect().await?;
            let count = write(&fresh, provider, notices).await.map_err(|error| explain(&error))?;
            Ok::<_, String>((count, fresh))
        });
        let reason = match written.await {
            Ok(Ok((count, used))) => {
                *self.client.lock().await = Some(used);
                return Ok(count);
            }
            Ok(Err(reason)) => reason,
            Err(_) => "it did not answer in time".to_owned(),
        };
        tracing::error!(
            event = "database_away",
            reason,
            provider,
            "a notification is to come again: the database cannot be used"
        );
        Err(AWAY)
    }

    async fn connect(&self) -> Result<SchemaClient, String> {
        let options = SessionOptions {
            application_name: "mailroom bounces",
            statement_timeout: Some(WRITE_TIMEOUT),
            needs_session: false,
        };
        let session = Box::pin(connect(&self.settings, &options)).await;
        let Session { client, connection, .. } = session.map_err(|error| error.to_string())?;
        connection.spawn();
        Ok(SchemaClient { raw: client, schema: self.settings.schema.clone() })
    }
}

async fn write(
    client: &SchemaClient,
    provider: &str,
    notices: &[Notice],
) -> Result<usize, tokio_postgres::Error> {
    let mut count = 0;
    for Notice { addresses, reason, detail } in notices {
        for address in addresses {
            let parameters = [
                (address as _, Type::TEXT),
                (&reason.name() as _, Type::TEXT),
                (&provider as _, Type::TEXT),
                (detail as _, Type::TEXT),
            ];
            match client.query_typed("SELECT mailroom.suppress($1, $2, $3, $4)", &parameters).await
            {
                Ok(rows) => count += usize::from(rows.first().is_some_and(|row| row.get(0))),
                // No account of a database in another encoding
                // than UTF-8 has this form of the address.
                Err(error) if error.code() == Some(&SqlState::UNTRANSLATABLE_CHARACTER) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(count)
}
