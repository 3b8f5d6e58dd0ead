//! Registrations while a collector collects: their rate by how it learns of them,
//! and how soon each is printed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use mailroom_tests::collector::{command, items};
use mailroom_tests::postgres::{Cluster, Database};
use serde_json::{Map, json};
use tokio::time::sleep;
use tokio_postgres::Client;

use crate::report::{Report, Table, median, percentile, rounded};
use crate::run::Run;
use crate::writers::{Rounds, at_once};

/// How many connections register at once.
const WRITERS: [u32; 2] = [1, 16];

const REGISTER: &str = "INSERT INTO accounts (email, login) \
                        VALUES ('user' || $1::bigint || '@example.test', 'user' || $1)";

/// The first registrations connect, plan and fill caches.
const WARM_UP: u32 = 20;

/// The longest pause between two registrations, so that they meet the collector in any state.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub(crate) struct Latency {
    /// How many registrations
    #[arg(long, value_name = "N", default_value_t = 500)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
}

#[derive(clap::Args)]
pub(crate) struct Wake {
    #[command(flatten)]
    rounds: Rounds,
}

/// How the collector learns of registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contestant {
    /// It polls once a second.
    PollOnly,
    /// As installed: a registration notifies only while the collector holds the idle lock.
    Notified,
    /// Every registration notifies, as on the base schema.
    NotifyEach,
}

const CONTESTANTS: [(Contestant, &str, &str); 3] = [
    (Contestant::PollOnly, "poll_only_tps", "polls once a second"),
    (Contestant::Notified, "hinted_tps", "notified while idle"),
    (Contestant::NotifyEach, "notify_each_tps", "every registration notifies"),
];

/// The time from the commit of a registration to its line.
pub(crate) async fn latency(server: &Cluster, &Latency { tokens }: &Latency) -> Result<Report> {
    let database = Database::create_on(&server.url("postgres"))?.migrate()?;
    let client = database.connect().await?;
    let mut run = Run::start(command(database.url())?.args(["--batch-limit", "1"]))?;
    run.collector.wait_until_it_collects()?;
    let mut milliseconds = Vec::new();
    for number in 0..WARM_UP + tokens {
        // Spread evenly, in an order without a period that anything else could have.
        sleep(PAUSE.mul_f64(f64::from(number * 1_597 % 4_181) / 4_181.0)).await;
        client.execute(REGISTER, &[&i64::from(number)]).await?;
        let committed = Instant::now();
        let came = run.wait_for(number + 1)?;
        if number >= WARM_UP {
            // A line can come before the answer to the commit does.
            milliseconds.push(came.saturating_duration_since(committed).as_secs_f64() * 1_000.0);
        }
    }
    run.stop()?;
    let version = server.installation().major;
    let [p50, p99] = [50, 99].map(|percent| rounded(percentile(&milliseconds, percent), 2));
    let title =
        format!("from commit to line, {tokens} tokens, batch limit 1, PostgreSQL {version}");
    let mut table = Table::new(&title, &[&"ms"]);
    table.row("median", &[&p50]);
    table.row("99 % within", &[&p99]);
    let json = json!({ "postgres": version, "tokens": tokens, "p50_ms": p50, "p99_ms": p99 });
    Ok(Report { table, json })
}

