//! What becomes of a token after a delivery attempt.

use std::time::Duration;

use anyhow::Result;
use mailroom::queue::{Batch, ClaimRequest, DeliveriesQueue, Nack, Queue, Settlement};
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::rows::register;
use tokio_postgres::Client;

use super::{ALMOST, LEASE, all, at, clock, entry, ids, log, queue, state, states, token, tokens};

async fn claim(queue: &mut DeliveriesQueue) -> Result<Vec<Batch>> {
    Ok(queue.settle_and_claim(Vec::new(), all(10)).await?.batches)
}

async fn settle(queue: &mut DeliveriesQueue, batch: &Batch, nacks: Vec<(i64, Nack)>) -> Result<()> {
    queue.settle_and_claim(vec![Settlement::of(batch.id, nacks)], None).await?;
    Ok(())
}

fn retry(after: Option<Duration>) -> Nack {
    Nack::Retry { after, reason: "mailbox full".to_owned() }
}

fn with_reason(attempt: i32, outcome: &str, reason: &str) -> (i32, String, Option<String>) {
    (attempt, outcome.to_owned(), Some(reason.to_owned()))
}

/// In how many milliseconds a waiting token is due.
async fn due_in(client: &Client, token: i64) -> Result<i64> {
    let query = "SELECT round(extract(epoch FROM due_at - mailroom.clock()) * 1000)::bigint \
                 FROM mailroom.queue WHERE token = $1";
    Ok(client.query_one(query, &[&token]).await?.get(0))
}

#[tokio::test]
async fn a_settled_token_is_sent_and_the_log_says_when_by_whom_and_at_which_attempt() -> Result<()>
{
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let id = token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    let batch = claim(&mut queue).await?.remove(0);
    settle(&mut queue, &batch, Vec::new()).await?;
    let query = "SELECT state, attempts, since IS NOT NULL, collector, batch::text, reason \
                 FROM mailroom.deliveries WHERE token = $1";
    let row = client.query_one(query, &[&id]).await?;
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, i32>(1), row.get::<_, bool>(2)),
        ("sent", 1, true)
    );
    assert!(row.get::<_, &str>(3).ends_with(&format!(" process {}", std::process::id())));
    assert_eq!(row.get::<_, &str>(4), batch.id.to_string());
    assert_eq!(row.get::<_, Option<&str>>(5), None);
    assert_eq!(log(&client, id).await?, [entry(1, "sent")]);
    Ok(())
}

#[tokio::test]
async fn tokens_that_were_sent_together_share_a_row_of_the_log_and_each_is_found() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    // The numbers 256 and 512 begin a row of their own.
    register(&client, 1..=600).await?;
    let mut queue = queue(&database).await?;
    let batches = queue.settle_and_claim(Vec::new(), all(1_000)).await?.batches;
    settle(&mut queue, &batches[0], Vec::new()).await?;
    let rows = "SELECT count(*), sum(cardinality(tokens))::bigint FROM mailroom.delivery_log";
    let rows = client.query_one(rows, &[]).await?;
    assert_eq!((rows.get::<_, i64>(0), rows.get::<_, i64>(1)), (3, 600));
    let found = "SELECT count(*), count(DISTINCT token) FROM mailroom.delivery_attempts \
                 WHERE attempt = 1 AND outcome = 'sent'";
    let found = client.query_one(found, &[]).await?;
    assert_eq!((found.get::<_, i64>(0), found.get::<_, i64>(1)), (600, 600));
    assert!(states(&client).await?.values().all(|state| *state == at("sent", 1)));
    for token in [1_i64, 255, 256, 511, 512, 600] {
        let history = "SELECT attempt, outcome::text FROM mailroom.history($1)";
        let history = client.query(history, &[&token]).await?;
        assert_eq!(
            (history.len(), history[0].get(0), history[0].get(1)),
            (1, 1, "sent"),
            "{token}"
        );
    }
    assert!(client.query("SELECT mailroom.history(601)", &[]).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_refused_token_waits_longer_each_time_and_is_given_up_with_the_last_reason() -> Result<()>
{
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let id = token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    for (attempt, pauses) in [(1, 500..=1_000), (2, 1_000..=2_000)] {
        let batch = claim(&mut queue).await?.remove(0);
        assert_eq!(batch.tokens[0].attempt, attempt);
        settle(&mut queue, &batch, vec![(id, retry(None))]).await?;
        let pause = due_in(&client, id).await?;
        assert!(pauses.contains(&pause), "attempt {attempt}: {pause} ms");
        assert!(claim(&mut queue).await?.is_empty());
        clock::forward(&client, Duration::from_secs(2)).await?;
    }
    let batch = claim(&mut queue).await?.remove(0);
    settle(&mut queue, &batch, vec![(id, retry(None))]).await?;
    assert_eq!(state(&client, id).await?, at("dead", 3));
    assert_eq!(
        log(&client, id).await?,
        [
            with_reason(1, "retry", "mailbox full"),
            with_reason(2, "retry", "mailbox full"),
            with_reason(3, "dead", "mailbox full")
        ]
    );
    Ok(())
}

#[tokio::test]
async fn the_pause_is_what_the_sender_asks_for() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let id = token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    let batch = claim(&mut queue).await?.remove(0);
    settle(&mut queue, &batch, vec![(id, retry(Some(Duration::from_millis(12_345))))]).await?;
    assert_eq!(due_in(&client, id).await?, 12_345);
    Ok(())
}

