//! `mailroom status --all`: several databases, each with a folder of settings.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rows::register;
use serde_json::{Value, json};

use super::{Said, said};

const LATE: &str = "UPDATE mailroom.queue SET due_at = now() - interval '90 seconds'";
const EXPIRED: &str = "INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
    VALUES ('{1000}', now(), 0, 'expired')";

fn add(folder: &Path, name: &str, settings: &str) -> Result<()> {
    fs::create_dir(folder.join(name))?;
    Ok(fs::write(folder.join(name).join("collector.env"), settings)?)
}

/// The command in an environment whose settings must not count.
fn all(folder: &Path, arguments: &[&str]) -> Result<Said> {
    let mut command: Command = program::mailroom()?;
    command.arg("status").args(arguments).arg("--all").arg(folder);
    command.env("MAILROOM_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none");
    command.env("MAILROOM_SCHEMA", "elsewhere").env("PGOPTIONS", "-c nothing=1");
    said(command)
}

#[tokio::test]
async fn each_database_is_shown_under_its_name_and_the_worst_decides() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [fine, late, lost] = [Database::migrated()?, Database::migrated()?, Database::migrated()?];
    for (name, database) in [("fine", &fine), ("late", &late), ("lost", &lost)] {
        add(
            folder.path(),
            name,
            &format!("# As systemd reads it.\nMAILROOM_DATABASE_URL='{}'\n", database.url()),
        )?;
    }
    // What is no database is none.
    fs::create_dir(folder.path().join("templates"))?;
    fs::write(folder.path().join("collector.env"), "MAILROOM_SCHEMA=none")?;

    let quiet = all(folder.path(), &[])?;
    assert_eq!(quiet.code, Some(0), "{}", quiet.output);
    assert!(quiet.output.starts_with("fine: OK\n  waiting   0 tokens\n"), "{}", quiet.output);

    let client = late.connect().await?;
    register(&client, 1..=3).await?;
    client.batch_execute(LATE).await?;
    let warned = all(folder.path(), &["--json"])?;
    let shown: Value = serde_json::from_str(&warned.output)?;
    assert_eq!(warned.code, Some(1), "{shown}");
    assert_eq!(shown["late"]["queue"]["depth"], json!(3));
    assert_eq!(shown["late"]["alarms"], json!(["queue.oldest_due_ms"]));
    assert_eq!([&shown["fine"]["alarms"], &shown["lost"]["alarms"]], [&json!([]); 2]);

    let gone = "postgresql://postgres:hunter2@127.0.0.1:1/gone";
    add(folder.path(), "away", &format!("MAILROOM_DATABASE_URL={gone}"))?;
    let unknown = all(folder.path(), &["--json"])?;
    let shown: Value = serde_json::from_str(&unknown.output)?;
    assert_eq!(unknown.code, Some(3), "{shown}");
    let error = shown["away"]["error"].as_str().unwrap_or_default();
    assert!(error.contains("127.0.0.1") && !unknown.output.contains("hunter2"), "{shown}");
    assert_eq!(shown["late"]["queue"]["depth"], json!(3));

    lost.connect().await?.batch_execute(EXPIRED).await?;
    let critical = all(folder.path(), &["--nagios", "--max-dead", "7"])?;
    let line = critical.output;
    assert_eq!((critical.code, line.lines().count()), (Some(2), 1), "{line}");
    assert!(line.starts_with("MAILROOM CRITICAL: away UNKNOWN: "), "{line}");
    for part in [
        "; fine OK: 0 waiting, 0 dead; late WARNING: queue.oldest_due ",
        "; lost CRITICAL: expired.last_hour 1 (critical) | ",
        " 'late/queue.depth'=3 ",
        " 'lost/dead_letters'=0;7; ",
    ] {
        assert!(line.contains(part), "{part:?} is not in\n{line}");
    }
    Ok(())
}

#[tokio::test]
async fn a_folder_without_databases_or_one_that_cannot_be_read_is_unknown_and_says_why()
-> Result<()> {
    let folder = tempfile::tempdir()?;
    let empty = all(folder.path(), &[])?;
    assert_eq!(empty.code, Some(3));
    assert!(empty.errors.contains("NAME/collector.env, one for each database"), "{}", empty.errors);

    let missing = all(&folder.path().join("missing"), &["--nagios"])?;
    assert_eq!(missing.code, Some(3));
    assert!(missing.output.starts_with("MAILROOM UNKNOWN: the folder "), "{}", missing.output);

    for (name, settings) in [("bytes", &b"MAILROOM_DATABASE_URL=\xff"[..]), ("nothing", b"")] {
        add(folder.path(), name, "")?;
        fs::write(folder.path().join(name).join("collector.env"), settings)?;
    }
    fs::create_dir_all(folder.path().join("folder/collector.env"))?;
    let locked = folder.path().join("locked");
    add(folder.path(), "locked", "")?;
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000))?;
    let wrong = all(folder.path(), &["--json"])?;
    let shown: Value = serde_json::from_str(&wrong.output)?;
    assert_eq!(wrong.code, Some(3), "{shown}");
    for (name, reason) in [
        ("bytes", "cannot be read"),
        ("folder", "cannot be read"),
        ("locked", ""),
        ("nothing", "MAILROOM_DATABASE_URL is not set"),
    ] {
        let error = shown[name]["error"].as_str();
        assert!(error.is_some_and(|error| error.contains(reason)), "{name}: {shown}");
    }
    Ok(fs::set_permissions(&locked, fs::Permissions::from_mode(0o700))?)
}
