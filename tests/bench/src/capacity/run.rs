//! One run: people register, collectors deliver, visitors use their links; all at the same time.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::mem;
use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use mailroom_tests::collector::{Collector, KEY, command, items};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_verifier_core::{Expected, KeyRing, Moment, SharedKey, UntrustedToken};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_postgres::Client;

use super::processor::{running, used_by};
use crate::report::median;

/// Registers a user, whose number is known.
const REGISTER: &str = "
    WITH made AS (
        INSERT INTO shop.users (id, email, name)
        VALUES (md5($1::bigint::text)::uuid, 'u' || $1 || '@example.test', 'User ' || $1)
        RETURNING id, email, name
    )
    SELECT mailroom.enqueue('activate', email, name, id::text, $2::text::jsonb) FROM made";

const REDEEM: &str = "SELECT verdict::text, subject_id FROM mailroom.redeem($1, 'activate')";

const VERIFIED: &str = "UPDATE shop.users SET verified_at = now() WHERE id = $1::text::uuid";

/// The same of many at once, which takes less time; nothing is measured of it.
const REGISTER_MANY: &str = "
    WITH made AS (
        INSERT INTO shop.users (id, email, name)
        SELECT md5(n::text)::uuid, 'u' || n || '@example.test', 'User ' || n
        FROM generate_series($1::bigint, $1 + $2::bigint - 1) AS n
        RETURNING id, email, name
    )
    SELECT count(mailroom.enqueue('activate', email, name, id::text)) FROM made";

/// Leaves the users and tokens of the beginning: tables that grow from run to run would favour the
/// first one, and sessions that begin with empty tables would keep plans for these.
const CLEAN: &str = "
    SET session_replication_role = replica;
    TRUNCATE mailroom.queue, mailroom.leases, mailroom.dead_letters, mailroom.delivery_log;
    DELETE FROM shop.users USING mailroom.issued_tokens AS tokens
        WHERE tokens.id > ROWS AND users.id = tokens.subject_id::uuid;
    DELETE FROM mailroom.issued_tokens WHERE id > ROWS;
    RESET session_replication_role";

/// How many users are registered before anything is measured; a multiple of the batches.
const WARM_UP: u32 = 400;

/// The measure of the machine's speed: an address that is no user's, and nothing is kept.
const YARDSTICK: &str = "SELECT mailroom.enqueue('invite', 'ada@example.test', 'Ada')";

const YARDSTICKS: u32 = 300;

/// A run in which nothing happens for this long does not go on.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a run is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setting {
    /// How many tokens there are in the tables before.
    pub(super) rows: u32,
    pub(super) tokens: u32,
    /// How many connections register at once, and how many users in a transaction.
    pub(super) writers: u32,
    pub(super) registered_together: u32,
    pub(super) payload: u32,
    /// How many collectors there are; with none the tokens only wait.
    pub(super) collectors: u32,
    pub(super) batch_limit: u32,
    /// Whether the tokens wait already, so that registering them is not measured.
    pub(super) is_backlog: bool,
    /// How many visitors use links at once; with none no link is used.
    pub(super) visitors: u32,
}

/// What a run has used for each token: microseconds of processor, and bytes of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) server: f64,
    pub(super) collectors: f64,
    pub(super) log_bytes: f64,
    /// What the yardstick used before and after it.
    pub(super) yardstick: f64,
    rate: f64,
}

impl fmt::Display for Measured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, collectors, log_bytes, yardstick, rate } = self;
        write!(
            formatter,
            "server {server:.1} µs, collectors {collectors:.1} µs, log {log_bytes:.0} bytes a \
             token; {rate:.0} tokens/s; yardstick {yardstick:.0} µs"
        )
    }
}

type Secrets = Arc<Mutex<mpsc::UnboundedReceiver<[u8; 32]>>>;

/// Who works in a run.
struct Staff {
    collectors: Vec<Collector>,
    writers: Vec<Client>,
    visitors: Vec<Client>,
    /// How many mails have come.
    came: Arc<AtomicU32>,
    secrets: Secrets,
}

