//! What the reader has and the cursor passes.

use std::io::Read;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::collector::{self, Collector, read_one_line};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::rows::{cursor, logins, register, wait_for};

use super::{eager, wait_for_cursor};

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
async fn a_batch_without_a_line_behind_a_full_pipe_does_not_carry_the_cursor_over_it() -> Result<()>
{
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=4_000).await?;
    let spoil = "UPDATE accounts SET login = login || ',' WHERE id BETWEEN 2001 AND 3000";
    assert_eq!(client.execute(spoil, &[]).await?, 1_000);
    let mut command = eager(&database)?;
    let mut collector =
        Collector::start(command.args(["--batch-limit", "1000", "--log-level", "debug"]))?;
    // Nobody reads: the first line fills the pipe,
    // and the second and fourth are cancelled after a second.
    collector.wait_for_log("were cancelled", 1)?;
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
    // A server of its own: those who listen to other databases keep notifications, too.
    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.load_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=5_000).await?;
    let mut collector = Collector::start(eager(&database)?.args(["--batch-limit", "1000"]))?;
    // Nobody reads: the first line does not fit into the pipe.
    collector.wait_for_log("listening on", 1)?;
    // Far more than the sockets' buffers hold; the server keeps what a listener does not read.
    let notify = "SELECT pg_notify('token_insert', repeat('x', 7900) || number) \
                  FROM generate_series(1, 2000) AS number";
    client.execute(notify, &[]).await?;
    wait_for(&client, "SELECT pg_notification_queue_usage() = 0", true).await?;
    assert_eq!(collector.lines()?.next_items(5_000)?.len(), 5_000);
    collector.stop()?;
    Ok(())
}
