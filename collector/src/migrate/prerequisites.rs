//! What must be so before the first migration is taken, so that none stops in the middle for lack
//! of it.

use mailroom_connect::Schema;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::error::MigrateError;
use super::history::{History, OWN_TABLES};
use super::migration::CREATES_SCHEMA;

/// The oldest major version whose SQL has all that the migrations use: bodies of functions in
/// standard SQL.
const OLDEST_SERVER: i32 = 14;

/// The migration that looks for pgcrypto on the search path.
const USES_PGCRYPTO: i64 = 0;

/// Checks server, rights and extension for the migrations from number `next` on.
pub(super) async fn check(
    client: &Client,
    history: &History,
    next: i64,
) -> Result<(), MigrateError> {
    let refused =
        |fault: String| Err(MigrateError::Refused(format!("{fault}; nothing was changed")));
    let row = client
        .query_one("SELECT current_setting('server_version_num')::integer / 10000", &[])
        .await?;
    let version: i32 = row.get(0);
    if version < OLDEST_SERVER {
        return refused(format!(
            "the server is PostgreSQL {version}, and Mailroom needs {OLDEST_SERVER} or newer"
        ));
    }
    let mailroom = history.mailroom.to_string();
    if !history.is_standalone && history.schema == mailroom {
        return refused(format!(
            "the schema {mailroom} would have the tables of accounts, too; name another one by \
             --schema or MAILROOM_SCHEMA, or put another schema first on the search_path"
        ));
    }
    let parameters: [&(dyn ToSql + Sync); 4] =
        [&&OWN_TABLES[..], &history.schema, &mailroom, &history.table];
    let row = client.query_one(include_str!("prerequisites.sql"), &parameters).await?;
    if next <= CREATES_SCHEMA && history.mailroom != Schema::default() && row.get("is_used") {
        return refused(format!(
            "the schema {mailroom} has tables already; \
             name one of Mailroom's own by --schema or MAILROOM_SCHEMA"
        ));
    }
    let role: &str = row.get("role");
    let schema = &history.schema;
    let refused = |fault: String| refused(format!("the role \"{role}\" {fault}"));
    if let Some(tables) = row.get::<_, Option<&str>>("foreign_tables") {
        return refused(format!(
            "does not own {tables} in schema {schema}; \
             connect as the role that owns Mailroom's tables"
        ));
    }
    if !row.get::<_, bool>("creates") {
        return refused(format!(
            "may not create anything in schema {schema}; \
             GRANT CREATE, USAGE ON SCHEMA {schema} TO \"{role}\""
        ));
    }
    if next <= CREATES_SCHEMA && !row.get::<_, bool>("creates_schemas") {
        let database: &str = row.get("database");
        return refused(format!(
            "may not create the schema {mailroom}; GRANT CREATE ON DATABASE {database} TO \
             \"{role}\", or CREATE SCHEMA {mailroom} AUTHORIZATION \"{role}\"; \
             a schema of another owner does not do"
        ));
    }
    if next > USES_PGCRYPTO {
        return Ok(());
    }
    let installed: Option<&str> = row.get("pgcrypto_schema");
    match (installed, row.get("has_random_bytes"), row.get("is_available"), row.get("extends")) {
        (Some(_), true, ..) | (None, _, true, true) => Ok(()),
        (Some(home), ..) => refused(format!(
            "does not find pgcrypto, which is in the schema {home}; put that behind {schema} on \
             its search_path, as by ALTER ROLE \"{role}\" SET search_path = {schema}, {home}, and \
             GRANT USAGE ON SCHEMA {home} TO \"{role}\""
        )),
        (None, _, false, _) => refused(
            "needs the extension pgcrypto, which the server does not have; install \
             PostgreSQL's contrib modules there"
                .to_owned(),
        ),
        (None, _, true, false) => refused(format!(
            "may not create the extension pgcrypto; let a superuser run CREATE EXTENSION pgcrypto \
             SCHEMA {schema} in this database (on Heroku, as anybody, SCHEMA heroku_ext), or GRANT \
             CREATE ON DATABASE where the extension is trusted"
        )),
    }
}
