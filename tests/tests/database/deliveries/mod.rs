//! The queue of leased rows: where a token stands, who has it, and what is written down about it.

mod binding;
mod budget;
mod claiming;
pub(crate) mod clock;
mod collectors;
mod deferring;
mod doubts;
mod low_watermark;
mod model;
mod rate;
mod rate_of_processes;
mod receipts;
mod refusals;
mod set_back;
mod settling;
mod spellings;
mod state;
mod suppressing;
mod sweeping;
mod takeover;
mod verdicts;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use mailroom::config::DeliverySettings;
use mailroom::queue::{Batch, BatchId, ClaimRequest, DeliveriesQueue, Queue, Settlement};
use mailroom_connect::{ConnectionSettings, Environment};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_verifier_core::Version;
use tokio_postgres::Client;

const LEASE: Duration = Duration::from_secs(90);

/// A second less than a lease.
const ALMOST: Duration = Duration::from_secs(89);

const SETTINGS: DeliverySettings = DeliverySettings {
    max_attempts: 3,
    bounds_refusals: true,
    backoff: Duration::from_secs(1),
    min_lifetime: Duration::from_secs(30),
    rate: None,
    suppress_unknown: false,
};

/// Whatever there is, in batches of `limit`.
#[expect(clippy::unnecessary_wraps, reason = "it is always passed as what is wanted")]
fn all(limit: usize) -> Option<ClaimRequest> {
    Some(ClaimRequest { batches: 100, limit, partial: true, rescan: true, spares_doubtful: false })
}

/// The reader has all tokens of a batch.
pub(crate) fn sent(batch: BatchId) -> Settlement {
    Settlement::of(batch, Vec::new())
}

/// A queue as a new process opens it, and its first heartbeat.
async fn queue(database: &Database) -> Result<DeliveriesQueue> {
    queue_with(database, SETTINGS).await
}

async fn queue_with(database: &Database, settings: DeliverySettings) -> Result<DeliveriesQueue> {
    let connection = ConnectionSettings::resolve(database.url(), &Environment::of_process())?;
    let mut queue = DeliveriesQueue::new(connection, settings, LEASE, Version::V2)?;
    queue.open().await?;
    assert_eq!(queue.heartbeat().await?, []);
    Ok(queue)
}

/// A token of an account of its own that has the right status, due now.
async fn token(client: &Client, action: &str) -> Result<i64> {
    Ok(client.token().action(action).insert().await?.0.id)
}

async fn tokens(client: &Client, action: &str, count: usize) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(token(client, action).await?);
    }
    Ok(ids)
}

fn ids(batches: &[Batch]) -> Vec<i64> {
    batches.iter().flat_map(|batch| &batch.tokens).map(|token| token.id).collect()
}

/// Where all tokens stand, by the view.
async fn states(client: &Client) -> Result<BTreeMap<i64, (String, Option<i32>)>> {
    let rows = client.query("SELECT token, state, attempts FROM mailroom.deliveries", &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect())
}

async fn state(client: &Client, token: i64) -> Result<(String, Option<i32>)> {
    states(client).await?.remove(&token).context("there is no such token")
}

/// What the log says of a token: attempt, outcome and reason.
async fn log(client: &Client, token: i64) -> Result<Vec<(i32, String, Option<String>)>> {
    let query = "SELECT attempt, outcome::text, reason FROM mailroom.delivery_log \
                 WHERE $1 = ANY (tokens) ORDER BY happened_at, ctid";
    let rows = client.query(query, &[&token]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

fn entry(attempt: i32, outcome: &str) -> (i32, String, Option<String>) {
    (attempt, outcome.to_owned(), None)
}

/// An end before the first attempt, with its reason.
fn ended(outcome: &str, reason: &str) -> (i32, String, Option<String>) {
    (0, outcome.to_owned(), Some(reason.to_owned()))
}

fn at(state: &str, attempts: i32) -> (String, Option<i32>) {
    (state.to_owned(), Some(attempts))
}
