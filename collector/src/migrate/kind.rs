//! Which kind of installation a database is to get: with accounts or without.

use tokio_postgres::Client;

use super::error::MigrateError;
use super::history::History;

/// Refuses to make accounts beside tables of others unless somebody has asked for accounts: a
/// product that has users wants none, and its schemas are its own. Refuses to record in an empty
/// table beside them, which can be the record of a product's own migrations, unless somebody has
/// named that table. A database that has an installation, or had one, is not asked about.
///
/// # Errors
/// There are such tables, or the database cannot be read.
pub(super) async fn refuse_unknown(
    client: &Client,
    history: &History,
    is_kind_known: bool,
    is_table_named: bool,
) -> Result<(), MigrateError> {
    if is_kind_known && is_table_named
        || history.is_standalone
        || history.has_schema
        || history.read(client).await?.is_some()
        || history.tables(client).await?.is_some()
    {
        return Ok(());
    }
    let of_history: [&str; 2] = [&history.table_schema, &history.table];
    let row = client
        .query_one(include_str!("foreign_tables.sql"), &[&of_history[0], &of_history[1]])
        .await?;
    let (Some(examples), count) = (row.get::<_, Option<&str>>(0), row.get::<_, i64>(1)) else {
        return Ok(());
    };
    let more = if count > 3 { format!(" and {} more", count - 3) } else { String::new() };
    if is_kind_known {
        if !history.has_table(client).await? {
            return Ok(());
        }
        let History { table, table_schema, .. } = history;
        return Err(MigrateError::Refused(format!(
            "the table {table} in schema {table_schema} is empty, and the database has tables of \
             others ({examples}{more}), so it may record a product's own migrations; add \
             --migrations-table mailroom_migrations for a table of Mailroom's own, or \
             --migrations-table {table} if Mailroom is to record in this one; nothing was changed"
        )));
    }
    Err(MigrateError::Refused(format!(
        "the database has tables of others ({examples}{more}); a product with a table of users of \
         its own runs `mailroom migrate up --without-accounts`, which makes the schema {mailroom} \
         alone; `mailroom migrate up --with-accounts` makes accounts, tokens and jobs in the \
         schema {home}, too; nothing was changed",
        mailroom = history.mailroom,
        home = history.schema,
    )))
}
