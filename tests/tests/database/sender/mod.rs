//! `--sender`: answers count, whatever the sender does, and no token is lost.

mod answers;
mod doubts;
mod ends;
mod lines;
mod outage;
mod pace;
mod secrecy;
mod test_sender;
mod untried;

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom_tests::collector;
use mailroom_tests::postgres::Database;
use test_sender::TestSender;
use tokio_postgres::Client;

/// A collector of the deliveries queue that claims without waiting, and runs the test's sender
/// unless `--sender` is given. It takes no sender for hung that answers as soon as the test lets
/// it, however long this machine does something else.
fn command(database: &Database, sender: &TestSender) -> Result<Command> {
    let mut command = collector::command(database.url())?;
    command.args([
        "--queue-kind",
        "deliveries",
        "--batch-timeout",
        "0",
        "--poll-interval",
        "200ms",
    ]);
    command.env("MAILROOM_SENDER", sender.command());
    command.envs([("MAILROOM_SENDER_TIMEOUT", "10m"), ("MAILROOM_LEASE", "20m")]);
    Ok(command)
}

/// The state of a token in the view for operators.
async fn state(client: &Client, token: i64) -> Result<String> {
    let query = "SELECT state::text FROM mailroom.deliveries WHERE token = $1";
    Ok(client.query_one(query, &[&token]).await?.get(0))
}

/// The reason of that state.
async fn reason(client: &Client, token: i64) -> Result<String> {
    let query = "SELECT reason FROM mailroom.deliveries WHERE token = $1";
    Ok(client.query_one(query, &[&token]).await?.get(0))
}

/// Waits until tokens are in that state.
async fn wait_for_state(client: &Client, tokens: &[i64], wanted: &str) -> Result<()> {
    for _ in 0..12_000 {
        let mut reached = true;
        for token in tokens {
            reached &= state(client, *token).await? == wanted;
        }
        if reached {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for token in tokens {
        let state = state(client, *token).await?;
        ensure!(state == wanted, "token {token} is {state} instead of {wanted}");
    }
    Ok(())
}

/// How many tokens are claimed.
const LEASED: &str = "SELECT coalesce(sum(cardinality(tokens)), 0)::bigint FROM mailroom.leases";

/// What [`LEASED`] answers.
async fn leased(client: &Client) -> Result<i64> {
    Ok(client.query_one(LEASED, &[]).await?.get(0))
}
