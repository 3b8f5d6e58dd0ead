//! From the cursor to the queue and back, with collectors at work.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use mailroom::migrate::{self, DataLoss, MIGRATIONS};
use mailroom::queue::Queue;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{cursor, register, wait_for};
use tokio_postgres::Client;

use super::{all, at, queue, sent, state, states};

/// A database with the base schema alone.
async fn before_the_queue() -> Result<(Database, Client)> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    migrate::up(&mut client, &MIGRATIONS[..=0], &mut |_| {}).await?;
    Ok((database, client))
}

async fn down_from(version: usize, client: &mut Client) -> Result<()> {
    for _ in 1..=version {
        migrate::down(client, MIGRATIONS, DataLoss::Accepted, &mut |_| {}).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_the_cursor_has_not_sent_is_taken_over_and_what_it_has_is_not() -> Result<()> {
    let (database, mut client) = before_the_queue().await?;
    register(&client, 1..=6).await?;
    client
        .batch_execute(
            "UPDATE jobs SET last_seq = 4;
            UPDATE accounts SET status = 'suspended' WHERE id = 2;
            UPDATE accounts SET status = 'suspended' WHERE id = 3;
            UPDATE accounts SET status = 'active' WHERE id = 3;
            UPDATE tokens SET consumed_at = 1 WHERE id = 6",
        )
        .await?;
    migrate::up(&mut client, MIGRATIONS, &mut |_| {}).await?;
    let states = states(&client).await?;
    let state = |id: i64| states[&id].0.as_str();
    assert_eq!(
        [1, 2, 3, 4, 5, 6].map(state),
        ["unrecorded", "queued", "queued", "unrecorded", "queued", "queued"]
    );
    assert_eq!(cursor(&client).await?, i64::MAX);
    let mut queue = queue(&database).await?;
    assert_eq!(super::ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [3, 5]);
    assert_eq!(super::state(&client, 2).await?, at("deferred", 0));
    assert_eq!(super::state(&client, 6).await?, at("cancelled", 0));
    Ok(())
}

#[tokio::test]
async fn an_insert_that_was_under_way_is_taken_over_too() -> Result<()> {
    let (database, mut client) = before_the_queue().await?;
    let writer = database.connect().await?;
    writer.batch_execute("BEGIN").await?;
    writer.account("late").insert().await?;
    let ended = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        writer.batch_execute("COMMIT").await
    });
    migrate::up(&mut client, MIGRATIONS, &mut |_| {}).await?;
    ended.await??;
    assert_eq!(state(&client, 1).await?, at("queued", 0));
    Ok(())
}

#[tokio::test]
async fn a_takeover_that_is_killed_goes_on_where_it_was_and_knows_what_was_used_meanwhile()
-> Result<()> {
    for way_back in [false, true] {
        let (database, mut client) = before_the_queue().await?;
        register(&client, 1..=2500).await?;
        // One code in 200,000 of the base schema is such, and while there is one the migration
        // waits for the whole table: for the user below, who stays.
        client
            .batch_execute(
                "UPDATE jobs SET last_seq = 100;
                SET session_replication_role = replica;
                UPDATE tokens SET code = '00000' WHERE code = '#####';
                RESET session_replication_role",
            )
            .await?;
        migrate::up(&mut client, &MIGRATIONS[..=2], &mut |_| {}).await?;
        let user = database.connect().await?;
        user.batch_execute("BEGIN; UPDATE tokens SET consumed_at = 1 WHERE id = 700").await?;
        let mut migrating = database.connect().await?;
        let pid: i32 = migrating.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
        // The batches of 2500 to 1501 and, but for 700, of 1500 to 501.
        let is_waiting = format!(
            "SELECT count(*) = 1999 AND EXISTS (
                SELECT FROM pg_locks WHERE pid = {pid} AND NOT granted)
            FROM mailroom.issued_tokens"
        );
        let killer = async {
            wait_for(&client, &is_waiting, true).await?;
            anyhow::Ok(client.execute("SELECT pg_terminate_backend($1)", &[&pid]).await?)
        };
        let mut report = |_: &str| {};
        let migration =
            async { anyhow::Ok(migrate::up(&mut migrating, MIGRATIONS, &mut report).await) };
        let (outcome, _) = tokio::try_join!(migration, killer)?;
        let error = outcome.expect_err("its session is ended").to_string();
        assert!(error.contains("`mailroom migrate up` completes it"), "{error}");
        user.batch_execute("COMMIT; UPDATE tokens SET consumed_at = 1 WHERE id IN (50, 500, 2000)")
            .await?;
        register(&client, 2501..=2510).await?;

        if way_back {
            down_from(3, &mut client).await?;
            assert_eq!(cursor(&client).await?, 100);
            continue;
        }
        migrate::up(&mut client, MIGRATIONS, &mut |_| {}).await?;
        // What the cursor had sent and was used needs no row, and what was used when it had been
        // taken over is in the queue no more.
        let misfits = "SELECT array_agg(tokens.id ORDER BY tokens.id)
            FROM tokens FULL JOIN mailroom.issued_tokens AS known USING (id) LEFT
                JOIN mailroom.queue ON token = tokens.id
            WHERE tokens.consumed_at IS DISTINCT FROM known.consumed_at OR (token IS NULL) <>
                (tokens.id <= 100)";
        assert_eq!(client.query_one(misfits, &[]).await?.get::<_, Vec<i64>>(0), [50, 2000]);
    }
    Ok(())
}

