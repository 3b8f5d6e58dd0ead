//! What every test under fault begins with: a queue, connections to it,
//! and what is to be remembered.

use std::env;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;
use tokio_postgres::Client;

use crate::collector;
use crate::fleet::Member;
use crate::history::{History, Tally};
use crate::machine::is_full;
use crate::mailer::Mailer;
use crate::postgres::Database;
use crate::recorder::{Pace, Recorder};
use crate::workload::register;

/// Settings with which a collector sends what there is at once, and sends nothing that expires
/// while a test runs.
const SETTINGS: [&str; 8] = [
    "--queue-kind",
    "deliveries",
    "--batch-timeout",
    "20ms",
    "--poll-interval",
    "500ms",
    "--min-lifetime",
    "1s",
];

/// With lines that carry ids and attempts.
pub const NDJSON: [&str; 2] = ["--line-format", "ndjson"];

/// How long a collector has what it claims.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// How long a claim is for the collector alone, unless it is renewed, which is tried when a
    /// third of it is over.
    pub lease: &'static str,
    /// How long a sender may take to answer; at most half a lease.
    pub sender_timeout: &'static str,
}

/// Later than the end of a test: nothing is taken over from a collector that lives, even if the
/// machine stands still for a while.
pub const FAR: Deadlines = Deadlines { lease: "5m", sender_timeout: "60s" };

/// Over within a test, so that what a dead collector holds is taken over, and a sender that hangs
/// is started again; not before a machine that stands still for a while lets the living go on.
pub const NEAR: Deadlines = Deadlines { lease: "30s", sender_timeout: "14s" };

/// Longer than a lease of [`NEAR`] and the timeout of its sender together.
pub const PAST_NEAR: Duration = Duration::from_secs(45);

/// How long a queue may stay as it is once nothing fails any more: some leases, and some processes
/// beside this one.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// How many tokens a test has whose single fault waits for work: 20,000 if everything is asked for,
/// a tenth otherwise.
pub fn tokens() -> usize {
    if is_full() { 20_000 } else { 2_000 }
}

/// How many faults a test has: all of them if everything is asked for, a tenth otherwise, but two
/// at least. Each has as many tokens either way.
pub fn faults(all: usize) -> usize {
    if is_full() { all } else { all.div_ceil(10).max(2) }
}

/// A queue that is collected from while things fail.
#[derive(Debug)]
pub struct Trial {
    /// Where the queue is.
    pub database: Arc<Database>,
    /// A connection that no fault is meant for.
    pub client: Client,
    /// All lines.
    pub recorder: Recorder,
    /// All faults.
    pub history: History,
    /// Decides what happens when; of a seed that is printed.
    pub random: fastrand::Rng,
    /// Those of the collectors that are started from now on.
    pub deadlines: Deadlines,
    registered: usize,
}

impl Trial {
    /// An empty queue, with [`FAR`] deadlines. `MAILROOM_TEST_SEED` repeats what a seed
    /// has decided before.
    pub async fn start(database: Database) -> Result<Self> {
        let seed = match env::var("MAILROOM_TEST_SEED") {
            Ok(seed) => seed.parse().context("MAILROOM_TEST_SEED is no number")?,
            Err(_) => u64::from(SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos()),
        };
        println!("MAILROOM_TEST_SEED={seed} repeats this");
        Self::with_seed(database, seed).await
    }

    /// An empty queue, with [`FAR`] deadlines and everything decided by `seed`.
    pub async fn with_seed(database: Database, seed: u64) -> Result<Self> {
        let client = database.connect().await?;
        let recorder = Recorder::new()?;
        let history = History::new(&recorder);
        Ok(Self {
            database: Arc::new(database),
            client,
            recorder,
            history,
            random: fastrand::Rng::with_seed(seed),
            deadlines: FAR,
            registered: 0,
        })
    }

    /// Registers accounts with a token each, in one transaction.
    pub async fn register(&mut self, count: usize) -> Result<()> {
        self.registered += 1;
        register(&self.client, &format!("user{}-", self.registered), count).await
    }

    /// A collector that sends what there is at once, without a form of its lines.
    pub fn command(&self, url: &str) -> Result<Command> {
        let mut command = collector::command(url)?;
        let Deadlines { lease, sender_timeout } = self.deadlines;
        command.args(SETTINGS).args(["--lease", lease, "--sender-timeout", sender_timeout]);
        Ok(command)
    }

    /// Starts a collector that connects to `url` and writes [`NDJSON`].
    pub fn collector_at(&self, name: &str, url: &str, pace: Pace) -> Result<Member> {
        Member::run(name, self.command(url)?.args(NDJSON), &self.recorder, pace)
    }

    /// Starts a collector that writes [`NDJSON`].
    pub fn collector(&self, name: &str, pace: Pace) -> Result<Member> {
        self.collector_at(name, self.database.url(), pace)
    }

    /// Starts a collector that hands over to a sender.
    pub fn sending_collector(&self, name: &str, url: &str, mailer: &Mailer) -> Result<Member> {
        let mut command = self.command(url)?;
        command.args(["--sender", &mailer.command(name)]);
        Member::run(name, &mut command, &self.recorder, Pace::default())
    }

    /// Some time, at most `longest`.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(
            self.random.u64(0..=u64::try_from(longest.as_micros()).unwrap_or(u64::MAX)),
        )
    }

    /// Waits for the moment of a fault, up to `longest`. In rounds of even numbers it is one at
    /// which work is in flight, so that faults meet work on a slow machine, too.
    pub async fn moment(&mut self, round: usize, longest: Duration) -> Result<()> {
        if !round.is_multiple_of(2) {
            sleep(self.up_to(longest)).await;
            return Ok(());
        }
        for _ in 0..2_000 {
            sleep(self.up_to(Duration::from_millis(10))).await;
            if self.history.is_busy(&self.client).await? {
                break;
            }
        }
        Ok(())
    }

    /// Connects anew, after the server has been away.
    pub async fn connect_again(&mut self) -> Result<()> {
        self.client = self.database.connect().await?;
        Ok(())
    }

    /// Waits until everything was sent, ends the collectors in order, and checks all there is to
    /// check; also that a fourth of the faults met work in flight, without which they show nothing.
    pub async fn end(&mut self, collectors: Vec<Member>) -> Result<Tally> {
        self.history.drained(&self.client, PATIENCE).await?;
        for collector in collectors {
            collector.stop(PATIENCE)?;
        }
        self.history.nothing_is_claimed(&self.client).await?;
        let tally = self.history.check(&self.client).await?;
        println!("{tally}");
        ensure!(4 * tally.busy >= tally.looked, "too few faults met work: {tally}");
        Ok(tally)
    }
}
