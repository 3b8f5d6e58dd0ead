//! What a collector logs: fields that a program can read, and nothing twice in an outage.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::collector::{self, Collector, KEY};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::register;
use mailroom_tests::tools::workspace;
use serde_json::{Value, json};

const SECRETS: [&str; 4] = [
    "MAILROOM_DATABASE_URL",
    "MAILROOM_DATABASE_PASSWORD_COMMAND",
    "MAILROOM_SECRET_KEY",
    "MAILROOM_SIGNING_KEY",
];

/// The lines of a log in JSON that have this event.
fn events(log: &str, event: &str) -> Result<Vec<Value>> {
    let mut events = Vec::new();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
        anyhow::ensure!(line["event"].is_string(), "a line without an event: {line}");
        if line["event"] == event {
            events.push(line);
        }
    }
    Ok(events)
}

/// The variables of the table of settings in docs/reference/settings.md, with their defaults.
fn documented_settings() -> Result<Vec<(String, String)>> {
    let document = fs::read_to_string(workspace().join("docs/reference/settings.md"))?;
    let cells =
        |line: &str| line.split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<_>>();
    let rows = document.lines().filter(|line| line.starts_with("| `MAILROOM_")).map(cells);
    Ok(rows.map(|row| (row[1].clone(), row[2].clone())).collect())
}

/// The log of a collector with these settings, and its first line, with the settings among the
/// other members.
fn started(command: &mut Command) -> Result<(String, Value)> {
    let collector = Collector::start(command)?;
    collector.wait_until_it_collects()?;
    let log = collector.stop()?;
    let mut started = events(&log, "started")?.swap_remove(0);
    let settings = started["settings"].take();
    for (name, value) in settings.as_object().context("an object")? {
        started[name] = value.clone();
    }
    Ok((log, started))
}

#[test]
fn the_first_line_has_the_versions_and_every_setting_that_is_not_secret() -> Result<()> {
    let database = Database::migrated()?;
    let mut command = collector::command(database.url())?;
    command.args(["--log-format", "json", "--sender", "sh -c 'exec sleep 1000' hunter2"]);
    let key_file = tempfile::NamedTempFile::new()?;
    fs::write(&key_file, KEY)?;
    command.env_remove("MAILROOM_SECRET_KEY").env("MAILROOM_KEY_FILE", key_file.path());
    let (_, by_default) = started(&mut command)?;
    let settings = documented_settings()?;
    for (name, default) in &settings {
        if !default.starts_with('(') && !default.is_empty() && name != "MAILROOM_LOG_FORMAT" {
            // A number, a word or a time; what follows says how it is meant.
            let value = default.split([' ', ',']).next().unwrap_or_default();
            command.env(name, value);
        }
    }
    let (log, started) = started(&mut command)?;
    assert!(log.lines().next().is_some_and(|line| line.contains("\"event\":\"started\"")), "{log}");
    assert_eq!(started["version"], env!("CARGO_PKG_VERSION"));
    let newest = mailroom::migrate::MIGRATIONS.last().context("some")?.version;
    assert_eq!(started["schema_version"], json!(newest));
    assert_eq!((&started["sender"], &started["batch_limit"]), (&json!("sh"), &json!(10)));
    assert_eq!((&started["poll_interval"], &started["retention"]), (&json!("5s"), &json!("30d")));
    assert_eq!(started["key_file"], json!(key_file.path()));
    // Set, even to the default, it bounds refusals.
    assert_eq!((&started["max_refusals"], &by_default["max_refusals"]), (&json!(8), &Value::Null));
    let shown: BTreeSet<_> = started.as_object().context("an object")?.keys().cloned().collect();
    for (name, _) in settings.iter().filter(|(name, _)| !SECRETS.contains(&name.as_str())) {
        let field = name.replace("MAILROOM_", "").to_ascii_lowercase();
        assert!(shown.contains(&field), "{field} is not in {started}");
        assert_eq!(
            started[&field], by_default[&field],
            "the default of {name} is another than the document says"
        );
    }
    assert!(
        !log.contains(KEY) && !log.contains("hunter2") && !log.contains(database.url()),
        "{log}"
    );
    assert_eq!(events(&log, "unknown_variable")?, [Value::Null; 0]);
    Ok(())
}

