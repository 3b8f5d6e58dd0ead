//! What test suites, replication and restores do to whole tables.

use anyhow::Result;
use mailroom_tests::application::Application;
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::postgres::Database;
use tokio_postgres::SimpleQueryMessage;

async fn count(application: &Application, rows: &str) -> Result<i64> {
    Ok(application.client.query_one(&format!("SELECT count(*) FROM {rows}"), &[]).await?.get(0))
}

#[tokio::test]
async fn truncating_accounts_empties_the_queue_too() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.accounts(numbered("", 1..=4)).insert().await?;
    application
        .client
        .batch_execute(
            "DELETE FROM mailroom.queue WHERE token IN (1, 3);
            INSERT INTO mailroom.leases SELECT gen_random_uuid(), 1, now(), now(), now(), now(),
                '{1}', '{1}', '{0}', '{1}', '{x}', '{NULL}';
            UPDATE mailroom.queue SET deferrals = 1, put_off_at = now() WHERE token = 2;
            INSERT INTO mailroom.dead_letters VALUES (3, now(), 1, 1, 1, 1, 'x', NULL, '');
            INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
                VALUES ('{4}', now(), 7, 'retry')",
        )
        .await?;
    application.client.batch_execute("TRUNCATE accounts RESTART IDENTITY CASCADE").await?;
    for table in ["queue", "dead_letters", "issued_tokens", "payloads"] {
        assert_eq!(count(&application, &format!("mailroom.{table}")).await?, 0, "{table}");
    }
    // What is on its way has its lease until that is settled or over, and then comes to nothing.
    let lapse = "SELECT mailroom.heartbeat(2, 'test', '{}', 90000, NULL);
        SELECT mailroom.claim(2, ARRAY[gen_random_uuid()], 10, true, 10, 0, NULL, NULL, 90000,
            30, '{1, 2}', true)";
    application.client.batch_execute(lapse).await?;
    assert_eq!(count(&application, "mailroom.leases").await?, 0);
    assert_eq!(
        count(&application, "mailroom.delivery_attempts WHERE token = 1 AND outcome = 'cancelled'")
            .await?,
        1
    );
    // Ids go on, so that no new token has what the log says of an old one.
    application.register("a").await?;
    let queued = "mailroom.deliveries WHERE token = 5 AND state = 'queued' AND attempts = 0";
    assert_eq!(count(&application, queued).await?, 1);
    assert_eq!(count(&application, "mailroom.delivery_attempts WHERE token > 4").await?, 0);
    Ok(())
}

#[tokio::test]
async fn what_is_pruned_can_be_pruned_although_everything_is_published() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let prune = "CREATE PUBLICATION everything FOR ALL TABLES;
        INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
            VALUES ('{1}', now() - interval '9 days', 1, 'sent');
        SELECT mailroom.prune_attempts(now() - interval '2 days', 0, 1);
        SELECT mailroom.prune_dead_letters(now() - interval '2 days', 1);
        SELECT mailroom.prune_tokens(now() - interval '2 days', 0, 1)";
    application.client.batch_execute(prune).await?;
    assert_eq!(count(&application, "mailroom.delivery_attempts").await?, 0);
    Ok(())
}

#[tokio::test]
async fn what_an_installation_keeps_about_itself_is_one_row() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    for row in ["(true, now(), 0)", "(false, now(), 0)"] {
        let insert = format!("INSERT INTO mailroom.installation VALUES {row}");
        assert!(application.client.batch_execute(&insert).await.is_err(), "{row}");
    }
    assert_eq!(count(&application, "mailroom.installation").await?, 1);
    Ok(())
}

#[tokio::test]
async fn the_view_of_deliveries_reads_the_leases_once_however_many_tokens_there_are() -> Result<()>
{
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.accounts(numbered("", 1..=2_000)).insert().await?;
    application
        .client
        .batch_execute(
            "DELETE FROM mailroom.queue WHERE token <= 400;
            INSERT INTO mailroom.leases SELECT gen_random_uuid(), 1, now(), now(), now(), now(),
                ARRAY[n], '{1}', '{0}', '{1}', '{x}', '{NULL}'
                FROM generate_series(1, 400) n;
            ANALYZE",
        )
        .await?;
    let explain =
        "EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, FORMAT JSON) SELECT * FROM mailroom.deliveries";
    let messages = application.client.simple_query(explain).await?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: serde_json::Value = serde_json::from_str(&rows.collect::<Vec<_>>().join("\n"))?;
    let mut looks = Vec::new();
    collect_looks(&plan[0]["Plan"], "leases", &mut looks);
    assert_eq!(looks, [1], "{plan:#}");
    assert_eq!(count(&application, "mailroom.deliveries WHERE state = 'leased'").await?, 400);
    Ok(())
}

/// How often a plan reads a table, for each node that does.
fn collect_looks(node: &serde_json::Value, table: &str, looks: &mut Vec<u64>) {
    if node["Relation Name"] == table {
        looks.extend(node["Actual Loops"].as_u64());
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        collect_looks(child, table, looks);
    }
}
