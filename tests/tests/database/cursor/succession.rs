//! One collector after the other: killed, waiting, taken over, set back.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::collector::{self, Collector, Lines, read_one_line, wait_until};
use mailroom_tests::machine::is_full;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{cursor, logins, register, wait_for};
use mailroom_tests::standstill::wait_until_stopped;
use rustix::io::ioctl_fionread;
use tokio_postgres::Client;

use super::{eager, wait_for_cursor};

pub(super) const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'mailroom collect' AND datname = current_database()";

#[tokio::test]
async fn killed_at_any_moment_it_loses_nothing_and_repeats_only_the_unrecorded() -> Result<()> {
    let tokens: i32 = if is_full() { 10_000 } else { 3_000 };
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=tokens).await?;
    // Dozens of kills take longer on a busy machine than the quarter of an hour that tokens live.
    client.batch_execute("UPDATE tokens SET expires_at = expires_at + 86400").await?;
    let mut times_sent: HashMap<String, u32> = HashMap::new();
    let (mut kills, mut interrupted) = (0, 0);
    while cursor(&client).await? < i64::from(tokens) {
        let recorded = cursor(&client).await?;
        let mut collector = Collector::start(&mut eager(&database)?)?;
        let mut output = collector.output()?;
        collector.wait_until_it_collects()?;
        // Another place of the work each time; of three kills one comes when a line was taken and
        // nobody takes another, so that it meets work, however slow the machine is.
        let mut items = Vec::new();
        if kills % 3 == 1 {
            items = collector::items(&read_one_line(&mut output)?)?;
            collector.kill()?;
            items.extend(Lines::of(output.into()).rest()?);
        } else {
            let lines = Lines::of(output.into());
            if kills % 3 == 2 {
                items = lines.next_batch()?;
            }
            sleep(Duration::from_millis(kills * 37 % 90));
            collector.kill()?;
            items.extend(lines.rest()?);
        }
        kills += 1;
        // What the killed process has asked for is done, or never will be: otherwise there may be
        // no line for the next one.
        wait_for(&client, SESSIONS, 0_i64).await?;
        let mut last = 0;
        for item in items {
            let number: i64 = item.login.trim_start_matches("user").parse()?;
            assert!(number > recorded, "{} was sent again although it was recorded", item.login);
            last = last.max(number);
            *times_sent.entry(item.login).or_default() += 1;
        }
        interrupted += u64::from(last > cursor(&client).await?);
        assert!(kills < 1_000, "it makes no progress");
    }
    let lost: Vec<_> =
        logins(1..=tokens).into_iter().filter(|login| !times_sent.contains_key(login)).collect();
    assert_eq!(lost, Vec::<String>::new());
    println!(
        "{kills} kills, {interrupted} with work in flight, {} tokens sent again",
        times_sent.values().sum::<u32>() - tokens.unsigned_abs()
    );
    assert!(kills > u64::from(tokens.unsigned_abs()) / 2_500, "only {kills} kills interrupted it");
    assert!(4 * interrupted >= kills, "only {interrupted} of {kills} kills met work in flight");
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
    // The first has written a line that nobody reads; then its session goes,
    // and the second is quicker.
    wait_until(|| ioctl_fionread(&first_output).is_ok_and(|unread| unread > 0))?;
    first.signal(rustix::process::Signal::STOP)?;
    wait_until_stopped(first.process())?;
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
    first.wait_for_log("moved the cursor; going on from there from=0 to=20", 1)
}

/// Ends the sessions of an application, as an administrator would.
async fn end_sessions(client: &Client, application: &str) -> Result<()> {
    let query = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
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
    let said = "was set back; the tokens after it go out again from=20 to=5";
    collector.wait_for_log(said, 1)
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
