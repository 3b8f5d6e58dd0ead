//! What is done now and then, in parts, and never at the cost of a lease.

use anyhow::Result;
use mailroom::queue::Queue;
use mailroom_tests::plan::blocks;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

use super::{LEASE, all, queue, token};

/// Parks tokens with ids from a million on, quickly: without the triggers. Every hundredth one has expired.
async fn park(client: &Client, count: i32) -> Result<()> {
    let last = 1_000_000 + count;
    for statement in [
        "SET session_replication_role = replica".to_owned(),
        format!(
            "INSERT INTO accounts (id, email, login, status)
            SELECT n, n || '@b.test', n, 'suspended' FROM generate_series(1000001, {last}) AS n"
        ),
        format!(
            "INSERT INTO tokens (id, action, account)
            SELECT n, 'activation', n FROM generate_series(1000001, {last}) AS n"
        ),
        format!(
            "INSERT INTO mailroom.deferred (token, account, parked_at, expires_at, attempts, failures, priority)
            SELECT n, n, now(), CASE WHEN n % 100 = 0 THEN 1 ELSE extract(epoch FROM now()) + 900 END, 0, 0, 1
            FROM generate_series(1000001, {last}) AS n"
        ),
        "SET session_replication_role = origin".to_owned(),
    ] {
        client.batch_execute(&statement).await?;
    }
    Ok(())
}

#[tokio::test]
async fn renewing_leases_costs_the_same_however_many_tokens_are_parked() -> Result<()> {
    const PARKED: i32 = 200_000;
    let database = Database::migrated()?;
    let client = database.connect().await?;
    token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    assert_eq!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.len(), 1);
    let heartbeat = "SELECT * FROM mailroom.heartbeat(1, 'test', '{}', 90000, NULL)";
    // What is read once a session is read before.
    blocks(&client, heartbeat).await?;
    let before = blocks(&client, heartbeat).await?;
    park(&client, PARKED).await?;
    // And what it forgets meanwhile, as others change the catalogue, is read again.
    blocks(&client, heartbeat).await?;
    let after = blocks(&client, heartbeat).await?;
    println!("{before} blocks with nothing parked, {after} with {PARKED} tokens");
    assert!(after < before + 200, "{after} blocks instead of {before}");

    // A part of a sweep is no more than it is asked for, and together the parts see every row once.
    let most = 5_000;
    let mut place = "NULL".to_owned();
    let mut parts = 0;
    loop {
        let sweep = format!("SELECT parked_through FROM mailroom.sweep(1, {place}, NULL, {most})");
        let row = client.query_one(&sweep, &[]).await?;
        let Some(through) = row.get::<_, Option<i64>>(0) else { break };
        let last = place.parse().unwrap_or(1_000_000);
        assert!((last + 1..=last + most).contains(&through), "from {last} to {through}");
        place = through.to_string();
        parts += 1;
    }
    assert!(parts >= PARKED / 5_000 - 1, "{parts} parts");
    let blocks = blocks(&client, &format!("SELECT * FROM mailroom.sweep(1, NULL, NULL, {most})")).await?;
    assert!(blocks < 30 * most, "{blocks} blocks for {most} rows");
    let count = "SELECT (SELECT count(*) FROM mailroom.deferred), (SELECT count(*) FROM mailroom.delivery_attempts WHERE outcome = 'expired')";
    let row = client.query_one(count, &[]).await?;
    let expired = i64::from(PARKED / 100);
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (i64::from(PARKED) - expired, expired));
    Ok(())
}

#[tokio::test]
async fn a_failed_sweep_costs_neither_the_session_nor_a_lease() -> Result<()> {
    let database = Database::migrated()?;
    let (client, other) = (database.connect().await?, database.connect().await?);
    token(&client, "activation").await?;
    other.batch_execute("BEGIN; LOCK TABLE mailroom.deferred IN ACCESS EXCLUSIVE MODE").await?;
    let mut queue = queue(&database).await?;
    let sessions = "SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'mailroom collect' AND datname = current_database()
            AND backend_start < clock_timestamp() - interval '0.2 s'";
    let open: i64 = client.query_one(sessions, &[]).await?.get(0);
    assert_eq!(open, 1, "the sweep was not tried, or the session was lost by it");
    other.batch_execute("ROLLBACK").await?;
    // It collects as if nothing had been.
    let claim = queue.settle_and_claim(Vec::new(), all(10)).await?;
    assert_eq!(claim.batches.len(), 1);
    assert_eq!(queue.heartbeat().await?, []);
    let ends: bool = client
        .query_one(
            "SELECT ends_at > clock_timestamp() + interval '1 ms' * $1::bigint FROM mailroom.leases",
            &[&i64::try_from(LEASE.as_millis() - 10_000)?],
        )
        .await?
        .get(0);
    assert!(ends, "the lease is not whole");
    Ok(())
}
