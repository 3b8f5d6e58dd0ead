//! Processes that collect from one queue, and connections that are lost.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use mailroom::queue::{ClaimRequest, DeliveriesQueue, Queue, Settlement};
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::rows::wait_for;
use mailroom_tests::workload::register;
use tokio_postgres::Client;

use super::{all, at, ids, log, queue, sent, state, token};

/// A queue has two sessions.
const BOTH: i64 = 2;

/// Ends so many sessions of collectors, the youngest first.
async fn disconnect(client: &Client, sessions: i64) -> Result<()> {
    let end = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'mailroom collect%'
        ORDER BY backend_start DESC LIMIT $1";
    client.execute(end, &[&sessions]).await?;
    Ok(())
}

#[tokio::test]
async fn three_collectors_share_the_work_and_nothing_goes_out_twice() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut collectors = Vec::new();
    for _ in 0..3 {
        let mut command = collector::command(database.url())?;
        let mut collector = Collector::start(command.args(["--batch-timeout", "100"]))?;
        let lines = collector.lines()?;
        collector.wait_until_it_collects()?;
        collectors.push((collector, lines));
    }
    for hundred in 0..20 {
        client.accounts(numbered(&format!("{hundred}-"), 1..=100)).insert().await?;
    }
    let done = "SELECT count(*) FROM mailroom.delivery_attempts WHERE outcome = 'sent'";
    wait_for(&client, done, 2_000_i64).await?;
    let mut tokens = Vec::new();
    for (collector, lines) in collectors {
        collector.stop()?;
        tokens.extend(lines.rest()?.into_iter().map(|item| item.token));
    }
    assert_eq!(tokens.len(), 2_000);
    assert_eq!(tokens.into_iter().collect::<HashSet<_>>().len(), 2_000);
    let left: i64 = client
        .query_one(
            "SELECT (SELECT count(*) FROM mailroom.queue) + (SELECT count(*) FROM mailroom.leases)",
            &[],
        )
        .await?
        .get(0);
    assert_eq!(left, 0);
    Ok(())
}

/// A batch of one token that its collector has claimed just before it lost its connection.
struct CutOff {
    client: Client,
    queue: DeliveriesQueue,
    token: i64,
    settlement: Settlement,
    // Dropped last: everything else is in it.
    _database: Database,
}

async fn cut_off() -> Result<CutOff> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let token = token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    let batch = queue.settle_and_claim(Vec::new(), all(10)).await?.batches.remove(0);
    disconnect(&client, BOTH).await?;
    Ok(CutOff { client, queue, token, settlement: sent(batch.id), _database: database })
}

#[tokio::test]
async fn a_settlement_whose_answer_was_lost_is_repeated_and_logged_once() -> Result<()> {
    let CutOff { client, mut queue, token, settlement, _database } = cut_off().await?;
    assert!(queue.settle_and_claim(vec![settlement.clone()], None).await.is_err());
    assert_eq!(state(&client, token).await?, at("leased", 1));
    queue.open().await?;
    assert_eq!(state(&client, token).await?, at("sent", 1));
    queue.settle_and_claim(vec![settlement], None).await?;
    assert_eq!(log(&client, token).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn batches_are_kept_over_a_lost_connection() -> Result<()> {
    let CutOff { client, mut queue, token, settlement, _database } = cut_off().await?;
    assert!(queue.peek(1).await.is_err());
    queue.open().await?;
    assert_eq!(state(&client, token).await?, at("leased", 1));
    assert_eq!(queue.heartbeat().await?, []);
    queue.settle_and_claim(vec![settlement], None).await?;
    assert_eq!(state(&client, token).await?, at("sent", 1));
    Ok(())
}

/// How many entries have been read of the index by which claims read, live ones and dead.
async fn entries_read(client: &Client) -> Result<i64> {
    let query = "SELECT idx_tup_read FROM pg_stat_user_indexes \
                 WHERE indexrelname = 'queue_priority_due_at_idx'";
    Ok(client.query_one(query, &[]).await?.get(0))
}

#[tokio::test]
async fn a_collector_that_reconnects_does_not_read_again_what_vacuum_may_not_clear() -> Result<()> {
    const TOKENS: i32 = 20_000;
    // A server of its own: transactions of other databases keep the horizon
    // of vacuum where it is, too.
    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let (client, backup) = (database.connect().await?, database.connect().await?);
    backup.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM accounts").await?;
    mailroom_tests::rows::register(&client, 1..=TOKENS).await?;
    let mut queue = queue(&database).await?;
    let mut settlements = Vec::new();
    loop {
        let batches = queue.settle_and_claim(settlements, all(100)).await?.batches;
        if batches.is_empty() {
            break;
        }
        settlements = batches.iter().map(|batch| sent(batch.id)).collect();
    }
    for _ in 0..2 {
        queue.peek(1).await?;
    }
    disconnect(&client, BOTH).await?;
    assert!(queue.peek(1).await.is_err());
    // The ended session has reported what it read.
    let before = entries_read(&client).await?;
    queue.open().await?;
    let id = token(&client, "activation").await?;
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [id]);
    // Sessions tell their counts at most once a second.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    queue.peek(1).await?;
    let read = entries_read(&client).await? - before;
    assert!((1..i64::from(TOKENS) / 10).contains(&read), "{read} entries were read");
    Ok(())
}

#[tokio::test]
async fn a_claim_that_was_broken_off_leaves_nothing_behind() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let id = token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    // The statement is on its way when its future is dropped.
    client.batch_execute("BEGIN; LOCK TABLE mailroom.leases IN ACCESS EXCLUSIVE MODE").await?;
    let claim = queue.settle_and_claim(Vec::new(), all(10));
    // Short: it does not come.
    let broken_off = tokio::time::timeout(Duration::from_millis(300), claim).await;
    assert!(broken_off.is_err());
    client.batch_execute("COMMIT").await?;
    assert!(queue.settle_and_claim(Vec::new(), None).await?.batches.is_empty());
    assert_eq!(state(&client, id).await?, at("queued", 0));
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [id]);
    Ok(())
}

