//! What a claim costs the database, however many tokens there are.

use std::fs;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::Result;
use mailroom_tests::collector::{self, Collector, items};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::machine::is_full;
use mailroom_tests::memory;
use mailroom_tests::plan::blocks;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{register, wait_for};
use tempfile::NamedTempFile;
use tokio_postgres::Client;

use super::succession::SESSIONS;
use super::{eager, wait_for_cursor};

async fn rows_read(client: &Client) -> Result<i64> {
    // Sessions tell their counts at most once a second.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let query =
        "SELECT coalesce(sum(idx_tup_fetch + seq_tup_read), 0)::bigint FROM pg_stat_user_tables
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
    let began = Instant::now();
    let mut collector = Collector::start(&mut eager(&database)?)?;
    let lines = collector.lines()?;
    collector.wait_until_it_collects()?;
    lines.expect_none(Duration::from_secs(2))?;
    let scans = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'tokens_pkey'";
    let before = rows_read(&client).await?;
    let pages: i64 = client.query_one(scans, &[]).await?.get(0);
    // It polls five times a second, however long this takes.
    let polls = |since: Instant| i64::try_from(since.elapsed().as_millis() / 200);
    let most = 150 + 3 * polls(began)?;
    assert!(pages < most, "it read {pages} times, not {most}");
    let counted = Instant::now();
    lines.expect_none(Duration::from_secs(2))?;
    let read = rows_read(&client).await? - before;
    // A poll reads the last page again, and others were made while the counts were waited for.
    let most = 5_000 * (8 + polls(counted)?);
    assert!(read < most, "{read} rows were read, not {most}");
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
    // A poll reads a page again, and lines that wait for a second for a reader, or for a disk, are
    // taken back and their rows read again: how often depends on how busy the machine is.
    let output =
        memory::folder_with(1 << 30).map_or_else(NamedTempFile::new, NamedTempFile::new_in)?;
    let mut command = collector::on_base_schema(database.url())?;
    command.args(["--batch-timeout", "0", "--poll-interval", "1h"]);
    let collector = Collector::start_writing_to(&mut command, output.reopen()?)?;
    wait_for_cursor(&client, 30_000).await?;
    collector.stop()?;
    // A session has told its counts when it is gone.
    wait_for(&client, SESSIONS, 0_i64).await?;
    let read = rows_read(&client).await? - before;
    let written = fs::read_to_string(&output)?;
    let lines = written.split_inclusive('\n').map(items).collect::<Result<Vec<_>>>()?;
    assert_eq!(lines.iter().map(Vec::len).sum::<usize>(), 30_000);
    assert!((30_000..60_000).contains(&read), "{read} rows were read");
    Ok(())
}

/// Makes accounts with a waiting token each, quickly: without the triggers, which would make the
/// tokens one by one.
async fn register_many(client: &Client, count: i32) -> Result<()> {
    client.batch_execute("SET session_replication_role = replica").await?;
    client.accounts(numbered("", 1..=count)).at("b.test").insert().await?;
    client
        .batch_execute(&format!(
            "INSERT INTO tokens (action, account) SELECT 'activation', n
                FROM generate_series(1, {count}) AS n;
            SET session_replication_role = origin"
        ))
        .await?;
    Ok(())
}

/// How the queue reads some tokens on its way.
fn page(ids: RangeInclusive<i32>) -> String {
    let (after, count) = (ids.start() - 1, ids.count());
    format!("EXECUTE claim ({after}, {count}, '{{}}', '{{}}')")
}

/// How it reads deferred tokens.
fn deferred(ids: RangeInclusive<i32>) -> String {
    let ids: Vec<_> = ids.map(|id| id.to_string()).collect();
    format!("EXECUTE claim (0, 0, '{{{}}}', '{{}}')", ids.join(","))
}

/// How a new collector reads backwards from the cursor.
fn skipped_page(ids: RangeInclusive<i32>) -> String {
    let (end, count) = (*ids.end(), ids.count());
    format!("EXECUTE recover_skipped ({end}, {count}, {end}, 66, 61)")
}

#[tokio::test]
async fn the_last_waiting_token_costs_a_claim_no_more_blocks_than_the_first() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let tokens = if is_full() { 1_000_000 } else { 100_000 };
    register_many(&client, tokens).await?;
    client.batch_execute(include_str!("../../../../collector/src/session_settings.sql")).await?;
    let claim = include_str!("../../../../collector/src/queue/cursor/claim.sql");
    let recover_skipped =
        include_str!("../../../../collector/src/queue/cursor/recover_skipped.sql");
    client
        .batch_execute(&format!(
            "PREPARE claim (bigint, bigint, bigint[], text[]) AS {claim};
             PREPARE recover_skipped (bigint, bigint, bigint, bigint, bigint) AS {recover_skipped};"
        ))
        .await?;
    // Nobody has counted the rows at first, as after a large registration.
    for statistics in ["none", "fresh"] {
        if statistics == "fresh" {
            client.batch_execute("VACUUM ANALYZE tokens, accounts").await?;
        }
        for (what, call) in [
            ("a page", page as fn(RangeInclusive<i32>) -> String),
            ("deferred rows", deferred),
            ("a page before the cursor", skipped_page),
        ] {
            let first = blocks(&client, &call(1..=100)).await?;
            let last = blocks(&client, &call(tokens - 99..=tokens)).await?;
            println!(
                "{what}, statistics {statistics}: {first} blocks at the start, {last} at the end"
            );
            // A row costs its index's depth and itself, in both tables.
            assert!((100..1_500).contains(&first), "{what}: {first} blocks for 100 rows");
            assert!(last <= first + first / 4 + 20, "{what}: {last} blocks instead of {first}");
        }
    }
    Ok(())
}
