//! The cursor queue: what moves the cursor, what does not, and who may.

mod advancing;
mod cost;
mod eligibility;

mod skipped;
mod succession;

use std::process::Command;

use anyhow::Result;
use mailroom_tests::collector;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{CURSOR, wait_for};
use tokio_postgres::Client;

/// A collector that sends what there is at once and polls five times a second.
fn eager(database: &Database) -> Result<Command> {
    let mut command = collector::on_base_schema(database.url())?;
    command.args(["--batch-timeout", "0", "--poll-interval", "200ms"]);
    Ok(command)
}

/// Patient with a collector that gets on.
async fn wait_for_cursor(client: &Client, wanted: i64) -> Result<()> {
    wait_for(client, CURSOR, wanted).await
}