#[tokio::test]
async fn exceptions_concern_their_tokens_alone() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let ids = tokens(&client, "activation", 4).await?;
    let mut queue = queue(&database).await?;
    let batch = claim(&mut queue).await?.remove(0);
    let dead = Nack::Dead { reason: "its login contains a comma".to_owned() };
    settle(
        &mut queue,
        &batch,
        vec![
            (ids[1], dead),
            (ids[2], Nack::Unanswered),
            (ids[3], retry(Some(Duration::from_secs(60)))),
        ],
    )
    .await?;
    assert_eq!(state(&client, ids[0]).await?, at("sent", 1));
    assert_eq!(state(&client, ids[1]).await?, at("dead", 1));
    assert_eq!(state(&client, ids[2]).await?, at("queued", 1));
    assert_eq!(state(&client, ids[3]).await?, at("queued", 1));
    assert_eq!(log(&client, ids[2]).await?, [entry(1, "unanswered")]);
    // What nobody answered is due at once, and that was no refusal.
    let again = claim(&mut queue).await?.remove(0);
    assert_eq!(
        again.tokens.iter().map(|token| (token.id, token.attempt)).collect::<Vec<_>>(),
        [(ids[2], 2)]
    );
    let failures: i16 =
        client.query_one("SELECT failures[1] FROM mailroom.leases", &[]).await?.get(0);
    assert_eq!(failures, 0);
    Ok(())
}

#[tokio::test]
async fn released_tokens_come_back_to_their_place_as_if_they_had_not_been_claimed() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let first = tokens(&client, "activation", 2).await?;
    let mut queue = queue(&database).await?;
    let batch = claim(&mut queue).await?.remove(0);
    let later = token(&client, "activation").await?;
    queue.release(&[batch.id]);
    assert_eq!(ids(&claim(&mut queue).await?), [first[0], first[1], later]);
    assert_eq!(state(&client, first[0]).await?, at("leased", 1));
    assert!(log(&client, first[0]).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_lapsed_lease_is_taken_over_logged_and_does_not_count_as_a_refusal() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let id = token(&client, "activation").await?;
    let mut frozen = queue(&database).await?;
    let held = claim(&mut frozen).await?.remove(0);
    let mut other = queue(&database).await?;
    clock::forward(&client, ALMOST).await?;
    assert_eq!(other.peek(1).await?.next, Some(Duration::from_secs(1)));
    assert!(claim(&mut other).await?.is_empty());
    clock::forward(&client, Duration::from_secs(1)).await?;
    assert_eq!(other.peek(1).await?.due, 1);
    let taken = claim(&mut other).await?.remove(0);
    assert_eq!((taken.tokens[0].id, taken.tokens[0].attempt), (id, 2));
    assert_eq!(log(&client, id).await?, [entry(1, "lapsed")]);
    let failures: i16 =
        client.query_one("SELECT failures[1] FROM mailroom.leases", &[]).await?.get(0);
    assert_eq!(failures, 0);

    // Whoever settles a batch that is gone settles nothing, and learns which ones are.
    settle(&mut frozen, &held, Vec::new()).await?;
    assert_eq!(state(&client, id).await?, at("leased", 2));
    settle(&mut other, &taken, Vec::new()).await?;
    assert_eq!(log(&client, id).await?, [entry(1, "lapsed"), entry(2, "sent")]);
    Ok(())
}

