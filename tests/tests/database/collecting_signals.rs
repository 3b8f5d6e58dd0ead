//! Signals that stop a collector or make it read its keys again.

use std::fs;
use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use mailroom_tests::collector::{self, Collector, KEY, Lines};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rows::{cursor, register};
use rustix::process::Signal;

const OTHER_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn eager(database: &Database) -> Result<Command> {
    let mut command = collector::on_base_schema(database.url())?;
    command.args(["--batch-timeout", "0"]);
    Ok(command)
}

#[tokio::test]
async fn a_first_signal_lets_the_reader_finish_and_records_what_it_took() -> Result<()> {
    for signal in [Signal::TERM, Signal::INT] {
        let database = Database::with_base_schema()?;
        let client = database.connect().await?;
        register(&client, 1..=10_000).await?;
        let mut collector = Collector::start(&mut eager(&database)?)?;
        let lines = collector.lines()?;
        lines.next_items(500)?;
        collector.signal(signal)?;
        let sent = 500 + lines.rest()?.len();
        let (status, log) = collector.wait()?;
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(log.contains("finishing what is on its way"), "{log}");
        assert_eq!(usize::try_from(cursor(&client).await?)?, sent);
    }
    Ok(())
}

#[tokio::test]
async fn a_reader_that_takes_nothing_does_not_keep_it_from_ending() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=100).await?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    let mut output = collector.output()?;
    output.read_exact(&mut [0])?;
    let start = Instant::now();
    collector.signal(Signal::TERM)?;
    let (status, log) = collector.wait()?;
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("the reader has not taken"), "{log}");
    assert!(start.elapsed() > Duration::from_secs(3), "it did not wait for the reader");
    assert_eq!(cursor(&client).await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=100).await?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    let mut output = collector.output()?;
    output.read_exact(&mut [0])?;
    collector.signal(Signal::TERM)?;
    collector.wait_for_log("a second signal ends at once", 1)?;
    collector.signal(Signal::TERM)?;
    let (status, log) = collector.wait()?;
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(!log.contains("their tokens go out again"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_signal_ends_it_while_the_database_is_away() -> Result<()> {
    let collector = Collector::start(&mut collector::on_base_schema(
        "postgresql://postgres@127.0.0.1:1/nowhere",
    )?)?;
    collector.wait_for_log("not collecting", 1)?;
    let log = collector.stop()?;
    assert!(!log.contains("goes out again"), "{log}");
    Ok(())
}

/// Whether `key` signed a token, by `mailroom verify`.
fn is_signed_by(token: &str, key: &str) -> Result<bool> {
    let mut command = program::mailroom()?;
    command.args(["verify", "--action", "activate", "--", token]).env("MAILROOM_SECRET_KEY", key);
    Ok(command.output()?.status.success())
}

fn next_token(lines: &Lines, login: &str) -> Result<String> {
    let batch = lines.next_batch()?;
    assert_eq!(batch[0].login, login);
    Ok(batch[0].token.clone())
}

#[tokio::test]
async fn sighup_reads_the_key_file_again_and_keeps_the_keys_if_it_is_bad() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("keys");
    fs::write(&file, format!("{KEY}\n"))?;
    let mut command = eager(&database)?;
    command.env_remove("MAILROOM_SECRET_KEY").env("MAILROOM_KEY_FILE", &file);
    let mut collector = Collector::start(&mut command)?;
    let lines = collector.lines()?;
    collector.wait_for_log("listening on", 1)?;

    register(&client, 1..=1).await?;
    assert!(is_signed_by(&next_token(&lines, "user1")?, KEY)?);

    fs::write(&file, format!("# since today\n{OTHER_KEY}\n{KEY}\n"))?;
    collector.signal(Signal::HUP)?;
    collector.wait_for_log("the first one signs from now on count=2", 1)?;
    register(&client, 2..=2).await?;
    assert!(is_signed_by(&next_token(&lines, "user2")?, OTHER_KEY)?);

    fs::write(&file, &KEY[1..])?;
    collector.signal(Signal::HUP)?;
    collector.wait_for_log("the keys in use stay", 1)?;
    register(&client, 3..=3).await?;
    assert!(is_signed_by(&next_token(&lines, "user3")?, OTHER_KEY)?);

    let log = collector.stop()?;
    assert!(log.contains("line 1 of the key file"), "{log}");
    assert!(!log.contains(&KEY[1..]) && !log.contains(OTHER_KEY), "{log}");
    Ok(())
}

#[tokio::test]
async fn sighup_with_a_key_of_the_environment_says_that_there_is_nothing_to_read() -> Result<()> {
    let database = Database::with_base_schema()?;
    let collector = Collector::start(&mut eager(&database)?)?;
    collector.wait_until_it_collects()?;
    collector.signal(Signal::HUP)?;
    collector.wait_for_log("nothing to read again", 1)?;
    collector.stop()?;
    Ok(())
}
