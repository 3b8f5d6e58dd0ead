//! What the database does by itself: tokens at registration,
//! times and states of accounts, notifications.
//!
//! Unless a test is about one of the base schema's faults,
//! it holds for the base schema and for the newest one.

mod notices;
mod notifications;
mod registration;
mod standing;

use anyhow::{Result, ensure};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

/// A database of each schema whose behaviour is the same.
fn databases() -> Result<[Database; 2]> {
    Ok([Database::with_base_schema()?, Database::migrated()?])
}

async fn register(client: &Client, name: &str) -> Result<i64> {
    client.account(name).insert().await
}

async fn count(client: &Client, table: &str) -> Result<i64> {
    Ok(client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await?.get(0))
}

async fn consume(client: &Client, account: i64, action: &str) -> Result<()> {
    let update = "UPDATE tokens SET consumed_at = extract(epoch FROM now())
        WHERE account = $1 AND action = $2::text::token_action AND consumed_at IS NULL";
    ensure!(
        client.execute(update, &[&account, &action]).await? == 1,
        "there is not one such token"
    );
    Ok(())
}
