//! Random histories against a model in memory.
//!
//! Three collectors, which are real queues with connections of their own, work on one database,
//! while accounts change, tokens are made, redeemed, cancelled, put back and pruned by transactions
//! that stay open for a while, and the clock is turned. The model records what each collector was
//! given and what it said; after each step the whole of the queue's tables is read and compared. In
//! some steps two collectors and an application send their statements at the same time; whatever
//! comes of it must be what it could be if they had come one after the other.

mod checks;
mod collecting;
mod living;
mod steps;
mod together;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use mailroom::queue::{Batch, DeliveriesQueue};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::machine::is_full;
use mailroom_tests::postgres::Database;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio_postgres::Client;

use super::{clock, queue};
use steps::{Step, steps};

const COLLECTORS: usize = 3;
const ACCOUNTS: i64 = 6;

/// What the model knows.
struct Model<'a> {
    database: &'a Database,
    client: Client,
    /// A transaction of an application or operator, which may do anything, and one that changes a
    /// status, if they are open.
    late: Client,
    late_tokens: Option<Vec<i64>>,
    status: Client,
    is_status_open: bool,
    /// Low watermarks may be wrong for a while after that.
    was_set_back: bool,
    collectors: Vec<DeliveriesQueue>,
    /// What each collector was given and has said nothing about.
    held: Vec<Vec<Batch>>,
    /// Every token that was committed.
    known: BTreeSet<i64>,
    /// The last attempt that was handed out, and all that must get an entry in the log.
    handed_out: BTreeMap<i64, u32>,
    expected_entries: BTreeSet<(i64, u32)>,
    sent: BTreeSet<i64>,
}

impl<'a> Model<'a> {
    async fn new(database: &'a Database) -> Result<Self> {
        let client = impatient(database).await?;
        client
            .batch_execute(
                "TRUNCATE accounts, tokens RESTART IDENTITY CASCADE;
                TRUNCATE mailroom.issued_tokens, mailroom.queue, mailroom.leases,
                    mailroom.dead_letters, mailroom.payloads, mailroom.delivery_log,
                    mailroom.collectors CASCADE;
                SELECT setval('mailroom.low_watermark', 0);
                UPDATE stopped_clock SET moment = date_trunc('second', clock_timestamp())",
            )
            .await?;
        client.accounts(numbered("", 1..=6)).active().insert().await?;
        let mut collectors = Vec::new();
        for _ in 0..COLLECTORS {
            collectors.push(queue(database).await?);
        }
        Ok(Self {
            database,
            client,
            late: impatient(database).await?,
            late_tokens: None,
            status: impatient(database).await?,
            is_status_open: false,
            was_set_back: false,
            collectors,
            held: vec![Vec::new(); COLLECTORS],
            known: BTreeSet::new(),
            handed_out: BTreeMap::new(),
            expected_entries: BTreeSet::new(),
            sent: BTreeSet::new(),
        })
    }
}

/// A connection that does not wait for locks, which only the end
/// of another open transaction would release.
async fn impatient(database: &Database) -> Result<Client> {
    let client = database.connect().await?;
    client.batch_execute("SET lock_timeout = '20ms'").await?;
    Ok(client)
}

async fn live_through(database: &Database, steps: &[Step]) -> Result<()> {
    let mut model = Model::new(database).await?;
    for (nth, step) in steps.iter().enumerate() {
        let lived = async {
            model.take(step).await?;
            model.check().await
        };
        lived.await.with_context(|| format!("step {nth}, {step:?}"))?;
    }
    model.finish().await.context("at the end")
}

#[test]
fn in_any_history_each_token_is_in_one_place_and_none_is_lost() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let database = Database::migrated()?;
    runtime.block_on(async { clock::stop(&database.connect().await?).await })?;
    let cases = std::env::var("MAILROOM_TEST_HISTORIES").ok().and_then(|cases| cases.parse().ok());
    let cases = cases.unwrap_or(if is_full() { 72 } else { 24 });
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&steps(), |steps| {
        let lived = runtime.block_on(live_through(&database, &steps));
        lived.map_err(|error| TestCaseError::fail(format!("{error:#}")))
    });
    outcome.map_err(|error| anyhow::anyhow!("{error}"))
}
