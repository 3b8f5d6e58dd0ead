//! Neighbouring versions: what is promised of them in docs/operate/upgrade.md. Nothing is released,
//! so the neighbours are made of this version.

use std::process::Output;
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::neighbours::upgrade;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rows::{register, wait_for};

/// `mailroom` with some arguments, for a database.
fn run(database: &Database, arguments: &[&str]) -> Result<(Output, String)> {
    let mut command = program::mailroom()?;
    command.args(arguments).env("MAILROOM_DATABASE_URL", database.url());
    let output = command.output()?;
    let said = [&output.stdout[..], &output.stderr].concat();
    Ok((output, String::from_utf8(said)?))
}

#[tokio::test]
async fn a_collector_works_on_the_schema_of_the_next_version() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut command = collector::command(database.url())?;
    command.args(["--batch-timeout", "0"]);
    let mut before = Collector::start(&mut command)?;
    let lines = before.lines()?;
    register(&client, 1..=3).await?;
    assert_eq!(lines.next_items(3)?.len(), 3);
    upgrade(&client).await?;
    // One that ran before goes on, and so does one that is started again.
    register(&client, 4..=6).await?;
    assert_eq!(lines.next_items(3)?.len(), 3);
    before.stop()?;
    let mut after = Collector::start(&mut command)?;
    let lines = after.lines()?;
    register(&client, 7..=9).await?;
    assert_eq!(lines.next_items(3)?.len(), 3);
    let log = after.stop()?;
    assert!(!log.contains("outage") && !log.contains("preflight_warning"), "{log}");
    let sent = "SELECT count(*) FROM mailroom.deliveries WHERE state = 'sent'";
    wait_for(&client, sent, 9_i64).await
}

#[tokio::test]
async fn commands_work_on_the_schema_of_the_next_version_and_none_migrates_it() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=3).await?;
    upgrade(&client).await?;
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["status", "--runs"],
        &["trace", "user1@example.test"],
        &["suppress", "add", "user1@example.test"],
        &["suppress", "list"],
        &["dead"],
        &["actions"],
        &["prune", "--older-than", "30d"],
        &["subject", "export", "1"],
        &["migrate", "status"],
    ] {
        let (output, said) = run(&database, arguments)?;
        assert!(output.status.success(), "{arguments:?} ends with {}: {said}", output.status);
    }
    let (_, said) = run(&database, &["migrate", "status"])?;
    assert!(said.contains("version 5, which is newer than this mailroom"), "{said}");
    for way in [&["migrate", "up"][..], &["migrate", "down", "--yes"]] {
        let (output, said) = run(&database, way)?;
        assert_eq!(output.status.code(), Some(1), "{way:?}: {said}");
        assert!(said.contains("Either a newer mailroom migrated it: use that one"), "{said}");
    }
    let version = "SELECT version FROM schema_migrations";
    wait_for(&client, version, 5_i64).await
}

/// As a release would that adds an argument: this program on a schema that does not have it yet.
#[tokio::test]
async fn a_collector_waits_for_the_schema_that_it_needs_and_then_begins() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let definition: String = client
        .query_one(
            "SELECT pg_get_functiondef(oid) FROM pg_proc
            WHERE oid = 'mailroom.heartbeat'::regproc",
            &[],
        )
        .await?
        .get(0);
    let last = ", counts text DEFAULT NULL::text";
    let before = definition.replace(last, "").replace("heartbeat.counts", "NULL::text");
    assert!(definition.contains(last) && definition != before, "{definition}");
    client
        .batch_execute(&format!("BEGIN; DROP FUNCTION mailroom.heartbeat; {before}; COMMIT"))
        .await?;
    register(&client, 1..=3).await?;
    let mut collector =
        Collector::start(collector::command(database.url())?.args(["--batch-timeout", "0"]))?;
    let lines = collector.lines()?;
    collector.wait_for_log("run `mailroom migrate up`", 1)?;
    lines.expect_none(Duration::from_secs(2))?;
    client
        .batch_execute(&format!("BEGIN; DROP FUNCTION mailroom.heartbeat; {definition}; COMMIT"))
        .await?;
    // It is not started again.
    assert_eq!(lines.next_items(3)?.len(), 3);
    collector.stop()?;
    Ok(())
}
