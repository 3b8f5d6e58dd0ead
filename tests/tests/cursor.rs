//! The cursor queue: what moves the cursor, what does not, and who may.

use std::collections::HashMap;
use std::io::Read;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::collector::{self, Collector, Lines, read_one_line};
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{cursor, logins, register};
use tokio_postgres::Client;

/// A collector that sends what there is at once and looks again five times a second.
fn eager(database: &Database) -> Result<Command> {
    let mut command = collector::command(database.url())?;
    command.args(["--batch-timeout", "0", "--poll-interval", "200ms"]);
    Ok(command)
}

async fn wait_for_cursor(client: &Client, wanted: i64) -> Result<()> {
    for _ in 0..3_000 {
        if cursor(client).await? == wanted {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the cursor is at {} instead of {wanted}", cursor(client).await?);
}

#[tokio::test]
async fn the_cursor_moves_only_when_the_reader_has_the_whole_line() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=30).await?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    let mut output = collector.output()?;
    // The lines are in the pipe by the time that a part of the first is read.
    let mut first = [0; 100];
    output.read_exact(&mut first)?;
    sleep(Duration::from_millis(500));
    assert_eq!(cursor(&client).await?, 0);
    read_one_line(&mut output)?;
    wait_for_cursor(&client, 10).await?;
    read_one_line(&mut output)?;
    wait_for_cursor(&client, 20).await?;
    collector.signal(rustix::process::Signal::TERM)?;
    read_one_line(&mut output)?;
    assert!(collector.wait()?.0.success());
    assert_eq!(cursor(&client).await?, 30);
    Ok(())
}

#[tokio::test]
async fn a_reader_that_closes_after_one_line_leaves_the_cursor_exactly_behind_it() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=10_000).await?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    let mut output = collector.output()?;
    let line = read_one_line(&mut output)?;
    assert_eq!(collector::items(&line)?.len(), 10);
    drop(output);
    let (status, log) = collector.wait()?;
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("the reader of standard output is gone"), "{log}");
    assert_eq!(cursor(&client).await?, 10);
    Ok(())
}

#[tokio::test]
async fn a_batch_without_a_line_behind_a_full_pipe_does_not_carry_the_cursor_over_it() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=4_000).await?;
    let spoil = "UPDATE accounts SET login = login || ',' WHERE id BETWEEN 2001 AND 3000";
    assert_eq!(client.execute(spoil, &[]).await?, 1_000);
    let mut command = eager(&database)?;
    let mut collector = Collector::start(command.args(["--batch-limit", "1000", "--log-level", "debug"]))?;
    // Nobody reads: the first line does not fit into the pipe, and the second is taken back after a second.
    collector.wait_for_log("taken back", 1)?;
    sleep(Duration::from_secs(2));
    let lines = collector.lines()?;
    wait_for_cursor(&client, 4_000).await?;
    collector.stop()?;
    let mut sent: Vec<_> = lines.rest()?.into_iter().map(|item| item.login).collect();
    sent.sort_unstable();
    sent.dedup();
    let mut expected = [logins(1..=2_000), logins(3_001..=4_000)].concat();
    expected.sort_unstable();
    assert_eq!(sent, expected);
    Ok(())
}

#[tokio::test]
async fn an_idle_collector_ends_when_its_reader_goes_away() -> Result<()> {
    let database = Database::with_base_schema()?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    let output = collector.output()?;
    collector.wait_until_it_collects()?;
    drop(output);
    let (status, log) = collector.wait()?;
    assert_eq!(status.code(), Some(1), "{log}");
    Ok(())
}