#[test]
fn the_first_line_for_people_has_what_differs_from_the_defaults_and_no_secret() -> Result<()> {
    let database = Database::migrated()?;
    let mut command = collector::command(database.url())?;
    command.args(["--sender", "sh -c 'exec sleep 1000' hunter2", "--lease", "2m"]);
    command.env("MAILROOM_BATCH_LIMIT", "10").env("MAILROOM_RATE", "14/s");
    let collector = Collector::start(&mut command)?;
    collector.wait_until_it_collects()?;
    let log = collector.stop()?;
    let first = log.lines().next().context("a line")?;
    for part in ["line_format=ndjson", "sender=sh", "lease=2m", "rate=14/s", "keys=1"] {
        assert!(first.contains(part), "{part} is not in {first}");
    }
    for part in ["batch_limit", "batch_timeout", "hunter2", KEY] {
        assert!(!first.contains(part), "{part} is in {first}");
    }
    // The runbook is looked up by the name of the event.
    for line in log.lines() {
        let event = line.rsplit_once(" event=").map(|(_, event)| event);
        let is_name = |name: &str| name.bytes().all(|c| c == b'_' || c.is_ascii_lowercase());
        assert!(event.is_some_and(|event| !event.is_empty() && is_name(event)), "{line}");
    }
    assert!(first.ends_with(" event=started"), "{first}");
    Ok(())
}

#[test]
fn values_have_units_and_follow_from_others() -> Result<()> {
    let database = Database::migrated()?;
    let mut command = collector::command(database.url())?;
    command.args([
        "--log-format",
        "json",
        "--sender",
        "sleep 1000",
        "--healthcheck-interval",
        "2m",
    ]);
    command.args([
        "--batch-timeout",
        "0500",
        "--poll-interval",
        "1h",
        "--backoff",
        "250ms",
        "--lease",
        "1h",
    ]);
    let (_, settings) = started(command.args(["--min-lifetime", "0", "--retention", "0072h"]))?;
    for (field, value) in [
        ("batch_timeout", "500ms"),
        ("poll_interval", "2m"),
        ("backoff", "250ms"),
        ("lease", "1h"),
        ("min_lifetime", "0"),
        ("retention", "3d"),
        ("line_format", "ndjson"),
    ] {
        assert_eq!(settings[field], value, "{field}");
    }
    let mut command = collector::command(database.url())?;
    command.args(["--log-format", "json", "--wake", "poll", "--channel-name", "letters"]);
    let (_, settings) = started(command.args(["--retention", "off", "--sender-timeout", "5s"]))?;
    assert_eq!(
        (&settings["retention"], &settings["sender_timeout"]),
        (&json!("off"), &json!("5s"))
    );
    Ok(())
}

#[test]
fn a_variable_that_is_no_setting_is_named_with_the_nearest_one() -> Result<()> {
    let database = Database::migrated()?;
    let mut command = collector::command(database.url())?;
    command.args(["--log-format", "json"]);
    command.envs([
        ("MAILROOM_BATCH_LIMITS", "20"),
        ("MAILROOM_lease", "9s"),
        ("MAILROOM_XYZ", "hunter2"),
    ]);
    let collector = Collector::start(&mut command)?;
    collector.wait_until_it_collects()?;
    let log = collector.stop()?;
    let mut unknown: Vec<_> = events(&log, "unknown_variable")?;
    unknown.sort_by_key(|line| line["name"].to_string());
    assert_eq!((unknown.len(), &unknown[0]["level"]), (3, &json!("WARN")), "{log}");
    for (line, (name, nearest)) in unknown.iter().zip([
        ("MAILROOM_BATCH_LIMITS", json!("MAILROOM_BATCH_LIMIT")),
        ("MAILROOM_XYZ", Value::Null),
        ("MAILROOM_lease", json!("MAILROOM_LEASE")),
    ]) {
        assert_eq!((&line["name"], &line["nearest"]), (&json!(name), &nearest));
    }
    assert!(!log.contains("hunter2"), "{log}");
    Ok(())
}

