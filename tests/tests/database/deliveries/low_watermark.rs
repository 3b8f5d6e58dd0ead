//! No token enters the queue below the low watermark, however long a statement waits after it has
//! read the clock.

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom::queue::{DeliveriesQueue, Nack, Queue, Settlement};
use mailroom_connect::{ConnectionSettings, Environment};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::plan::blocks;
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_verifier_core::Version;

use super::{SETTINGS, all, ids, queue, sent, token};

/// A clock after whose reading sessions wait for a lock, if they say so.
const SLOW_CLOCK: &str =
    "CREATE OR REPLACE FUNCTION mailroom.clock() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
    DECLARE
        moment timestamptz := clock_timestamp();
    BEGIN
        IF current_setting('test.is_slow', true) = 'yes' THEN
            PERFORM pg_advisory_lock_shared(7);
            PERFORM pg_advisory_unlock_shared(7);
        END IF;
        RETURN moment;
    END;
    $$;
    -- The clock waits by a lock, on a slow machine for longer than a sweep would.
    ALTER FUNCTION mailroom.sweep(timestamptz, integer) SET lock_timeout = 0";

#[tokio::test]
async fn what_is_queued_by_a_clock_that_was_read_long_before_is_found() -> Result<()> {
    let database = Database::migrated()?;
    let (client, gate) = (database.connect().await?, database.connect().await?);
    let mut queue = queue(&database).await?;
    let [deferred, misplaced, dead] = [
        token(&client, "activation").await?,
        token(&client, "activation").await?,
        token(&client, "activation").await?,
    ];
    let account: i64 =
        client.query_one("SELECT account FROM tokens WHERE id = $1", &[&deferred]).await?.get(0);
    client.execute("UPDATE accounts SET status = 'suspended' WHERE id = $1", &[&account]).await?;
    let batch = queue.settle_and_claim(Vec::new(), all(10)).await?.batches.remove(0);
    let nacks =
        vec![(misplaced, Nack::Unanswered), (dead, Nack::Dead { reason: "550".to_owned() })];
    queue.settle_and_claim(vec![Settlement::of(batch.id, nacks)], None).await?;
    client
        .batch_execute(&format!(
            "UPDATE mailroom.queue SET due_at = due_at + interval '1 day'
            WHERE token IN ({misplaced}, {deferred});
            SET session_replication_role = replica;
            UPDATE accounts SET status = 'provisioned';
            SET session_replication_role = origin"
        ))
        .await?;
    client.batch_execute(SLOW_CLOCK).await?;

    let enqueue = "SELECT mailroom.enqueue('notice', 'a@example.test')".to_owned();
    let register = "INSERT INTO accounts (email, login) VALUES ('b', 'b')".to_owned();
    for (statement, expected) in [
        (enqueue, None),
        (register, None),
        (format!("SELECT mailroom.recheck('{account}')"), Some(deferred)),
        ("SELECT * FROM mailroom.sweep(NULL, 100)".to_owned(), Some(misplaced)),
        ("SELECT mailroom.retry_all()".to_owned(), Some(dead)),
    ] {
        gate.batch_execute("SELECT pg_advisory_lock(7)").await?;
        let slow = database.connect().await?;
        slow.batch_execute("SET test.is_slow = 'yes'").await?;
        let queued = statement.clone();
        let waiting = tokio::spawn(async move { slow.batch_execute(&queued).await });
        let blocked =
            "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 7
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        while client.query_opt(blocked, &[]).await?.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for _ in 0..3 {
            // Another transaction, after which a peek moves the low watermark as far as it can.
            client.execute("SELECT pg_current_xact_id()", &[]).await?;
            queue.peek(10).await?;
        }
        gate.batch_execute("SELECT pg_advisory_unlock(7)").await?;
        waiting.await??;
        let claimed = ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches);
        assert_eq!(claimed.len(), 1, "{statement}: {claimed:?}");
        assert!(expected.is_none_or(|id| claimed == [id]), "{statement}: {claimed:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_new_collector_begins_where_others_had_come_however_many_dead_rows_lie_before()
-> Result<()> {
    const LEASE: Duration = Duration::from_secs(12);
    // A server of its own: the watermark waits for transactions of all databases.
    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let (client, pinned) = (database.connect().await?, database.connect().await?);
    client.mail("notice").enqueue_times(10_000).await?;
    pinned
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM mailroom.queue LIMIT 1")
        .await?;
    let connection = ConnectionSettings::resolve(database.url(), &Environment::of_process())?;
    let mut old = DeliveriesQueue::new(connection, SETTINGS, LEASE, Version::V2)?;
    old.open().await?;
    let mut settlements = Vec::new();
    loop {
        let batches = old.settle_and_claim(settlements, all(100)).await?.batches;
        if batches.is_empty() {
            break;
        }
        settlements = batches.iter().map(|batch| sent(batch.id)).collect();
    }
    let peek = async |since: &str| {
        blocks(&client, &format!("SELECT * FROM mailroom.peek({since}, 1)")).await
    };
    peek("NULL").await?;
    let beginning = peek("NULL").await?;
    let stored = "SELECT ('epoch'::timestamptz + interval '1 microsecond' * last_value)::text \
                  FROM mailroom.low_watermark";
    let known = async {
        loop {
            client.execute("SELECT pg_current_xact_id()", &[]).await?;
            old.peek(10).await?;
            tokio::time::sleep(LEASE / 3).await;
            old.heartbeat().await?;
            let known: String = client.query_one(stored, &[]).await?.get(0);
            if peek(&format!("'{known}'")).await? * 5 < beginning {
                return anyhow::Ok(known);
            }
        }
    };
    let known = tokio::time::timeout(Duration::from_secs(400), known).await??;

    let beat = async |collector: i64, since: &str| -> Result<Option<String>> {
        let beat = format!(
            "SELECT low_watermark::text FROM mailroom.heartbeat({collector}, 'c', '{{}}', 90000, \
             {since}) WHERE batch IS NULL"
        );
        Ok(client.query_one(&beat, &[]).await?.get(0))
    };
    assert_eq!(beat(1, "NULL").await?, Some(known));
    let mut new = queue(&database).await?;
    let next = token(&client, "activation").await?;
    assert_eq!(ids(&new.settle_and_claim(Vec::new(), all(10)).await?.batches), [next]);

    // What a collector takes back, because the clock was set back,
    // and what lies in the future is not believed.
    for (collector, since) in [(2, "NULL"), (3, "now() + interval '1 hour'")] {
        beat(1, since).await?;
        assert_eq!(beat(collector, "NULL").await?, None, "{since}");
    }
    Ok(())
}

#[tokio::test]
async fn a_collector_waits_for_no_transaction_that_redeems_or_cancels_what_it_is_sending()
-> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    let mut queue = queue(&database).await?;
    let account = client.account("ada").active().insert().await?.to_string();
    let mail = client.mail("sign_in").subject(&account).payload(r#"{"a": 1}"#);
    for end in ["COMMIT", "ROLLBACK"] {
        for nack in [None, Some(Nack::Unanswered), Some(Nack::Dead { reason: "550".to_owned() })] {
            let id = mail.clone().enqueue().await?;
            let batch = queue.settle_and_claim(Vec::new(), all(10)).await?.batches.remove(0);
            application.batch_execute("BEGIN").await?;
            let cancel = format!("SELECT mailroom.cancel({id})");
            application.batch_execute(&cancel).await?;
            let nacks = nack.map(|nack| vec![(id, nack)]).unwrap_or_default();
            let settlement = Settlement::of(batch.id, nacks);
            let settle = queue.settle_and_claim(vec![settlement], None);
            // The transaction that could be waited for ends afterwards.
            let settled = tokio::time::timeout(Duration::from_secs(240), settle).await;
            settled.context("it waits for a transaction that cancels")??;
            application.batch_execute(end).await?;
            // Leaves nothing for the next.
            client.execute("SELECT mailroom.cancel_subject($1)", &[&account]).await?;
            queue.settle_and_claim(Vec::new(), all(10)).await?;
            client.batch_execute("DELETE FROM mailroom.dead_letters").await?;
            let left = "SELECT count(*) FROM mailroom.queue";
            assert_eq!(client.query_one(left, &[]).await?.get::<_, i64>(0), 0);
        }
    }
    Ok(())
}