impl Staff {
    async fn start(database: &Database, setting: &Setting) -> Result<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let came = Arc::new(AtomicU32::new(0));
        let mut collectors = Vec::new();
        for _ in 0..setting.collectors {
            let mut command = command(database.url())?;
            command.args(["--batch-limit", &setting.batch_limit.to_string()]);
            let mut collector = Collector::start(&mut command)?;
            collector.wait_until_it_collects()?;
            let output = collector.output()?;
            let (sender, came) = (sender.clone(), Arc::clone(&came));
            thread::spawn(move || read(output, &sender, &came));
            collectors.push(collector);
        }
        let (mut writers, mut visitors) = (Vec::new(), Vec::new());
        for _ in 0..setting.writers {
            writers.push(database.connect().await?);
        }
        for _ in 0..setting.visitors {
            visitors.push(database.connect().await?);
        }
        let secrets = Arc::new(Mutex::new(receiver));
        Ok(Self { collectors, writers, visitors, came, secrets })
    }

    /// Lets everybody connect, plan and fill caches. Returns how many users it took.
    async fn warm_up(&mut self, client: &Client, setting: &Setting, first: i64) -> Result<u32> {
        let writers = mem::take(&mut self.writers);
        self.writers = register(writers, setting, first, WARM_UP).await?;
        if setting.collectors > 0 {
            self.wait_for(WARM_UP).await?;
            if setting.visitors > 0 {
                let visitors = mem::take(&mut self.visitors);
                self.visitors = redeem(visitors, Arc::clone(&self.secrets), WARM_UP).await?;
            }
            settled(client).await?;
        }
        Ok(WARM_UP)
    }

    async fn wait_for(&self, tokens: u32) -> Result<()> {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            let now = self.came.load(Ordering::Relaxed);
            if now >= tokens {
                return Ok(());
            }
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() > TIMEOUT {
                let logs: String = self.collectors.iter().map(Collector::log).collect();
                bail!("{now} of {tokens} mails came:\n{logs}");
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The processor time of the server, and of all collectors.
    fn used(&self, server: &Cluster) -> Result<[Duration; 2]> {
        let mut collectors = Duration::ZERO;
        for collector in &self.collectors {
            collectors += used_by(collector.process())?;
        }
        Ok([used_by(server.process_id()?)?, collectors])
    }
}

/// Measures a run. Its users have numbers from `first_user` on.
pub(super) async fn run(
    server: &Cluster,
    database: &Database,
    setting: &Setting,
    first_user: i64,
) -> Result<Measured> {
    let client = database.connect().await?;
    client.batch_execute(&CLEAN.replace("ROWS", &setting.rows.to_string())).await?;
    client.batch_execute("VACUUM ANALYZE").await?;
    let mut staff = Staff::start(database, setting).await?;
    let warm = staff.warm_up(&client, setting, first_user).await?;
    let (tokens, first) = (setting.tokens, first_user + i64::from(warm));
    let yardstick_before = yardstick(&client).await?;
    if setting.is_backlog {
        client.batch_execute("BEGIN").await?;
        client.execute(REGISTER_MANY, &[&first, &i64::from(tokens)]).await?;
    }

    let log_before = log_position(&client).await?;
    let before = staff.used(server)?;
    let began = Instant::now();
    let visitors = mem::take(&mut staff.visitors);
    let redeeming = (setting.visitors > 0)
        .then(|| tokio::spawn(redeem(visitors, Arc::clone(&staff.secrets), tokens)));
    if setting.is_backlog {
        client.batch_execute("COMMIT").await?;
    } else {
        let writers = mem::take(&mut staff.writers);
        // Connections are kept: the end of one is work of the server, too.
        staff.writers = register(writers, setting, first, tokens).await?;
    }
    if setting.collectors > 0 {
        staff.wait_for(warm + tokens).await?;
    }
    if let Some(redeeming) = redeeming {
        staff.visitors = redeeming.await??;
    }
    let rate = f64::from(tokens) / began.elapsed().as_secs_f64();
    if setting.collectors > 0 {
        settled(&client).await?;
    }
    let after = staff.used(server)?;
    let log = log_position(&client).await? - log_before;
    let yardstick = f64::midpoint(yardstick_before, yardstick(&client).await?);
    for collector in staff.collectors {
        collector.stop()?;
    }
    let each = |number: usize| {
        after[number].saturating_sub(before[number]).as_secs_f64() * 1e6 / f64::from(tokens)
    };
    let log_bytes = f64::from(u32::try_from(log)?) / f64::from(tokens);
    Ok(Measured { server: each(0), collectors: each(1), log_bytes, yardstick, rate })
}

/// How long the server uses a processor for something that is always the same, in microseconds.
/// Other work takes caches and clock rate away, also from what is measured.
pub(super) async fn yardstick(client: &Client) -> Result<f64> {
    let process: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    let process = u32::try_from(process)?;
    let statement = client.prepare(YARDSTICK).await?;
    let mut used = Vec::new();
    for _ in 0..YARDSTICKS {
        let before = running(process)?;
        client.batch_execute("BEGIN").await?;
        client.execute(&statement, &[]).await?;
        client.batch_execute("ROLLBACK").await?;
        used.push(running(process)?.saturating_sub(before).as_secs_f64() * 1e6);
    }
    Ok(median(&used))
}

fn payload(length: u32) -> Option<String> {
    (length > 0).then(|| format!("{{\"text\":\"{}\"}}", "x".repeat(length as usize)))
}

async fn log_position(client: &Client) -> Result<i64> {
    let query = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    Ok(client.query_one(query, &[]).await?.get(0))
}

async fn settled(client: &Client) -> Result<()> {
    let query = "SELECT NOT EXISTS (SELECT FROM mailroom.leases)";
    let began = Instant::now();
    while !client.query_one(query, &[]).await?.get::<_, bool>(0) {
        ensure!(began.elapsed() < TIMEOUT, "the last batches are not settled");
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Counts what a collector prints, and hands on the secrets of the links.
fn read(output: ChildStdout, secrets: &mpsc::UnboundedSender<[u8; 32]>, came: &AtomicU32) {
    let keys = KeyRing::of(SharedKey::from_hex(KEY).expect("the key of tests is one"));
    for line in BufReader::with_capacity(1 << 20, output).lines() {
        let Ok(line) = line else { break };
        let items = items(&(line + "\n")).expect("the collector prints fives of fields");
        for item in &items {
            let token = UntrustedToken::parse(&item.token).expect("a token is printed");
            let token = token
                .verify(&keys, Expected::activation(), Moment::at(0))
                .expect("the collector signs");
            secrets.send(*token.secret().as_bytes()).ok();
        }
        came.fetch_add(u32::try_from(items.len()).expect("at most 10,000"), Ordering::Relaxed);
    }
}

/// Registers so many users by all connections at once, which are given back.
async fn register(
    connections: Vec<Client>,
    setting: &Setting,
    first: i64,
    users: u32,
) -> Result<Vec<Client>> {
    let together = i64::from(setting.registered_together);
    let count = i64::try_from(connections.len())?;
    let end = first + i64::from(users);
    let mut running = JoinSet::new();
    for (number, client) in (0..).zip(connections) {
        let payload = payload(setting.payload);
        running.spawn(async move {
            let statement = client.prepare(REGISTER).await?;
            let mut next = first + number * together;
            while next < end {
                if together > 1 {
                    client.batch_execute("BEGIN").await?;
                }
                for user in next..end.min(next + together) {
                    client.execute(&statement, &[&user, &payload]).await?;
                }
                if together > 1 {
                    client.batch_execute("COMMIT").await?;
                }
                next += count * together;
            }
            anyhow::Ok(client)
        });
    }
    let mut connections = Vec::new();
    while let Some(client) = running.join_next().await {
        connections.push(client??);
    }
    Ok(connections)
}

/// Uses so many links by all connections at once, as an application does.
async fn redeem(connections: Vec<Client>, secrets: Secrets, links: u32) -> Result<Vec<Client>> {
    let left = Arc::new(AtomicU32::new(links));
    let mut running = JoinSet::new();
    for client in connections {
        let (secrets, left) = (Arc::clone(&secrets), Arc::clone(&left));
        running.spawn(async move {
            let use_link = client.prepare(REDEEM).await?;
            let verified = client.prepare(VERIFIED).await?;
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
            {
                let secret = secrets.lock().await.recv().await.context("no link is left")?;
                client.batch_execute("BEGIN").await?;
                let row = client.query_one(&use_link, &[&&secret[..]]).await?;
                ensure!(row.get::<_, &str>(0) == "ok", "a link is {}", row.get::<_, &str>(0));
                client.execute(&verified, &[&row.get::<_, &str>(1)]).await?;
                client.batch_execute("COMMIT").await?;
            }
            anyhow::Ok(client)
        });
    }
    let mut connections = Vec::new();
    while let Some(client) = running.join_next().await {
        connections.push(client??);
    }
    Ok(connections)
}
