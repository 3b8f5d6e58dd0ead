//! Looks into the database: each in a transaction that cannot change anything, whatever rights the
//! role has.

use std::sync::Arc;
use std::time::Duration;

use mailroom_connect::{ConnectionSettings, SchemaClient, Session};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};

use super::address::{About, Page};
use super::page::MAX_ROWS;
use crate::commands::{CommandError, connect, json_in, require, status, unreadable_view};

/// The longest time that a statement takes in the server, and that this process may leave the
/// transaction alone, such as when it is stopped.
const BEGIN: &str = "BEGIN READ ONLY; SET LOCAL statement_timeout = '15s'; \
                     SET LOCAL idle_in_transaction_session_timeout = '15s'";

/// The longest time that a look takes: a network may say nothing.
const LOOK: Duration = Duration::from_secs(30);

/// What a look has found.
pub(super) enum Seen {
    /// The figures of `mailroom status`.
    Figures(Value),
    /// Rows, the newest first, or the events of a story in their order.
    Rows(Vec<Value>),
}

/// The database, and a connection to it as long as it lasts.
pub(super) struct Database {
    settings: ConnectionSettings,
    client: Mutex<Option<SchemaClient>>,
}

impl Database {
    /// # Errors
    /// It cannot be reached.
    pub(super) async fn open(settings: ConnectionSettings) -> Result<Self, CommandError> {
        let client = Mutex::new(Some(client(&settings).await?));
        Ok(Self { settings, client })
    }

    /// What a page shows.
    ///
    /// # Errors
    /// The database is away, or a right is missing.
    pub(super) async fn look(
        self: &Arc<Self>,
        page: Page,
        installation: Option<String>,
    ) -> Result<Seen, CommandError> {
        let database = Arc::clone(self);
        // A task of its own: a browser that goes away would leave its statement in the server, and
        // its next request would begin another one.
        let looking = tokio::spawn(async move {
            let looked = database.look_patiently(&page, installation.as_deref());
            let late = || CommandError::Failure("the database does not answer".to_owned());
            timeout(LOOK, looked).await.map_err(|_| late())?
        });
        looking.await.map_err(CommandError::because("the look was ended"))?
    }

    async fn look_patiently(
        &self,
        page: &Page,
        installation: Option<&str>,
    ) -> Result<Seen, CommandError> {
        // One look at a time: pages that are loaded over and over do not add up in the server. A
        // connection comes back only after a whole transaction; another one is made for the next.
        let mut kept = self.client.lock().await;
        let former = kept.take().filter(|client| !client.raw.is_closed());
        let client = match former {
            Some(client) => client,
            None => client(&self.settings).await?,
        };
        client.raw.batch_execute(BEGIN).await?;
        let seen = read(&client, page, installation).await?;
        client.raw.batch_execute("ROLLBACK").await?;
        *kept = Some(client);
        Ok(seen)
    }
}

async fn client(settings: &ConnectionSettings) -> Result<SchemaClient, CommandError> {
    let Session { client, connection, .. } = connect(settings, "mailroom ui", false).await?;
    connection.spawn();
    Ok(SchemaClient { raw: client, schema: settings.schema.clone() })
}

async fn read(
    client: &SchemaClient,
    page: &Page,
    installation: Option<&str>,
) -> Result<Seen, CommandError> {
    let most = i64::try_from(MAX_ROWS + 1).unwrap_or(i64::MAX);
    let rows = match page {
        Page::Queue => {
            require(client, &["mailroom.status"], &[]).await?;
            return Ok(Seen::Figures(status::figures(client, installation).await?));
        }
        Page::Story(about) => {
            require(client, &["mailroom.trace"], &[]).await?;
            let (tokens, address) = match about {
                About::Token(id) => (Some(vec![*id]), None),
                About::Address(address) => (None, Some(address)),
            };
            let parameters = [(&tokens as _, Type::INT8_ARRAY), (&address as _, Type::TEXT)];
            listed(client, include_str!("../trace.sql"), &parameters, 1, "").await?
        }
        Page::Dead => {
            let most = [(&most as _, Type::INT8)];
            listed(client, include_str!("../dead.sql"), &most, 1, "waiting").await?
        }
        Page::Suppressed => {
            let (statement, most) = (include_str!("../suppressed.sql"), Some(most));
            let most = [(&most as _, Type::INT8)];
            let mut rows = listed(client, statement, &most, 1, "suppressed_addresses").await?;
            // The oldest of them come first.
            rows.reverse();
            rows
        }
        Page::Runs => {
            require(client, &["mailroom.list_runs"], &[]).await?;
            let most = i32::try_from(most).unwrap_or(i32::MAX);
            listed(client, include_str!("../runs.sql"), &[(&most as _, Type::INT4)], 0, "").await?
        }
    };
    Ok(Seen::Rows(rows))
}

/// The rows of a statement, of which a column is JSON. `view` is the one that a right may be
/// missing on.
async fn listed(
    client: &SchemaClient,
    statement: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
    column: usize,
    view: &str,
) -> Result<Vec<Value>, CommandError> {
    let rows = client.query_typed(statement, parameters).await;
    let rows = rows.map_err(|error| match view {
        "" => error.into(),
        view => unreadable_view(error, &client.schema, view),
    })?;
    rows.iter().map(|row| json_in(row, column)).collect()
}
