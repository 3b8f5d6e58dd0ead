//! How long each migration takes, and how long it keeps others from a large table.
//!
//! Others are four connections, which read and write accounts and tokens every few milliseconds:
//! each takes the lock of a reader or a writer and releases it. Each figure is the longest wait.

use std::fmt::Display;
use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::tools;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_postgres::Client;

use crate::report::{Report, Table, rounded};

#[derive(clap::Args)]
pub(crate) struct Migrations {
    /// How many accounts, and tokens, there are
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    rows: u32,
}

/// The table that is locked, and how its readers and writers lock it.
const OTHERS: [(&str, &str); 4] = [
    ("accounts", "ACCESS SHARE"),
    ("accounts", "ROW EXCLUSIVE"),
    ("tokens", "ACCESS SHARE"),
    ("tokens", "ROW EXCLUSIVE"),
];

pub(crate) async fn measure(server: &Cluster, &Migrations { rows }: &Migrations) -> Result<Report> {
    let database = Database::create_on(&server.url("postgres"))?.load_base_schema()?;
    let client = database.connect().await?;
    eprintln!("writing {rows} accounts and {rows} tokens ...");
    fill(&client, rows).await?;

    let version = server.installation().major;
    let title = format!(
        "PostgreSQL {version}, {rows} accounts, {rows} tokens; waits in ms, read and write"
    );
    let headings: [&dyn Display; 7] =
        [&"s", &"s of CPU", &"accounts", &"accounts", &"tokens", &"tokens", &"MB of log"];
    let mut table = Table::new(&title, &headings);
    let mut json = json!({});
    let steps = scripts(".up.sql")?.into_iter().chain(scripts(".down.sql")?.into_iter().rev());
    for (name, script) in steps {
        eprintln!("{name} ...");
        let step = run(&database, &client, server.process_id()?, &script).await?;
        let [took, cpu] =
            [step.took.as_secs_f64(), step.processor_seconds].map(|time| rounded(time, 2));
        let waits = step.waits.iter().map(Duration::as_millis).collect::<Vec<_>>();
        let megabytes = step.log_bytes / 1_000_000;
        let mut figures: Vec<&dyn Display> = vec![&took, &cpu];
        figures.extend(waits.iter().map(|wait| wait as &dyn Display));
        figures.push(&megabytes);
        table.row(&name, &figures);
        json[name] = json!({ "s": took, "cpu_s": cpu, "waits_ms": waits, "log_mb": megabytes });
    }
    Ok(Report { table, json })
}

/// One row a person, as a registration writes it, without the triggers that would take most of the
/// time. As after some years: half of the tokens were used, one in a hundred can still be, and the
/// cursor has still to pass a tenth.
async fn fill(client: &Client, rows: u32) -> Result<()> {
    client
        .batch_execute(&format!(
            "SET session_replication_role = replica;
            INSERT INTO accounts (email, login)
                SELECT 'somebody.' || n || '@example.test', 'somebody.' || n
                    FROM generate_series(1, {rows}) AS n;
            INSERT INTO tokens (account, action, expires_at, consumed_at)
                SELECT
                    id, 'activation',
                    extract(epoch FROM now() + CASE WHEN id % 100 = 0 THEN interval '1 day' ELSE
                    interval '-1 hour' END),
                    CASE WHEN id % 2 = 1 THEN extract(epoch FROM now() - interval '2 hours') END
                FROM accounts;
            UPDATE jobs SET last_seq = {rows} / 10 * 9;
            RESET session_replication_role"
        ))
        .await?;
    for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
        client.batch_execute(statement).await?;
    }
    let query = "SELECT pg_total_relation_size('accounts'), pg_total_relation_size('tokens')";
    let row = client.query_one(query, &[]).await?;
    let megabytes = |column| row.get::<_, i64>(column) / 1_000_000;
    eprintln!("accounts have {} MB, tokens {} MB, indexes included", megabytes(0), megabytes(1));
    Ok(())
}

/// The files with an ending, oldest first, without migration 0, which makes new tables only, and
/// the last one, which refuses while tokens are unexpired and has no way back.
fn scripts(ending: &str) -> Result<Vec<(String, String)>> {
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(tools::workspace().join("migrations"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let (true, Some((number, what))) = (name.ends_with(ending), name.split_once('_'))
            && !what.starts_with("drop_secrets.")
        {
            found.push((number.parse()?, path.clone()));
        }
    }
    found.sort();
    found
        .into_iter()
        .skip(1)
        .map(|(_, path)| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            Ok((name.trim_end_matches(".sql").to_owned(), fs::read_to_string(&path)?))
        })
        .collect()
}

struct Step {
    took: Duration,
    /// Hardly depends on what else the machine does.
    processor_seconds: f64,
    waits: Vec<Duration>,
    log_bytes: i64,
}

/// Executes a script, as psql does, while others read and write.
async fn run(database: &Database, client: &Client, server: u32, script: &str) -> Result<Step> {
    let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    let backend = u32::try_from(backend)?;
    let ended = Arc::new(AtomicBool::new(false));
    let mut others: Vec<JoinHandle<Result<Duration>>> = Vec::new();
    for (table, mode) in OTHERS {
        let connection = database.connect().await?;
        others.push(tokio::spawn(longest_wait(connection, table, mode, ended.clone())));
    }
    sleep(Duration::from_millis(100)).await;
    let log_before = log_position(client).await?;
    let processor_before = processor_seconds(server, backend)?;
    let began = Instant::now();
    client.batch_execute(script).await?;
    let took = began.elapsed();
    let processor_seconds = processor_seconds(server, backend)? - processor_before;
    let log_bytes = log_position(client).await? - log_before;
    ended.store(true, Ordering::Relaxed);
    let mut waits = Vec::new();
    for other in others {
        waits.push(other.await??);
    }
    Ok(Step { took, processor_seconds, waits, log_bytes })
}

/// What a connection's process has used so far, and those that the server has seen end, such as the
/// ones that help to build an index.
fn processor_seconds(server: u32, backend: u32) -> Result<f64> {
    // The columns of proc_pid_stat(5), counted after the name in parentheses:
    // own time, then that of children.
    let ticks = |process: u32, columns: RangeInclusive<usize>| -> Result<u64> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        let (_, columns_after_name) = stat.rsplit_once(')').context("the process has a name")?;
        let all: Vec<&str> = columns_after_name.split_whitespace().collect();
        let wanted = all.get(columns).context("there are more columns")?;
        Ok(wanted.iter().map(|ticks| ticks.parse::<u64>()).sum::<Result<u64, _>>()?)
    };
    let used = ticks(backend, 11..=12)? + ticks(server, 13..=14)?;
    #[expect(clippy::cast_precision_loss, reason = "it would take 2^53 ticks")]
    Ok(used as f64 / rustix::param::clock_ticks_per_second() as f64)
}

async fn longest_wait(
    client: Client,
    table: &str,
    mode: &str,
    ended: Arc<AtomicBool>,
) -> Result<Duration> {
    let lock = format!("BEGIN; LOCK TABLE {table} IN {mode} MODE; COMMIT");
    let mut longest = Duration::ZERO;
    while !ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        client.batch_execute(&lock).await?;
        longest = longest.max(began.elapsed());
        sleep(Duration::from_millis(2)).await;
    }
    Ok(longest)
}

async fn log_position(client: &Client) -> Result<i64> {
    let query = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    Ok(client.query_one(query, &[]).await?.get(0))
}
