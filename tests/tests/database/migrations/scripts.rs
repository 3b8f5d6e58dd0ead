//! `migrate up --dry-run` and `migrate sql`: the statements, for people who read or run them.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use serde_json::Value;

use super::schema::description;
use super::{run, succeed};

const WITHOUT: &str = "--without-accounts";

/// What `mailroom migrate sql` prints, without a database.
fn sql(arguments: &[&str]) -> Result<String> {
    let output = program::mailroom()?.args(["migrate", "sql"]).args(arguments).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Executes a script as another tool does.
fn execute(database: &Database, script: &str) -> Result<()> {
    let mut psql = Command::new("psql");
    psql.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]).arg(database.url());
    let mut psql =
        psql.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut input = psql.stdin.take().context("a pipe")?;
    std::io::Write::write_all(&mut input, script.as_bytes())?;
    drop(input);
    let output = psql.wait_with_output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[tokio::test]
async fn another_tool_makes_the_same_schema_from_the_printed_statements() -> Result<()> {
    for kind in [WITHOUT, "--with-accounts"] {
        let [by_mailroom, by_psql] = [Database::create()?, Database::create()?];
        succeed(&by_mailroom, &["up", kind])?;
        execute(&by_psql, &sql(&[kind])?)?;
        let expected = description(&by_mailroom.connect().await?).await?;
        let found = description(&by_psql.connect().await?).await?;
        assert_eq!(found, expected, "{kind}");
        assert_eq!(succeed(&by_psql, &["up", kind])?.trim(), "no migration is missing");
        let format = "SELECT token_format FROM mailroom.installation";
        let [one, other] = [by_mailroom.connect().await?, by_psql.connect().await?];
        let one: String = one.query_one(format, &[]).await?.get(0);
        let other: String = other.query_one(format, &[]).await?.get(0);
        assert_eq!(one, other, "{kind}");
    }
    Ok(())
}

#[tokio::test]
async fn the_way_back_leaves_nothing_and_another_schema_is_named_throughout() -> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    execute(&database, &sql(&[WITHOUT, "--schema", "post"])?)?;
    let there = "SELECT count(*) FROM pg_namespace WHERE nspname IN ('post', 'mailroom')";
    assert_eq!(client.query_one(there, &[]).await?.get::<_, i64>(0), 1);
    client
        .batch_execute("SELECT post.enqueue('invite', 'a@example.test', subject_id => '7')")
        .await?;
    let back = sql(&["1", "--down", "--schema", "post"])?;
    ensure!(back.starts_with("-- 1_create_mailroom.down.sql\n"), "{back}");
    Ok(())
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would_be_executed() -> Result<()> {
    let database = Database::create()?;
    let said = succeed(&database, &["up", WITHOUT, "--dry-run"])?;
    assert_eq!(said, "would execute 1_create_mailroom.up.sql\n");
    let status: Value = serde_json::from_str(&succeed(&database, &["status", "--json"])?)?;
    assert_eq!(status["migrations"][0]["state"], "pending", "{status}");
    let shown = succeed(&database, &["up", WITHOUT, "--dry-run", "--show-sql"])?;
    ensure!(shown.contains("CREATE SCHEMA mailroom"), "{shown}");
    execute(&database, &shown)?;

    let database = Database::create()?;
    succeed(&database, &["up", "--with-accounts"])?;
    let said = succeed(&database, &["up", "--dry-run"])?;
    assert_eq!(said, "no migration is missing\n");
    let status: Value = serde_json::from_str(&succeed(&database, &["status", "--json"])?)?;
    assert_eq!(status["migrations"][0]["name"], "create_base_schema", "{status}");
    assert_eq!(status["migrations"][0]["state"], "applied", "{status}");
    Ok(())
}

#[test]
fn wrong_calls_are_refused() -> Result<()> {
    let database = Database::create()?;
    for arguments in [
        &["up", "--show-sql"][..],
        &["up", "--dry-run", "--baseline", "0"],
        &["sql"],
        &["sql", "99"],
        &["sql", "x"],
        &["sql", "3", WITHOUT],
        &["sql", WITHOUT, "--with-accounts"],
    ] {
        let outcome = run(&database, arguments)?;
        ensure!(outcome.code == Some(2), "{arguments:?}: {outcome:?}");
        ensure!(outcome.stderr.starts_with("mailroom: "), "{arguments:?}: {outcome:?}");
    }
    Ok(())
}
