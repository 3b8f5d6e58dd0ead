//! The schema `mailroom` alone: mails to the people of any table, and actions beside the first two.

mod actions;
mod bound;
mod cancelling;
mod collecting;
mod eligibility;
mod enqueueing;
mod foreign_predicates;
mod forgetting;
mod formats;
mod idempotency;
mod notices;
mod racing;
mod refusals;
mod renewing;
mod secrets;
mod under_load;
mod wrong_codes;

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom::config::DeliverySettings;
use mailroom::queue::{Batch, ClaimRequest, DeliveriesQueue, Nack, Queue, Settlement, Token};
use mailroom_connect::{ConnectionSettings, Environment};
use mailroom_tests::postgres::Database;
use mailroom_verifier_core::Version;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

pub(crate) use crate::deliveries::{clock, sent};

/// An empty database after `mailroom migrate up --without-accounts`.
pub(crate) fn without_accounts(database: Database) -> Result<Database> {
    database.migrate_with(&["--without-accounts"])
}

async fn product() -> Result<(Database, Client)> {
    let database = without_accounts(Database::create()?)?;
    let client = database.connect().await?;
    Ok((database, client))
}

/// Enqueues a mail by a call as it stands in the document, such as `'invite', 'ada@example.test'`.
async fn enqueue(client: &Client, arguments: &str) -> Result<i64, Error> {
    Ok(client.query_one(&format!("SELECT mailroom.enqueue({arguments})"), &[]).await?.get(0))
}

/// The error of a statement that must fail, as its code and message.
async fn refused(client: &Client, statement: &str) -> Result<(SqlState, String)> {
    let error =
        client.batch_execute(statement).await.err().with_context(|| statement.to_owned())?;
    let error = error.as_db_error().context("it comes from the server")?;
    Ok((error.code().clone(), error.message().to_owned()))
}

async fn number(client: &Client, query: &str) -> Result<i64> {
    Ok(client.query_one(&format!("SELECT ({query})::bigint"), &[]).await?.get(0))
}

async fn count(client: &Client, rows: &str) -> Result<i64> {
    number(client, &format!("SELECT count(*) FROM {rows}")).await
}

async fn state(client: &Client, token: i64) -> Result<String> {
    let query = "SELECT state FROM mailroom.deliveries WHERE token = $1";
    Ok(client.query_one(query, &[&token]).await?.get(0))
}

async fn redeem(
    client: &Client,
    token: &Token,
    action: &str,
    code: Option<&str>,
) -> Result<String, Error> {
    let query = "SELECT verdict::text FROM mailroom.redeem($1, $2, $3)";
    Ok(client.query_one(query, &[&token.secret, &action, &code]).await?.get(0))
}

/// A collector's queue with a key of a format, after its first heartbeat.
async fn queue(database: &Database, format: Version) -> Result<DeliveriesQueue> {
    let connection = ConnectionSettings::resolve(database.url(), &Environment::of_process())?;
    let settings = DeliverySettings {
        max_attempts: 3,
        bounds_refusals: true,
        backoff: Duration::from_secs(1),
        min_lifetime: Duration::from_secs(30),
        rate: None,
        suppress_unknown: false,
    };
    let mut queue = DeliveriesQueue::new(connection, settings, Duration::from_secs(90), format)?;
    queue.open().await?;
    queue.heartbeat().await?;
    Ok(queue)
}

/// Claims whatever is due in one batch at most.
async fn claim(queue: &mut DeliveriesQueue) -> Result<Option<Batch>> {
    let want = ClaimRequest {
        batches: 1,
        limit: 100,
        partial: true,
        rescan: true,
        spares_doubtful: false,
    };
    Ok(queue.settle_and_claim(Vec::new(), Some(want)).await?.batches.pop())
}

/// Claims whatever is due and settles it as sent.
async fn send(queue: &mut DeliveriesQueue) -> Result<Vec<Token>> {
    let Some(batch) = claim(queue).await? else { return Ok(Vec::new()) };
    queue.settle_and_claim(vec![sent(batch.id)], None).await?;
    Ok(batch.tokens)
}

/// Claims whatever is due and gives it up.
async fn give_up(queue: &mut DeliveriesQueue) -> Result<Vec<Token>> {
    let Some(batch) = claim(queue).await? else { return Ok(Vec::new()) };
    let dead = |token: &Token| (token.id, Nack::Dead { reason: "no such mailbox".to_owned() });
    let nacks = batch.tokens.iter().map(dead).collect();
    queue.settle_and_claim(vec![Settlement::of(batch.id, nacks)], None).await?;
    Ok(batch.tokens)
}

fn ids(tokens: &[Token]) -> Vec<i64> {
    tokens.iter().map(|token| token.id).collect()
}