#[tokio::test]
async fn a_collector_that_runs_keeps_its_leases_and_one_that_was_frozen_learns_what_it_lost()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    token(&client, "activation").await?;
    let mut slow = queue(&database).await?;
    let batch = claim(&mut slow).await?.remove(0);
    clock::forward(&client, LEASE * 2).await?;
    // Lapsed, but nobody has taken it: opening renews.
    slow.open().await?;
    assert_eq!(slow.heartbeat().await?, []);
    let mut other = queue(&database).await?;
    clock::forward(&client, ALMOST).await?;
    assert!(claim(&mut other).await?.is_empty());
    clock::forward(&client, Duration::from_secs(1)).await?;
    assert_eq!(other.peek(1).await?.due, 1);
    assert_eq!(claim(&mut other).await?.len(), 1);
    slow.open().await?;
    assert_eq!(slow.heartbeat().await?, [batch.id]);
    Ok(())
}

#[tokio::test]
async fn a_dead_token_is_put_back_once_however_many_ask_for_it() -> Result<()> {
    let database = Database::migrated()?;
    let (client, other) = (database.connect().await?, database.connect().await?);
    let id = token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    let batch = claim(&mut queue).await?.remove(0);
    settle(&mut queue, &batch, vec![(id, Nack::Dead { reason: "no".to_owned() })]).await?;
    let put_back = "SELECT count(*) FROM mailroom.retry(ARRAY[$1]::bigint[])";
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&id];
    let (one, two) = tokio::join!(
        client.query_one(put_back, &parameters),
        other.query_one(put_back, &parameters)
    );
    assert_eq!(one?.get::<_, i64>(0) + two?.get::<_, i64>(0), 1);
    let again = claim(&mut queue).await?;
    assert_eq!((ids(&again), again[0].tokens[0].attempt), (vec![id], 2));
    Ok(())
}

#[tokio::test]
async fn what_was_settled_is_on_disk_whether_a_claim_found_more_or_nothing_or_failed() -> Result<()>
{
    let mut cluster = Cluster::builder().setting("wal_writer_delay", "10s").start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let one = Some(ClaimRequest {
        batches: 1,
        limit: 1,
        partial: true,
        rescan: true,
        spares_doubtful: false,
    });
    for (waiting, fails) in [(2, false), (1, false), (2, true)] {
        let client = database.connect().await?;
        // Or its commits would bring everything to the disk.
        client.batch_execute("SET synchronous_commit = off").await?;
        for _ in 0..waiting {
            token(&client, "activation").await?;
        }
        let mut queue = queue(&database).await?;
        let batch = queue.settle_and_claim(Vec::new(), one).await?.batches.remove(0);
        let broken = "ALTER TABLE mailroom.leases ADD CONSTRAINT broken CHECK (false) NOT VALID";
        let mended = "ALTER TABLE mailroom.leases DROP CONSTRAINT broken";
        if fails {
            client.batch_execute(broken).await?;
        }
        let settlement = Settlement::of(batch.id, Vec::new());
        let claim = queue.settle_and_claim(vec![settlement], one).await;
        assert_eq!(claim.is_err(), fails);
        if fails {
            client.batch_execute(mended).await?;
            queue.open().await?;
        }
        cluster.stop(Shutdown::Immediate)?;
        cluster.start_again()?;
        let client = database.connect().await?;
        assert_eq!(
            log(&client, batch.tokens[0].id).await?,
            [entry(1, "sent")],
            "{waiting} {fails}"
        );
        client.batch_execute("DELETE FROM mailroom.queue; DELETE FROM mailroom.leases").await?;
    }
    Ok(())
}
