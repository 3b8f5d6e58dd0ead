//! The mark of a database that belongs to `mailroom dev`, whose mails nobody sends.
//!
//! It is the comment on the schema: every role can read it, a dump keeps it,
//! and the schema's owner alone can change it.

use mailroom_connect::SchemaClient;
use tokio_postgres::Error;

const IS_MARKED: &str = include_str!("is_for_development.sql");

/// What a session is refused with that is not one of a developer.
pub(crate) const REFUSED: &str = "the database belongs to `mailroom dev`, which shows its mails \
                                  and sends none; name another one in MAILROOM_DATABASE_URL, or, \
                                  to send its mails all the same, start the collector with --dev";

/// Whether the database is marked.
pub(crate) async fn is_marked(client: &SchemaClient) -> Result<bool, Error> {
    client.query_typed_one(IS_MARKED, &[]).await?.try_get(0)
}

/// Marks the database, as the schema's owner.
#[cfg(feature = "dev")]
pub(crate) async fn mark(client: &SchemaClient) -> Result<(), Error> {
    let statement = "COMMENT ON SCHEMA mailroom IS \
                     'For development: belongs to mailroom dev, which sends no mails.'";
    client.raw.batch_execute(&client.schema.sql(statement)).await
}
