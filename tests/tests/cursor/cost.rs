//! What a claim costs the database, however many tokens there are.

use std::time::Duration;

use anyhow::Result;
use mailroom_tests::collector::Collector;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::register;
use tokio_postgres::Client;

use crate::eager;

async fn rows_read(client: &Client) -> Result<i64> {
    // Sessions tell their counts at most once a second.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let query = "SELECT coalesce(sum(idx_tup_fetch + seq_tup_read), 0)::bigint FROM pg_stat_user_tables
        WHERE relname = 'tokens'";
    Ok(client.query_one(query, &[]).await?.get(0))
}

#[tokio::test]
async fn rows_that_can_never_be_sent_are_not_read_at_every_poll() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=100_000).await?;
    client.batch_execute("UPDATE tokens SET consumed_at = 1 WHERE id % 2 = 0").await?;
    client.batch_execute("UPDATE tokens SET expires_at = 1 WHERE id % 2 = 1").await?;
    client.batch_execute("VACUUM ANALYZE tokens").await?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    let lines = collector.lines()?;
    collector.wait_until_it_collects()?;
    lines.expect_none(Duration::from_secs(2))?;
    let scans = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'tokens_pkey'";
    let before = rows_read(&client).await?;
    let pages: i64 = client.query_one(scans, &[]).await?.get(0);
    assert!(pages < 200, "it read {pages} times");
    let polls = 10;
    lines.expect_none(Duration::from_millis(200 * polls))?;
    let read = rows_read(&client).await? - before;
    // A poll reads the last page again, and others were made while the counts were waited for.
    assert!(read < 100_000, "{read} rows were read");
    register(&client, 100_001..=100_001).await?;
    assert_eq!(lines.next_batch()?[0].login, "user100001");
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn draining_reads_every_row_about_once() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=30_000).await?;
    client.batch_execute("VACUUM ANALYZE tokens").await?;
    let before = rows_read(&client).await?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    assert_eq!(collector.lines()?.next_items(30_000)?.len(), 30_000);
    collector.stop()?;
    let read = rows_read(&client).await? - before;
    assert!((30_000..60_000).contains(&read), "{read} rows were read");
    Ok(())
}
