//! Dead letters are listed, however many tokens there are.

use anyhow::Result;
use mailroom_tests::plan::blocks;
use mailroom_tests::postgres::Database;
use serde_json::Value;

use super::{give_up, run};

#[tokio::test]
async fn dead_letters_are_listed_with_their_reason_the_newest_first() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    assert_eq!(run(&database, &["dead"])?.success()?, "there are no dead letters\n");
    assert_eq!(run(&database, &["dead", "--json"])?.success()?, "");
    give_up(&client, 3).await?;
    client
        .batch_execute(
            "UPDATE mailroom.dead_letters SET died_at = '2026-01-02 03:04:05Z', attempts = 1
            WHERE token = 2;
            UPDATE mailroom.issued_tokens SET expires_at = 1767322800 WHERE id = 2",
        )
        .await?;
    let said = run(&database, &["dead"])?.success()?;
    let last = "2026-01-02T03:04:05Z  token 2  activate  1 attempt  no such mailbox";
    assert_eq!(said.lines().count(), 3, "{said}");
    assert_eq!(said.lines().last(), Some(last));
    assert!(
        said.lines().take(2).all(|line| line.contains("  8 attempts  its link ends at ")),
        "{said}"
    );
    let said = run(&database, &["dead", "--json"])?.success()?;
    let last: Value = serde_json::from_str(said.lines().last().unwrap_or_default())?;
    assert_eq!(
        (&last["token"], &last["action"], &last["attempts"]),
        (&2.into(), &"activate".into(), &1.into())
    );
    assert_eq!(
        (&last["died_at"], &last["reason"]),
        (&"2026-01-02T03:04:05Z".into(), &"no such mailbox".into())
    );
    assert!(!said.contains("secret") && !said.contains('@'), "{said}");
    let said = run(&database, &["dead", "--limit", "1"])?;
    assert_eq!(said.output.lines().count(), 1);
    assert!(said.errors.contains("--limit"), "{}", said.errors);
    Ok(())
}

#[tokio::test]
async fn what_waits_is_found_without_reading_all_tokens_and_the_log() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, 20).await?;
    client
        .batch_execute(
            "INSERT INTO mailroom.issued_tokens
                (id, action, subject_id, recipient_email, consumed_id, created_at, expires_at)
            SELECT id, 4, id::text, id || '@example.test', sha256(int8send(id)), 0, 9999999999
            FROM generate_series(1000::bigint, 100000) AS id;
            INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
            SELECT ARRAY[id], now(), 1, 'sent' FROM generate_series(1000, 100000) AS id;
            ANALYZE",
        )
        .await?;
    for state in ["dead", "queued", "deferred", "leased"] {
        let list = format!("SELECT * FROM mailroom.waiting WHERE state = '{state}'");
        let rows = client.query(&list, &[]).await?;
        assert_eq!(rows.len(), if state == "dead" { 20 } else { 0 }, "{state}");
        let touched = blocks(&client, &list).await?;
        assert!(touched < 300, "{state} touches {touched} blocks");
    }
    Ok(())
}

#[tokio::test]
async fn each_state_of_what_waits_is_that_of_the_deliveries() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, 1).await?;
    mailroom_tests::rows::register(&client, 2..=4).await?;
    client
        .batch_execute(
            "UPDATE mailroom.queue SET deferrals = 1, put_off_at = now(), due_at = now() +
            interval '1 hour' WHERE token = 2;
            SELECT mailroom.heartbeat(7, 'host process 1', '{}', 90000, NULL);
            SELECT * FROM mailroom.claim(
                7, ARRAY[gen_random_uuid()], 1, true, 1, 0, now() - interval '1 hour', NULL,
                    90000, 30,
                '{1,2}'::smallint[], true
            )",
        )
        .await?;
    let both = "SELECT count(*) FROM mailroom.waiting JOIN mailroom.deliveries
        USING (token, state, attempts, since)
        WHERE (waiting.collector_id, waiting.collector, waiting.batch, waiting.reason,
                waiting.doubts)
            IS NOT DISTINCT FROM
            (deliveries.collector_id, deliveries.collector, deliveries.batch, deliveries.reason,
                deliveries.doubts)";
    assert_eq!(client.query_one(both, &[]).await?.get::<_, i64>(0), 4);
    let states =
        "SELECT string_agg(state || ' ' || action, ', ' ORDER BY state) FROM mailroom.waiting";
    let states: String = client.query_one(states, &[]).await?.get(0);
    assert_eq!(states, "dead activate, deferred activate, leased activate, queued activate");
    Ok(())
}
