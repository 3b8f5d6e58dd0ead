//! No token enters the queue below the low watermark, however long a statement waits after it has read the clock.

use std::time::Duration;

use anyhow::Result;
use mailroom::queue::{Nack, Queue, Settlement};
use mailroom_tests::postgres::Database;

use super::{all, ids, queue, token};

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
    let nacks = vec![(misplaced, Nack::Abandoned), (dead, Nack::Dead { reason: "550".to_owned() })];
    queue.settle_and_claim(vec![Settlement { batch: batch.id, nacks }], None).await?;
    client
        .batch_execute(&format!(
            "UPDATE mailroom.queue SET due_at = due_at + interval '1 day' WHERE token IN ({misplaced}, {deferred});
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
        let blocked = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 7
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
async fn a_collector_waits_for_no_transaction_that_redeems_or_cancels_what_it_is_sending() -> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    let mut queue = queue(&database).await?;
    let enqueue = "SELECT mailroom.enqueue('sign_in', 'a@example.test', NULL, $1::text, '{\"a\": 1}')";
    let account = "INSERT INTO accounts (email, login, status) VALUES ('a@example.test', 'a', 'active') RETURNING id::text";
    let account: String = client.query_one(account, &[]).await?.get(0);
    for end in ["COMMIT", "ROLLBACK"] {
        for nack in [None, Some(Nack::Abandoned), Some(Nack::Dead { reason: "550".to_owned() })] {
            let id: i64 = client.query_one(enqueue, &[&account]).await?.get(0);
            let batch = queue.settle_and_claim(Vec::new(), all(10)).await?.batches.remove(0);
            application.batch_execute("BEGIN").await?;
            let cancel = format!("SELECT mailroom.cancel({id})");
            application.batch_execute(&cancel).await?;
            let nacks = nack.map(|nack| vec![(id, nack)]).unwrap_or_default();
            let settlement = Settlement { batch: batch.id, nacks };
            let settle = queue.settle_and_claim(vec![settlement], None);
            tokio::time::timeout(Duration::from_secs(4), settle).await??;
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
