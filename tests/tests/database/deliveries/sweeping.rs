//! What is done now and then, in parts, and never at the cost of a lease.

use anyhow::Result;
use mailroom::queue::Queue;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::plan::blocks;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

use super::{LEASE, all, queue, token};

/// Defers tokens with ids from a million on, quickly: without the triggers.
async fn defer(client: &Client, count: i32) -> Result<()> {
    let insert = format!(
        "SET session_replication_role = replica;
        INSERT INTO mailroom.queue (token, due_at, put_off_at, deferrals, priority, secret)
            SELECT n, now() + interval '1 hour', now(), 9, 1, 'x'
                FROM generate_series(1000001, {}) AS n;
        SET session_replication_role = origin",
        1_000_000 + count
    );
    Ok(client.batch_execute(&insert).await?)
}

#[tokio::test]
async fn renewing_leases_costs_the_same_however_many_tokens_are_deferred() -> Result<()> {
    const DEFERRED: i32 = 200_000;
    let database = Database::migrated()?;
    let client = database.connect().await?;
    token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    assert_eq!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.len(), 1);
    let heartbeat = "SELECT * FROM mailroom.heartbeat(1, 'test', '{}', 90000, NULL)";
    // What is read once a session is read before.
    blocks(&client, heartbeat).await?;
    let before = blocks(&client, heartbeat).await?;
    defer(&client, DEFERRED).await?;
    // And what it forgets meanwhile, as others change the catalogue, is read again.
    blocks(&client, heartbeat).await?;
    let after = blocks(&client, heartbeat).await?;
    println!("{before} blocks with nothing deferred, {after} with {DEFERRED} tokens");
    assert!(after < before + 200, "{after} blocks instead of {before}");
    Ok(())
}

#[tokio::test]
async fn parts_of_a_sweep_are_no_more_than_was_asked_for_and_see_every_row_together() -> Result<()>
{
    const MISPLACED: i64 = 20_000;
    const MOST: i64 = 5_000;
    let database = Database::migrated()?;
    let client = database.connect().await?;
    // As after a clock that was set back: the older half of them was put off, for an hour.
    client
        .batch_execute(&format!(
            "INSERT INTO mailroom.queue (token, due_at, put_off_at, priority, secret)
            SELECT n, moment + CASE WHEN n % 2 = 0 THEN interval '1 hour' ELSE interval '0' END,
                CASE WHEN n % 2 = 0 THEN moment END, n % 3 % 2, 'x'
            FROM (SELECT n, now() + interval '1 day' + n * interval '1 ms' AS moment
                FROM generate_series(1, {MISPLACED}) AS n) AS rows"
        ))
        .await?;
    let misplaced = "SELECT count(*) FROM mailroom.queue \
                     WHERE coalesce(put_off_at, due_at) > clock_timestamp() + interval '1 s'";
    let mut left: i64 = client.query_one(misplaced, &[]).await?.get(0);
    assert_eq!(left, MISPLACED);
    let mut place = "NULL".to_owned();
    for part in 1.. {
        let sweep = format!("SELECT later_through::text FROM mailroom.sweep({place}, {MOST})");
        let through: Option<String> = client.query_one(&sweep, &[]).await?.get(0);
        let now_left: i64 = client.query_one(misplaced, &[]).await?.get(0);
        // So many of each priority.
        assert!(left - now_left <= 2 * (MOST + 1), "{} in one part", left - now_left);
        left = now_left;
        assert!(part <= MISPLACED / MOST + 1, "{part} parts");
        let Some(through) = through else { break };
        place = format!("'{through}'");
    }
    assert_eq!(left, 0);
    let (due, later) = (
        "due_at <= clock_timestamp()",
        "due_at BETWEEN clock_timestamp() + interval '50 minutes' AND clock_timestamp() + \
         interval '1 hour'",
    );
    for placed in [due, later] {
        let count = format!("SELECT count(*) FROM mailroom.queue WHERE {placed}");
        assert_eq!(
            client.query_one(&count, &[]).await?.get::<_, i64>(0),
            MISPLACED / 2,
            "{placed}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_failed_sweep_costs_neither_the_session_nor_a_lease() -> Result<()> {
    let database = Database::migrated()?;
    let (client, other) = (database.connect().await?, database.connect().await?);
    token(&client, "activation").await?;
    other.batch_execute("BEGIN; LOCK TABLE mailroom.dead_letters IN ACCESS EXCLUSIVE MODE").await?;
    let mut queue = queue(&database).await?;
    let sessions = "SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'mailroom collect' AND datname = current_database()
            AND backend_start < clock_timestamp() - interval '0.2 s'";
    let open: i64 = client.query_one(sessions, &[]).await?.get(0);
    // One that claims and sweeps, and one that settles.
    assert_eq!(open, 2, "the sweep was not tried, or the session was lost by it");
    other.batch_execute("ROLLBACK").await?;
    // It collects as if nothing had been.
    let claim = queue.settle_and_claim(Vec::new(), all(10)).await?;
    assert_eq!(claim.batches.len(), 1);
    assert_eq!(queue.heartbeat().await?, []);
    let ends: bool = client
        .query_one(
            "SELECT ends_at > clock_timestamp() + interval '1 ms' * $1::bigint \
             FROM mailroom.leases",
            &[&i64::try_from(LEASE.as_millis() - 60_000)?],
        )
        .await?
        .get(0);
    assert!(ends, "the lease is not whole");
    Ok(())
}

#[tokio::test]
async fn a_sweep_passes_over_what_an_application_has_and_erases_the_rest() -> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    client.mail("invite").payload("{}").enqueue_times(2).await?;
    client
        .batch_execute(
            "WITH gone AS (DELETE FROM mailroom.queue RETURNING *)
            INSERT INTO mailroom.handed_over
                (token, handed_over_at, expires_at, attempts, failures, priority, secret)
                SELECT token, now(), 1, 1, 0, priority, secret FROM gone",
        )
        .await?;
    let held = "BEGIN; SELECT FROM mailroom.payloads
        WHERE token = (SELECT min(token) FROM mailroom.payloads) FOR UPDATE";
    application.batch_execute(held).await?;
    client.batch_execute("SELECT mailroom.sweep(NULL, 100)").await?;
    let left = "SELECT (SELECT count(*) FROM mailroom.handed_over WHERE secret IS NULL),
        (SELECT count(*) FROM mailroom.payloads)";
    let row = client.query_one(left, &[]).await?;
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2, 1));
    Ok(())
}