#[tokio::test]
async fn the_way_back_leaves_to_the_cursor_what_was_not_sent() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    register(&client, 1..=3).await?;
    let mut queue = queue(&database).await?;
    let want = mailroom::queue::ClaimRequest {
        batches: 1,
        limit: 2,
        partial: false,
        rescan: true,
        spares_doubtful: false,
    };
    let batch = queue.settle_and_claim(Vec::new(), Some(want)).await?.batches.remove(0);
    queue.settle_and_claim(vec![sent(batch.id)], None).await?;
    down_from(MIGRATIONS.len() - 1, &mut client).await?;
    assert_eq!(cursor(&client).await?, 2);
    let mut collector = Collector::start(
        collector::on_base_schema(database.url())?.args(["--batch-timeout", "0"]),
    )?;
    assert_eq!(collector.lines()?.next_items(1)?[0].login, "user3");
    collector.stop()?;
    // And up again: nothing is left to be sent.
    migrate::up(&mut client, MIGRATIONS, &mut |_| {}).await?;
    assert!(states(&client).await?.into_values().all(|(state, _)| state == "unrecorded"));
    Ok(())
}

#[tokio::test]
async fn the_way_back_deletes_what_is_over_in_batches_and_waits_for_nobody() -> Result<()> {
    let database = Database::migrated()?;
    let (mut client, user) = (database.connect().await?, database.connect().await?);
    register(&client, 1..=2500).await?;
    client
        .batch_execute(
            "UPDATE tokens SET consumed_at = 1 WHERE id % 2 = 0;
            SELECT mailroom.cancel(3);
            SET session_replication_role = replica;
            UPDATE tokens SET expires_at = 1 WHERE id % 5 = 0;
            UPDATE mailroom.issued_tokens SET expires_at = 1 WHERE id % 5 = 0;
            RESET session_replication_role",
        )
        .await?;
    // A collector that is just claiming, and somebody who is using a token.
    user.batch_execute(
        "BEGIN;
        SELECT FROM mailroom.queue WHERE token = 5 FOR UPDATE;
        SELECT FROM mailroom.issued_tokens WHERE id = 4 FOR UPDATE",
    )
    .await?;
    migrate::down(&mut client, MIGRATIONS, DataLoss::Accepted, &mut |_| {}).await?;
    // What can still be used, what was cancelled, and the two that are locked.
    let misfits = "SELECT count(*) FROM tokens FULL JOIN mailroom.issued_tokens
        AS known USING (id) LEFT JOIN mailroom.queue ON token = id
        WHERE (known.id IS NOT NULL) <> (id % 2 = 1 AND id % 5 > 0 OR id IN (4, 5))
            OR (token IS NOT NULL) <> (id % 2 = 1 AND id % 5 > 0 AND id <> 3 OR id = 5)";
    assert_eq!(client.query_one(misfits, &[]).await?.get::<_, i64>(0), 0);
    let expired =
        "SELECT count(DISTINCT token) FROM mailroom.delivery_attempts WHERE outcome = 'expired'";
    assert_eq!(client.query_one(expired, &[]).await?.get::<_, i64>(0), 249);
    user.batch_execute("ROLLBACK").await?;
    migrate::down(&mut client, MIGRATIONS, DataLoss::Accepted, &mut |_| {}).await?;
    assert_eq!(cursor(&client).await?, 0);
    let left = "SELECT count(*) FROM mailroom.issued_tokens";
    assert_eq!(client.query_one(left, &[]).await?.get::<_, i64>(0), 0);
    // The cancelled one is not there for the cursor to send.
    assert_eq!(client.query_one("SELECT count(*) FROM tokens", &[]).await?.get::<_, i64>(0), 2499);
    Ok(())
}

