//! Writers that begin, wait, commit and roll back at any moment while a collector becomes idle, and
//! then are silent.
//!
//! A missed token is found as soon as anything else is announced. So a round is a few transactions
//! and then silence until all of its tokens have come: nothing else helps the last one, because the
//! poll is off, and a collector that is idle polls by itself no sooner than a lease lasts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{self, Collector, Item};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

/// Far above what a busy machine needs, far below a lease.
const PATIENCE: Duration = Duration::from_secs(80);

const WRITERS: usize = 4;

/// Collectors without a fallback poll, which send single tokens at once.
struct Collectors {
    running: Vec<Collector>,
    items: UnboundedReceiver<Item>,
}

impl Collectors {
    fn start(database: &Database, count: usize, settings: &[&str]) -> Result<Self> {
        let (sender, items) = unbounded_channel();
        let mut running = Vec::new();
        for _ in 0..count {
            let mut command = collector::command(database.url())?;
            command.args([
                "--batch-timeout",
                "0",
                "--poll-interval",
                "24h",
                "--healthcheck-interval",
                "24h",
            ]);
            let mut collector = Collector::start(command.args(settings))?;
            let lines = collector.lines()?;
            let sender = sender.clone();
            std::thread::spawn(move || {
                while let Ok(Some(batch)) = lines.next_batch_or_end() {
                    for item in batch {
                        sender.send(item).ok();
                    }
                }
            });
            running.push(collector);
        }
        for collector in &running {
            collector.wait_until_it_collects()?;
            collector.wait_for_log("listening on", 1)?;
        }
        Ok(Self { running, items })
    }

    /// Waits until the tokens of exactly these logins have come;
    /// returns how long the last one took.
    async fn expect(&mut self, mut logins: BTreeSet<String>, what: &str) -> Result<Duration> {
        let start = Instant::now();
        while !logins.is_empty() {
            let came = timeout(PATIENCE, self.items.recv()).await;
            let item =
                came.with_context(|| format!("{what}: {logins:?} wait while all are idle"))?;
            let item = item.context("the collectors have ended")?;
            ensure!(logins.remove(&item.login), "{what}: {} came and was not expected", item.login);
        }
        Ok(start.elapsed())
    }

    fn stop(self) -> Result<()> {
        self.running.into_iter().try_for_each(|collector| collector.stop().map(drop))
    }
}

/// Numbers that follow from a seed: splitmix64.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Mostly short, now and then longer than a collector's pauses.
    async fn pause(&mut self) {
        let longest = [0, 1, 4, 12, 80][usize::try_from(self.below(5)).unwrap_or_default()];
        if longest > 0 {
            sleep(Duration::from_micros(self.below(1_000 * longest))).await;
        }
    }
}

/// One transaction; returns the logins that are to come.
async fn write(client: &Client, name: String, mut random: Random) -> Result<Vec<String>> {
    random.pause().await;
    let kind = random.below(8);
    if kind == 0 {
        // One that commits at once.
        client.account(&name).insert().await?;
        return Ok(vec![name]);
    }
    let mut expected = Vec::new();
    client.batch_execute("BEGIN").await?;
    for number in 0..=random.below(3) {
        let login = format!("{name}_{number}");
        client.account(&login).insert().await?;
        expected.push(login);
        random.pause().await;
    }
    match kind {
        1 => {
            client.batch_execute("ROLLBACK").await?;
            return Ok(Vec::new());
        }
        2 => {
            // What is undone has given its share of the lock back.
            client.batch_execute("SAVEPOINT before").await?;
            client.account(&format!("{name}_undone")).insert().await?;
            random.pause().await;
            client.batch_execute("ROLLBACK TO SAVEPOINT before").await?;
        }
        3 => {
            // All of them ineligible, and eligible again, in the same transaction or a later one.
            client
                .execute(
                    "UPDATE accounts SET status = 'suspended' WHERE login = ANY ($1)",
                    &[&expected],
                )
                .await?;
            if random.below(2) == 0 {
                client.batch_execute("COMMIT").await?;
                random.pause().await;
                client.batch_execute("BEGIN").await?;
            }
            client
                .execute(
                    "UPDATE accounts SET status = 'provisioned' WHERE login = ANY ($1)",
                    &[&expected],
                )
                .await?;
        }
        _ => {}
    }
    random.pause().await;
    client.batch_execute("COMMIT").await?;
    Ok(expected)
}

async fn rounds(collector_count: usize, count: u64, settings: &[&str]) -> Result<()> {
    let seed = match std::env::var("MAILROOM_TEST_SEED") {
        Ok(text) => text.parse().context("MAILROOM_TEST_SEED is a number")?,
        Err(_) => std::time::UNIX_EPOCH.elapsed()?.as_secs(),
    };
    println!("MAILROOM_TEST_SEED={seed} repeats it");
    let database = Database::migrated()?;
    let mut clients = Vec::new();
    for _ in 0..WRITERS {
        clients.push(database.connect().await?);
    }
    let mut collectors = Collectors::start(&database, collector_count, settings)?;
    let mut random = Random(seed);
    let mut slowest = Duration::ZERO;
    for round in 0..count {
        let mut writing = JoinSet::new();
        for writer in 0..=usize::try_from(random.below(WRITERS as u64))?.min(WRITERS - 1) {
            let client = clients.pop().context("as many clients as writers")?;
            let (name, random) = (format!("r{round}_w{writer}"), Random(random.next()));
            writing.spawn(async move {
                let written = write(&client, name, random).await;
                (client, written)
            });
        }
        let mut expected = BTreeSet::new();
        while let Some(done) = writing.join_next().await {
            let (client, written) = done?;
            clients.push(client);
            expected.extend(written?);
        }
        let took = collectors.expect(expected, &format!("seed {seed}, round {round}")).await?;
        slowest = slowest.max(took);
    }
    println!("the slowest of {count} rounds took {slowest:?} after its last commit");
    collectors.stop()
}

#[tokio::test]
async fn one_collector_misses_nothing_while_it_becomes_idle() -> Result<()> {
    rounds(1, 80, &["--batch-limit", "1"]).await
}

#[tokio::test]
async fn three_collectors_that_become_idle_together_miss_nothing() -> Result<()> {
    rounds(3, 80, &["--batch-limit", "1"]).await
}

#[tokio::test]
async fn nothing_waits_that_could_fill_no_batch() -> Result<()> {
    rounds(2, 40, &["--batch-limit", "7"]).await
}