#[tokio::test]
async fn a_claim_on_two_sessions_that_was_broken_off_leaves_nothing_behind() -> Result<()> {
    let database = Database::migrated()?;
    let (client, other) = (database.connect().await?, database.connect().await?);
    register(&client, "p", 6_000).await?;
    let mut queue = queue(&database).await?;
    let want = |batches| {
        Some(ClaimRequest {
            batches,
            limit: 100,
            partial: true,
            rescan: false,
            spares_doubtful: false,
        })
    };
    let first = queue.settle_and_claim(Vec::new(), want(20)).await?.batches;
    assert_eq!(first.len(), 20);
    // The one session has claimed, the other one waits to settle, and claims as soon as it has.
    other.batch_execute("BEGIN; SELECT FROM mailroom.leases FOR UPDATE").await?;
    let settlements = first.iter().map(|batch| sent(batch.id)).collect();
    let both = queue.settle_and_claim(settlements, want(20));
    // Short: it does not come.
    assert!(tokio::time::timeout(Duration::from_millis(500), both).await.is_err());
    let end = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        other.batch_execute("COMMIT").await
    };
    let (last, ended) = tokio::join!(queue.settle_and_claim(Vec::new(), None), end);
    last?;
    ended?;
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND application_name LIKE 'mailroom collect%' AND state <> 'idle'";
    wait_for(&client, busy, 0_i64).await?;
    let left = "SELECT count(*), (SELECT count(*) FROM mailroom.queue) FROM mailroom.leases";
    let left = client.query_one(left, &[]).await?;
    assert_eq!(
        (left.get::<_, i64>(0), left.get::<_, i64>(1)),
        (0, 4_000),
        "leases, and what waits"
    );
    Ok(())
}

#[tokio::test]
async fn the_session_that_settles_is_opened_again_when_it_is_lost() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let id = token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    let batch = queue.settle_and_claim(Vec::new(), all(10)).await?.batches.remove(0);
    disconnect(&client, 1).await?;
    assert!(
        queue.settle_and_claim(vec![sent(batch.id)], all(10)).await.is_err(),
        "it is not noticed"
    );
    queue.open().await?;
    assert_eq!(state(&client, id).await?, at("sent", 1));
    assert!(queue.settles_beside());
    Ok(())
}

#[tokio::test]
async fn a_renewal_that_reaches_the_server_late_takes_nothing_from_the_connection_after_it()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let id = token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    let batch = queue.settle_and_claim(Vec::new(), all(10)).await?.batches.remove(0);
    // As it was sent before the claim, by a connection that was given up.
    let late =
        "SELECT mailroom.heartbeat(collector_id, 'test', '{}', 90000, NULL) FROM mailroom.leases";
    client.execute(late, &[]).await?;
    queue.settle_and_claim(vec![sent(batch.id)], None).await?;
    assert_eq!(state(&client, id).await?, at("sent", 1));
    Ok(())
}
