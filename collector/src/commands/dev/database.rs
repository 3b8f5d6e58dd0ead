//! Whether a database may be used by `mailroom dev`, its schema and its mark.

use mailroom_connect::{ConnectionSettings, SchemaClient, Session};
use mailroom_sender::Shown;

use crate::commands::migrate::named_table;
use crate::commands::{CommandError, connect};
use crate::migrate::{self, Plan};
use crate::preflight::development;

const LOOK: &str = include_str!("look.sql");

const ACTIONS: &str = "SELECT name, path IS NOT NULL, code_digits > 0 FROM mailroom.list_actions()";

/// Whether somebody else collects from it, as far as this role may see that.
const OTHERS: &str = "SELECT EXISTS (
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'mailroom collect%'
)";

/// Tables that have rows where mails were asked for or sent, in the order of the columns.
const USED: [&str; 4] =
    ["mailroom.issued_tokens", "mailroom.delivery_log", "mailroom.collectors", "tokens"];

/// Brings the database to the schema of this version, and marks it. Returns what the mails of its
/// actions have, by their names.
///
/// # Errors
/// It is in use and not marked, so that it may be an installation's; it cannot be migrated.
pub(crate) async fn prepare(
    settings: &ConnectionSettings,
    with_accounts: bool,
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<Vec<(String, Shown)>, CommandError> {
    let Session { client, connection, .. } = connect(settings, "mailroom dev", true).await?;
    connection.spawn();
    let mut client = SchemaClient { raw: client, schema: settings.schema.clone() };
    let is_marked = development::is_marked(&client).await?;
    if !is_marked {
        refuse_used(&client).await?;
    }
    let schema = settings.schema.clone();
    let table = named_table()?.unwrap_or_default();
    let of_database = Plan::of_database(&client.raw, table, schema.clone()).await?;
    let query = "SELECT to_regclass('mailroom.issued_tokens') IS NOT NULL";
    let is_installed: bool = client.query_typed_one(query, &[]).await?.try_get(0)?;
    let plan = if is_installed || with_accounts {
        Plan { is_kind_known: true, ..of_database }
    } else {
        Plan::without_accounts(schema)
    };
    migrate::up(&mut client.raw, plan, report).await?;
    if !is_marked {
        development::mark(&client).await?;
    }
    if client.query_typed_one(OTHERS, &[]).await?.try_get(0)? {
        report(
            "another `mailroom dev` or `mailroom collect` uses this database: each mail goes to \
             one of them alone; end that one, or name another database",
        );
    }
    let mut actions = Vec::new();
    for row in client.query_typed(ACTIONS, &[]).await? {
        let name: &str = row.try_get(0)?;
        actions.push((name.to_owned(), Shown::new(name, row.try_get(1)?, row.try_get(2)?)));
    }
    Ok(actions)
}

/// Whoever names the database of an installation by mistake must not have its mails shown instead
/// of sent, nor its collectors refused. Its tokens may all have been pruned.
async fn refuse_used(client: &SchemaClient) -> Result<(), CommandError> {
    let row = client.query_typed_one(LOOK, &[]).await?;
    for (column, table) in USED.into_iter().enumerate() {
        if !row.try_get::<_, bool>(column)? {
            continue;
        }
        let query = format!("SELECT EXISTS (SELECT FROM {table})");
        if client.query_typed_one(&query, &[]).await?.try_get(0)? {
            return Err(CommandError::Failure(format!(
                "the database of MAILROOM_DATABASE_URL is in use ({} has rows) and was not made by \
                 `mailroom dev`, which would show its mails instead of sending them; name another \
                 database, or unset the variable; nothing was changed",
                client.schema.sql(table)
            )));
        }
    }
    Ok(())
}