#[tokio::test]
async fn notifications_are_read_while_the_output_is_blocked() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=5_000).await?;
    let mut collector = Collector::start(eager(&database)?.args(["--batch-limit", "1000"]))?;
    // Nobody reads: the first line does not fit into the pipe.
    collector.wait_for_log("listening on", 1)?;
    // Far more than the sockets' buffers hold; the server keeps what a listener does not read.
    let notify = "SELECT pg_notify('token_insert', repeat('x', 7900) || number) FROM generate_series(1, 2000) AS number";
    client.execute(notify, &[]).await?;
    let mut is_empty = false;
    for _ in 0..500 {
        is_empty = client.query_one("SELECT pg_notification_queue_usage() = 0", &[]).await?.get(0);
        if is_empty {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(is_empty, "the server still keeps notifications");
    assert_eq!(collector.lines()?.next_items(5_000)?.len(), 5_000);
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn tokens_that_were_used_while_the_reader_slept_are_not_sent() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=20_000).await?;
    let mut collector = Collector::start(eager(&database)?.args(["--log-level", "debug"]))?;
    // A fast reader gets much at a time. When it stops, most of that finds no room in the pipe.
    let mut output = collector.output()?;
    for _ in 0..1_000 {
        read_one_line(&mut output)?;
    }
    collector.wait_for_log("taken back", 1)?;
    let in_the_pipe = cursor(&client).await? + 1_000;
    client
        .execute("UPDATE tokens SET consumed_at = 1 WHERE id BETWEEN $1 AND 19990", &[&in_the_pipe])
        .await?;
    let lines = Lines::of(output.into());
    let mut seen = Vec::new();
    while !seen.contains(&"user20000".to_owned()) {
        seen.extend(lines.next_batch()?.into_iter().map(|item| item.login));
    }
    let last = i32::try_from(in_the_pipe)? - 1;
    assert_eq!(seen, [logins(10_001..=last), logins(19_991..=20_000)].concat());
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn only_eligible_tokens_are_sent() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=8).await?;
    client
        .batch_execute(
            "UPDATE tokens SET expires_at = extract(epoch FROM now()) - 1 WHERE id = 1;
             UPDATE tokens SET consumed_at = 1 WHERE id = 2;
             UPDATE accounts SET status = 'suspended' WHERE login = 'user3';
             UPDATE accounts SET status = 'active' WHERE login = 'user4';
             UPDATE accounts SET status = 'active' WHERE login = 'user5';
             INSERT INTO tokens (account, action) SELECT id, 'password_recovery' FROM accounts WHERE id IN (3, 4, 5, 6);",
        )
        .await?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    let items = collector.lines()?.next_items(5)?;
    let sent: Vec<_> = items.iter().map(|item| format!("{} {}", item.action, item.login)).collect();
    // Activations of 1 to 5 are expired, used or not for this status; so are recoveries of 3 and 6.
    assert_eq!(sent, ["1 user6", "1 user7", "1 user8", "2 user4", "2 user5"]);
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_token_goes_out_when_its_account_gets_the_right_status_again() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=3).await?;
    client
        .batch_execute("UPDATE accounts SET status = 'suspended' WHERE login IN ('user1', 'user3')")
        .await?;
    // Long enough for what was read to grow stale before it goes out.
    let mut command = collector::command(database.url())?;
    command.args(["--batch-timeout", "1500", "--poll-interval", "200ms"]);
    let mut collector = Collector::start(&mut command)?;
    let lines = collector.lines()?;
    assert_eq!(lines.next_batch()?[0].login, "user2");
    // user1 lies before the cursor by now, user3 behind it. Neither was ever activated, so both return to provisioned.
    wait_for_cursor(&client, 2).await?;
    client.batch_execute("UPDATE accounts SET status = 'active' WHERE login = 'user1'").await?;
    assert_eq!(lines.next_batch()?[0].login, "user1");
    client.batch_execute("UPDATE accounts SET status = 'active' WHERE login = 'user3'").await?;
    assert_eq!(lines.next_batch()?[0].login, "user3");
    lines.expect_none(Duration::from_secs(2))?;
    collector.stop()?;
    assert_eq!(cursor(&client).await?, 3);
    Ok(())
}

#[tokio::test]
async fn a_new_collector_sends_what_an_earlier_one_left_to_accounts_that_change() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=5).await?;
    client
        .batch_execute(
            "UPDATE accounts SET status = 'suspended' WHERE id IN (1, 2, 3, 4);
             UPDATE tokens SET expires_at = 1 WHERE id = 3;
             UPDATE tokens SET consumed_at = 1 WHERE id = 4;",
        )
        .await?;
    let mut first = Collector::start(&mut eager(&database)?)?;
    assert_eq!(first.lines()?.next_batch()?[0].login, "user5");
    wait_for_cursor(&client, 5).await?;
    first.kill()?;
    // None of them was ever activated, so they return to provisioned: one while nobody collects, one later.
    client.batch_execute("UPDATE accounts SET status = 'active' WHERE id IN (1, 3, 4)").await?;
    let mut second = Collector::start(&mut eager(&database)?)?;
    let lines = second.lines()?;
    assert_eq!(lines.next_batch()?[0].login, "user1");
    client.batch_execute("UPDATE accounts SET status = 'active' WHERE id = 2").await?;
    assert_eq!(lines.next_batch()?[0].login, "user2");
    lines.expect_none(Duration::from_secs(1))?;
    second.stop()?;
    assert_eq!(cursor(&client).await?, 5);
    Ok(())
}