#[tokio::test]
async fn a_cursor_that_is_at_work_gives_way_and_nothing_is_lost_or_sent_twice() -> Result<()> {
    let (database, mut client) = before_the_queue().await?;
    let eager = ["--batch-timeout", "0", "--poll-interval", "200ms"];
    let mut old = Collector::start(collector::on_base_schema(database.url())?.args(eager))?;
    let old_lines = old.lines()?;
    old.wait_until_it_collects()?;
    register(&client, 1..=40).await?;
    let mut seen = old_lines.next_items(40)?;
    // Registrations go on meanwhile.
    let url = database.url().to_owned();
    let writer = tokio::spawn(async move {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        for number in 41..=140 {
            register(&client, number..=number).await?;
        }
        anyhow::Ok(())
    });
    migrate::up(&mut client, MIGRATIONS, &mut |_| {}).await?;
    writer.await??;
    // It says what it would say at its start, and ends as it would then.
    let (status, log) = old.wait()?;
    assert_eq!(status.code(), Some(1), "{log}");
    let sentence = "would send them a second time; set MAILROOM_QUEUE_KIND to `deliveries`, or \
                    unset it event=failed";
    assert!(log.trim_end().ends_with(sentence), "{log}");
    let mut new = Collector::start(collector::command(database.url())?.args(eager))?;
    let new_lines = new.lines()?;
    register(&client, 141..=150).await?;
    // Claimed is not sent: at its end a collector gives back what it did not begin.
    let done =
        "SELECT (SELECT count(*) FROM mailroom.queue) + (SELECT count(*) FROM mailroom.leases)";
    wait_for(&client, done, 0_i64).await?;
    new.stop()?;
    seen.extend(old_lines.rest()?);
    seen.extend(new_lines.rest()?);
    let mut counts: HashMap<String, usize> = HashMap::new();
    for item in seen {
        *counts.entry(item.login).or_default() += 1;
    }
    assert_eq!(counts.len(), 150);
    // What the old one had written and not recorded when the cursor was taken from it.
    let doubled = counts.values().filter(|count| **count > 1).count();
    assert!(doubled <= 100, "{doubled} were sent twice");
    assert!(counts.values().all(|count| *count <= 2), "{counts:?}");
    Ok(())
}

#[tokio::test]
async fn the_queue_of_another_schema_is_refused_by_either_kind_with_what_to_do() -> Result<()> {
    let database = Database::migrated()?;
    let collector = Collector::start(&mut collector::on_base_schema(database.url())?)?;
    let (status, log) = collector.wait()?;
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("set MAILROOM_QUEUE_KIND to `deliveries`, or unset it"), "{log}");

    let database = Database::with_base_schema()?;
    let collector =
        Collector::start(collector::command(database.url())?.args(["--missing-schema", "exit"]))?;
    let (status, log) = collector.wait()?;
    assert_eq!(status.code(), Some(1));
    assert!(
        log.contains("run `mailroom migrate up`")
            && log.contains("MAILROOM_QUEUE_KIND to `cursor`"),
        "{log}"
    );
    Ok(())
}