/// Registrations per second where no secrets stay in `tokens`. Each round is checked: every
/// registration was printed once.
pub(crate) async fn wake(server: &Cluster, Wake { rounds }: &Wake) -> Result<Report> {
    let database =
        Database::create_on(&server.url("postgres"))?.migrate_with(&["--drop-secrets"])?;
    let (rounds, duration) = (rounds.rounds, rounds.duration());
    // The first round warms the server up.
    round(&database, Contestant::Notified, 16, Duration::from_secs(1)).await?;
    let mut rates: [[Vec<u32>; 3]; 2] = Default::default();
    for number in 1..=rounds {
        for (writers, rates) in WRITERS.into_iter().zip(&mut rates) {
            for ((contestant, _, name), rates) in CONTESTANTS.into_iter().zip(rates) {
                let rate = round(&database, contestant, writers, duration).await?;
                rates.push(rate);
                eprintln!(
                    "round {number} of {rounds}, {writers} writers, {name}: {rate} registrations/s"
                );
            }
        }
    }
    let version = server.installation().major;
    let title = format!(
        "registrations/s while a collector collects, PostgreSQL {version}, \
         median of {rounds} rounds, by writers"
    );
    let mut table = Table::new(&title, &[&WRITERS[0], &WRITERS[1]]);
    for (index, (_, _, name)) in CONTESTANTS.into_iter().enumerate() {
        let [one, many] = rates.each_ref().map(|rates| median(&rates[index]));
        table.row(name, &[&one, &many]);
    }
    let shares = rates.each_ref().map(|[poll_only, notified, _]| share(notified, poll_only));
    table.row("share of the registrations while it polls", &[&shares[0], &shares[1]]);
    let mut writers = Map::new();
    for ((number, rates), share) in WRITERS.into_iter().zip(&rates).zip(shares) {
        let mut figures = json!({ "share": share });
        for ((_, key, _), rates) in CONTESTANTS.into_iter().zip(rates) {
            figures[key] = median(rates).into();
        }
        writers.insert(number.to_string(), figures);
    }
    Ok(Report { table, json: json!({ "postgres": version, "rounds": rounds, "writers": writers }) })
}

/// The median of the rounds' shares, so that other load in a round is in both of its figures.
fn share(notified: &[u32], poll_only: &[u32]) -> f64 {
    let shares: Vec<f64> = notified
        .iter()
        .zip(poll_only)
        .map(|(one, other)| f64::from(*one) / f64::from(*other))
        .collect();
    rounded(median(&shares), 3)
}

async fn round(
    database: &Database,
    contestant: Contestant,
    writers: u32,
    duration: Duration,
) -> Result<u32> {
    let client = database.connect().await?;
    let tables = "TRUNCATE accounts, tokens, mailroom.queue, mailroom.leases, \
                  mailroom.dead_letters, mailroom.delivery_log CASCADE";
    client.batch_execute(tables).await?;
    client.batch_execute("CHECKPOINT").await?;
    if contestant == Contestant::NotifyEach {
        // Somebody holds the idle lock all the time.
        let lock = "SELECT pg_advisory_lock(1835100524, 'mailroom.queue'::regclass::oid::integer)";
        client.batch_execute(lock).await?;
    }
    let mut command = command(database.url())?;
    if contestant == Contestant::PollOnly {
        command.args(["--wake", "poll", "--poll-interval", "1s"]);
    }
    let mut run = Run::start(&mut command)?;
    run.collector.wait_until_it_collects()?;
    let (registered, rate) = register(database, writers, duration).await?;
    run.wait_for(registered)?;
    let output = run.stop()?;
    let mut printed = 0;
    for line in str::from_utf8(&output)?.split_inclusive('\n') {
        printed += u32::try_from(items(line)?.len())?;
    }
    ensure!(printed == registered, "{printed} tokens came where {registered} were registered");
    Ok(rate)
}

/// Registers one account after the other on each of several connections. Returns how many, and how
/// many per second.
async fn register(database: &Database, connections: u32, duration: Duration) -> Result<(u32, u32)> {
    at_once(database, connections, |client, number| {
        write(client, number, connections, Instant::now() + duration)
    })
    .await
}

async fn write(client: Client, number: u32, step: u32, end: Instant) -> Result<u32> {
    let statement = client.prepare(REGISTER).await?;
    let mut written = 0;
    for id in (i64::from(number)..).step_by(step as usize) {
        client.execute(&statement, &[&id]).await?;
        written += 1;
        if Instant::now() >= end {
            break;
        }
    }
    Ok(written)
}