#[tokio::test]
async fn a_token_committed_late_is_found_while_nothing_behind_it_was_sent() -> Result<()> {
    let database = Database::with_base_schema()?;
    let mut slow = database.connect().await?;
    let client = database.connect().await?;
    let transaction = slow.transaction().await?;
    transaction.execute("INSERT INTO accounts (email, login) VALUES ('late', 'late')", &[]).await?;
    register(&client, 1..=1).await?;
    client.batch_execute("UPDATE tokens SET consumed_at = 1").await?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    let lines = collector.lines()?;
    collector.wait_until_it_collects()?;
    lines.expect_none(Duration::from_secs(1))?;
    transaction.commit().await?;
    assert_eq!(lines.next_batch()?[0].login, "late");
    collector.stop()?;
    Ok(())
}

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

/// Makes accounts with used tokens, quickly: without triggers, which would consume them one by one.
async fn register_used(client: &Client, count: i32) -> Result<()> {
    let statements = format!(
        "SET session_replication_role = replica;
         INSERT INTO accounts (id, email, login, status)
             SELECT n, n || '@used.test', 'used' || n, 'active' FROM generate_series(1, {count}) AS n;
         INSERT INTO tokens (action, account, consumed_at, expires_at)
             SELECT 'activation', n, 1, 1 FROM generate_series(1, {count}) AS n;
         SELECT setval('accounts_id_seq', {count});
         SET session_replication_role = origin;
         VACUUM ANALYZE tokens;"
    );
    for statement in statements.split_inclusive(';') {
        client.batch_execute(statement).await?;
    }
    Ok(())
}

/// Rows of `tokens` that a collector reads from its start until `count` tokens behind a cursor are sent.
async fn rows_read_for(database: &Database, client: &Client, count: usize) -> Result<i64> {
    let before = rows_read(client).await?;
    let mut command = collector::command(database.url())?;
    command.args(["--batch-timeout", "0", "--poll-interval", "1h", "--healthcheck-interval", "1h"]);
    let mut collector = Collector::start(&mut command)?;
    assert_eq!(collector.lines()?.next_items(count)?.len(), count);
    collector.stop()?;
    Ok(rows_read(client).await? - before)
}

#[tokio::test]
async fn the_last_waiting_token_of_a_large_table_costs_as_little_as_the_first() -> Result<()> {
    const USED: i32 = 250_000;
    let small = Database::with_base_schema()?;
    let client = small.connect().await?;
    register(&client, 1..=100).await?;
    let first = rows_read_for(&small, &client, 100).await?;

    let large = Database::with_base_schema()?;
    let client = large.connect().await?;
    register_used(&client, USED).await?;
    client.execute("UPDATE jobs SET last_seq = $1", &[&i64::from(USED)]).await?;
    register(&client, 1..=100).await?;
    let last = rows_read_for(&large, &client, 100).await?;
    println!("{first} rows were read for the first tokens, {last} for the last");
    // The look back at the start is bounded, too; without bounds all 250,000 rows would be read.
    assert!(last <= first + 60_000, "{last} rows instead of {first}");
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

#[tokio::test]
async fn killed_at_any_moment_it_loses_nothing_and_repeats_only_what_was_not_recorded() -> Result<()> {
    const TOKENS: i32 = 10_000;
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=TOKENS).await?;
    let mut times_sent: HashMap<String, u32> = HashMap::new();
    let mut kills = 0;
    while cursor(&client).await? < i64::from(TOKENS) {
        let recorded = cursor(&client).await?;
        let mut collector = Collector::start(&mut eager(&database)?)?;
        let lines = collector.lines()?;
        collector.wait_until_it_collects()?;
        // Another place of the work each time.
        sleep(Duration::from_millis(20 + kills * 37 % 90));
        collector.kill()?;
        kills += 1;
        for item in lines.rest()? {
            let number: i64 = item.login.trim_start_matches("user").parse()?;
            assert!(number > recorded, "{} was sent again although it was recorded", item.login);
            *times_sent.entry(item.login).or_default() += 1;
        }
        assert!(kills < 1_000, "it makes no progress");
    }
    let lost: Vec<_> =
        logins(1..=TOKENS).into_iter().filter(|login| !times_sent.contains_key(login)).collect();
    assert_eq!(lost, Vec::<String>::new());
    println!("{kills} kills, {} tokens sent again", times_sent.values().sum::<u32>() - TOKENS.unsigned_abs());
    assert!(kills > 3, "only {kills} kills interrupted it");
    Ok(())
}

