//! What programs read: `--json` of every command that has it, with members that stay.

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::KEY;
use mailroom_tests::postgres::Database;
use serde_json::{Value, json};

use super::{command, give_up, run, said};

/// The objects of an output, one a line.
fn objects(output: &str) -> Result<Vec<Value>> {
    output.lines().map(|line| serde_json::from_str(line).context(line.to_owned())).collect()
}

#[tokio::test]
async fn dead_letters_that_are_put_back_or_discarded_are_named() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, 3).await?;
    let said = run(&database, &["retry", "1", "99", "--json"])?;
    assert_eq!((said.code, said.errors.as_str()), (Some(1), ""));
    assert_eq!(
        objects(&said.output)?,
        [
            json!({ "token": 1, "outcome": "waits", "may_have_been_delivered": false }),
            json!({ "token": 99, "outcome": "no_dead_letter" }),
        ]
    );
    let said = run(&database, &["discard", "--json", "2", "1"])?;
    assert_eq!(said.code, Some(1));
    assert_eq!(
        objects(&said.output)?,
        [
            json!({ "token": 2, "outcome": "discarded" }),
            json!({ "token": 1, "outcome": "no_dead_letter" }),
        ]
    );
    let said = run(&database, &["discard", "--all-dead", "--json"])?.success()?;
    assert_eq!(objects(&said)?, [json!({ "token": 3, "outcome": "discarded" })]);
    assert_eq!(run(&database, &["retry", "--all-dead", "--json"])?.success()?, "");
    Ok(())
}

#[tokio::test]
async fn pruning_counts_what_it_has_deleted() -> Result<()> {
    let database = Database::migrated()?;
    let said = run(&database, &["prune", "--older-than", "30d", "--json"])?.success()?;
    let expected = json!({ "attempts": 0, "dead_letters": 0, "expired_tokens": 0 });
    assert_eq!(objects(&said)?, [expected]);
    Ok(())
}

#[test]
fn each_finding_of_a_check_is_an_object() -> Result<()> {
    let database = Database::migrated()?;
    let mut checking = command(database.url(), &["check", "--json"])?;
    checking.env("MAILROOM_SECRET_KEY", KEY);
    let output = said(checking)?.output;
    let findings = objects(&output)?;
    let names: Vec<_> = findings.iter().filter_map(|finding| finding["name"].as_str()).collect();
    for name in ["database", "schema", "rights", "key", "sender"] {
        ensure!(names.contains(&name), "{name} is not in {output}");
    }
    for finding in &findings {
        let level = finding["level"].as_str().unwrap_or_default();
        ensure!(["ok", "warning", "critical", "unknown", "skipped"].contains(&level), "{finding}");
        ensure!(finding["message"].as_str().is_some_and(|text| !text.is_empty()), "{finding}");
    }
    let sender = findings.iter().find(|finding| finding["name"] == "sender").context("sender")?;
    assert_eq!(sender["level"], "skipped");
    Ok(())
}

#[test]
fn a_configuration_that_is_not_there_is_one_finding() -> Result<()> {
    let database = Database::migrated()?;
    let mut checking = command(database.url(), &["check", "--config", "/nowhere/send.toml"])?;
    checking.env("MAILROOM_SECRET_KEY", KEY);
    let said = said(checking)?;
    let about: Vec<_> = said.output.lines().filter(|line| line.contains("/nowhere")).collect();
    assert_eq!((about.len(), said.code), (1, Some(2)), "{}", said.output);
    ensure!(about[0].contains("--config"), "{}", about[0]);
    Ok(())
}

#[tokio::test]
async fn actions_are_listed_with_what_v1_does_not_sign() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.batch_execute("UPDATE mailroom.installation SET token_format = 'v1'").await?;
    let said = run(&database, &["actions", "--json"])?.success()?;
    let actions = objects(&said)?;
    let of = |name: &str| actions.iter().find(|action| action["name"] == name).context("it is");
    assert_eq!(of("activate")?["is_signed"], true);
    assert_eq!(of("activate")?["path"], "/activate");
    assert_eq!(of("recover")?["code_digits"], 5);
    assert_eq!(of("invite")?["is_signed"], false);
    let said = run(&database, &["actions"])?.success()?;
    let line = said.lines().find(|line| line.contains("invite")).context("invite")?;
    ensure!(line.ends_with("v1 signs only activate and recover"), "{line}");
    client.batch_execute("UPDATE mailroom.installation SET token_format = 'v2'").await?;
    let said = run(&database, &["actions"])?.success()?;
    ensure!(!said.contains("waits"), "{said}");
    let failed = run(&Database::create()?, &["actions"])?;
    ensure!(failed.code == Some(1) && failed.errors.contains("migrate up"), "{}", failed.errors);
    Ok(())
}