#[tokio::test]
async fn counts_ids_and_reasons_are_fields() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.account("a,b").email("ada@example.test").insert().await?;
    let mut command = collector::command(database.url())?;
    let collector =
        Collector::start(command.args(["--log-format", "json", "--batch-timeout", "0"]))?;
    collector.wait_for_log("tokens_dead", 1)?;
    let log = collector.stop()?;
    let started = &events(&log, "started")?[0];
    assert_eq!(
        (&started["settings"]["max_refusals"], &started["key_file"]),
        (&Value::Null, &Value::Null),
        "neither is set"
    );
    assert_eq!(started["changed"], "batch_timeout=0 log_format=json");
    let dead = &events(&log, "tokens_dead")?[0];
    assert_eq!((&dead["count"], &dead["ids"]), (&json!(1), &json!([1])));
    let reason = dead["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("token 1: its login contains a comma"), "{dead}");
    assert_eq!(events(&log, "stop_requested")?[0]["signal"], "SIGTERM");
    assert_eq!(events(&log, "ended")?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn each_line_that_a_sender_writes_to_standard_error_is_a_line_of_the_log() -> Result<()> {
    let database = Database::migrated()?;
    let mut command = collector::command(database.url())?;
    // The second line is longer than any that is kept, the last one has no line feed.
    let script = "echo \"Traceback: ada@example.test\" >&2; head -c 100000 /dev/zero | tr \
                  \"\\\\0\" x >&2; printf \"\\\\n\\\\033[31mlast\" >&2; exit 3";
    let sender = format!("sh -c '{script}'");
    let collector = Collector::start(command.args(["--log-format", "json", "--sender", &sender]))?;
    collector.wait_for_log("exit status: 3", 1)?;
    let log = collector.stop()?;
    let written = events(&log, "sender_output")?;
    let lines: Vec<_> =
        written.iter().take(3).map(|line| line["line"].as_str().unwrap_or_default()).collect();
    assert_eq!((lines[0], lines[2]), ("Traceback: [address]", "[31mlast"));
    assert!(lines[1].len() <= 500, "{}", lines[1].len());
    for line in &written {
        assert_eq!((&line["stream"], &line["level"]), (&json!("stderr"), &json!("WARN")));
        assert!(line["process"].as_i64().is_some_and(|process| process > 1), "{line}");
    }
    Ok(())
}

#[tokio::test]
async fn a_connection_that_works_while_nothing_else_does_is_logged_once() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut collector = Collector::start(&mut collector::command(database.url())?)?;
    collector.wait_until_it_collects()?;
    let lines = collector.lines()?;
    register(&client, 1..=10).await?;
    assert_eq!(lines.next_items(10)?.len(), 10);
    // Connecting and preparing go on to work; claiming does not.
    client
        .batch_execute(
            "ALTER TABLE mailroom.delivery_log RENAME TO gone; \
             ALTER TABLE mailroom.queue RENAME TO gone_too",
        )
        .await?;
    collector.wait_for_log("not collecting", 1)?;
    sleep(Duration::from_secs(8));
    let connected =
        |log: &str| log.matches("connected to").count() + log.matches("has the queue").count();
    assert!(connected(&collector.log()) <= 2, "{}", collector.log());
    client
        .batch_execute(
            "ALTER TABLE mailroom.gone RENAME TO delivery_log; \
             ALTER TABLE mailroom.gone_too RENAME TO queue",
        )
        .await?;
    collector.wait_for_log("collecting again", 1)?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn what_the_server_says_stays_one_line_of_text() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let role = format!("{}\nINFO \u{1b}[2J", database.name());
    client.batch_execute(&format!("CREATE ROLE \"{role}\" LOGIN")).await?;
    let encoded = format!("{}%0AINFO%20%1B%5B2J@", database.name());
    let collector = Collector::start(&mut collector::command(&database.url().replacen(
        "postgres@",
        &encoded,
        1,
    ))?)?;
    collector.wait_for_log("not collecting, trying again: for the role ", 1)?;
    let log = collector.stop()?;
    assert!(log.contains("\\nINFO \\u{1b}[2J\" with search_path"), "{log}");
    let is_line = |line: &str| line.starts_with("20") && !line.contains('\u{1b}');
    assert!(log.lines().all(is_line), "{log}");
    client.batch_execute(&format!("DROP ROLE \"{role}\"")).await?;
    Ok(())
}