#[tokio::test]
async fn a_second_collector_waits_and_takes_over_when_the_first_dies() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let mut first = Collector::start(&mut eager(&database)?)?;
    let first_lines = first.lines()?;
    first.wait_until_it_collects()?;
    let mut second = Collector::start(&mut eager(&database)?)?;
    let second_lines = second.lines()?;
    second.wait_for_log("another collector has the queue `mailroom`", 1)?;
    register(&client, 1..=10).await?;
    assert_eq!(first_lines.next_items(10)?.len(), 10);
    wait_for_cursor(&client, 10).await?;
    second_lines.expect_none(Duration::from_secs(2))?;
    first.kill()?;
    register(&client, 11..=20).await?;
    let items: Vec<_> = second_lines.next_items(10)?.into_iter().map(|item| item.login).collect();
    assert_eq!(items, logins(11..=20));
    let log = second.stop()?;
    assert_eq!(log.matches("another collector has the queue").count(), 1, "{log}");
    Ok(())
}

#[tokio::test]
async fn a_collector_whose_session_was_taken_over_does_not_move_the_cursor() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=10).await?;
    let mut first = Collector::start(&mut eager(&database)?)?;
    let mut first_output = first.output()?;
    first.wait_until_it_collects()?;
    let mut second = Collector::start(&mut eager(&database)?)?;
    let second_lines = second.lines()?;
    second.wait_for_log("another collector", 1)?;
    // The first has written a line that nobody reads; then its session goes, and the second is quicker.
    first.signal(rustix::process::Signal::STOP)?;
    end_sessions(&client, "mailroom collect").await?;
    assert_eq!(second_lines.next_items(10)?.len(), 10);
    wait_for_cursor(&client, 10).await?;
    register(&client, 11..=20).await?;
    assert_eq!(second_lines.next_items(10)?.len(), 10);
    wait_for_cursor(&client, 20).await?;
    first.signal(rustix::process::Signal::CONT)?;
    read_one_line(&mut first_output)?;
    first.wait_for_log("another collector has the queue", 1)?;
    assert_eq!(cursor(&client).await?, 20);
    second.stop()?;
    register(&client, 21..=30).await?;
    let line = read_one_line(&mut first_output)?;
    assert_eq!(collector::items(&line)?[0].login, "user21");
    wait_for_cursor(&client, 30).await?;
    assert!(first.log().contains("moved the cursor from 0 to 20"), "{}", first.log());
    Ok(())
}

/// Ends the sessions of an application, as an administrator would.
async fn end_sessions(client: &Client, application: &str) -> Result<()> {
    let query = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE application_name = $1 AND datname = current_database()
            AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')";
    let ended = client.query(query, &[&application]).await?;
    assert_eq!(ended.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_cursor_that_was_set_by_hand_is_followed() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=20).await?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    let lines = collector.lines()?;
    assert_eq!(lines.next_items(20)?.len(), 20);
    wait_for_cursor(&client, 20).await?;
    client.batch_execute("UPDATE jobs SET last_seq = 5").await?;
    // It is noticed at the latest when the cursor is to move.
    register(&client, 21..=21).await?;
    let mut seen = Vec::new();
    while seen.len() < 17 {
        seen.extend(lines.next_batch()?.into_iter().map(|item| item.login));
    }
    assert_eq!(seen[0], "user21");
    assert_eq!(seen[1..], logins(6..=21));
    wait_for_cursor(&client, 21).await?;
    assert!(collector.log().contains("was set back from 20 to 5"), "{}", collector.log());
    Ok(())
}

#[tokio::test]
async fn a_cursor_that_is_null_stands_at_the_beginning() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    client.batch_execute("UPDATE jobs SET last_seq = NULL").await?;
    register(&client, 1..=3).await?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    assert_eq!(collector.lines()?.next_items(3)?.len(), 3);
    wait_for_cursor(&client, 3).await?;
    Ok(())
}
