//! A queue as textbooks have it: each worker claims one job in a statement,
//! and completes it in another.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use mailroom_tests::postgres::Database;
use tokio::task::JoinSet;
use tokio_postgres::Client;

/// As many as the other queues have.
const WORKERS: usize = 24;

const SCHEMA: &str = "
    DROP TABLE IF EXISTS jobs;
    CREATE TABLE jobs (id bigint PRIMARY KEY, status text NOT NULL DEFAULT 'waiting', payload
        jsonb NOT NULL);
    CREATE INDEX jobs_waiting_idx ON jobs (id) WHERE status = 'waiting'";

const CLAIM: &str = "
    UPDATE jobs SET status = 'running'
    WHERE id = (SELECT id FROM jobs WHERE status = 'waiting'
        ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, payload::text";

const COMPLETE: &str = "UPDATE jobs SET status = 'done' WHERE id = $1";

/// Drains `jobs` jobs, and returns how long that took after all had connected
/// and prepared their statements.
pub(crate) async fn drain(database: &Database, jobs: u32) -> Result<Duration> {
    let client = database.connect().await?;
    client.batch_execute(SCHEMA).await?;
    let insert = "INSERT INTO jobs (id, payload) SELECT n, jsonb_build_object('number', n) \
                  FROM generate_series(1, $1::bigint) AS n";
    client.execute(insert, &[&i64::from(jobs)]).await?;
    client.batch_execute("VACUUM ANALYZE jobs").await?;
    client.batch_execute("CHECKPOINT").await?;
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let client = database.connect().await?;
        workers.push((client.prepare(CLAIM).await?, client.prepare(COMPLETE).await?, client));
    }
    let started = Instant::now();
    let mut running = JoinSet::new();
    for (claim, complete, client) in workers {
        running.spawn(async move { work(&client, &claim, &complete).await });
    }
    let mut done = 0;
    while let Some(worker) = running.join_next().await {
        done += worker??;
    }
    let elapsed = started.elapsed();
    ensure!(done == jobs, "{done} of {jobs} jobs were done");
    Ok(elapsed)
}

async fn work(
    client: &Client,
    claim: &tokio_postgres::Statement,
    complete: &tokio_postgres::Statement,
) -> Result<u32> {
    let mut done = 0;
    while let Some(job) = client.query_opt(claim, &[]).await? {
        client.execute(complete, &[&job.get::<_, i64>(0)]).await?;
        done += 1;
    }
    Ok(done)
}
