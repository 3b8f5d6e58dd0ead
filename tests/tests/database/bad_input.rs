//! Each wrong setting and database is one clear sentence.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use mailroom_tests::collector::{self, Collector, KEY};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;

/// The exit status and standard error of a collector that does not start.
fn failure(command: &mut Command) -> Result<(Option<i32>, String)> {
    let output = command.stdin(Stdio::null()).output()?;
    assert_eq!(String::from_utf8(output.stdout)?, "");
    Ok((output.status.code(), String::from_utf8(output.stderr)?))
}

/// A command whose settings are sound; no server need be there for a wrong setting to be found.
fn collect() -> Result<Command> {
    collector::on_base_schema("postgresql://postgres:topsecret@localhost:1/nowhere")
}

fn assert_refused(command: &mut Command, sentence: &str) -> Result<()> {
    assert_eq!(failure(command)?, (Some(2), format!("mailroom: {sentence}\n")));
    Ok(())
}

#[test]
fn a_missing_database_url_is_named() -> Result<()> {
    let sentence = "MAILROOM_DATABASE_URL is not set; set it to a URL \
                    (postgresql://user@host/database) or a keyword string (host=… dbname=…)";
    assert_refused(collect()?.env_remove("MAILROOM_DATABASE_URL"), sentence)?;
    assert_refused(collect()?.env("MAILROOM_DATABASE_URL", ""), sentence)
}

#[test]
fn a_malformed_database_url_is_named_and_not_shown() -> Result<()> {
    for url in [
        "mysql://root:topsecret@localhost/db",
        "postgresql://me:topsecret@localhost:port/db",
        "host=localhost password=topsecret sslmode",
        "postgresql://me:topsecret@localhost/db?sslmod=require",
    ] {
        let (code, text) = failure(collect()?.env("MAILROOM_DATABASE_URL", url))?;
        assert_eq!(code, Some(2), "{text}");
        assert!(text.starts_with("mailroom: MAILROOM_DATABASE_URL cannot be used: "), "{text}");
        assert!(!text.contains("topsecret"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    Ok(())
}

#[test]
fn a_missing_or_wrong_key_is_named_and_not_shown() -> Result<()> {
    assert_refused(
        collect()?.env_remove("MAILROOM_SECRET_KEY"),
        "MAILROOM_SECRET_KEY is not set; set it to a key of 64 hexadecimal characters, or \
         MAILROOM_KEY_FILE to a file that holds one; `mailroom keygen` makes one",
    )?;
    assert_refused(
        collect()?.env("MAILROOM_SECRET_KEY", &KEY[1..]),
        "MAILROOM_SECRET_KEY is no shared key: a shared key is 64 hexadecimal characters, not 63",
    )?;
    assert_refused(
        collect()?.env("MAILROOM_SECRET_KEY", format!("{}x", &KEY[1..])),
        "MAILROOM_SECRET_KEY is no shared key: \
         a shared key consists of hexadecimal characters only",
    )?;
    assert_refused(
        collect()?.env("MAILROOM_KEY_FILE", "/nowhere/keys"),
        "MAILROOM_SECRET_KEY and MAILROOM_KEY_FILE are both set; unset one, \
         so that it is clear which keys are meant",
    )?;
    assert_refused(
        collect()?.args(["--key-file", "/nowhere/keys"]),
        "the key file /nowhere/keys cannot be read: No such file or directory (os error 2)",
    )
}

#[test]
fn a_key_in_the_place_of_something_else_is_not_shown() -> Result<()> {
    let sentence = "what MAILROOM_KEY_FILE or --key-file says looks like a key and is no file; it \
                    must be the path of a file that holds the key";
    let mut command = collect()?;
    assert_refused(
        command.env_remove("MAILROOM_SECRET_KEY").env("MAILROOM_KEY_FILE", KEY),
        sentence,
    )?;
    let assert_shown = |text: &str, shown: &str| {
        let sentence =
            format!("MAILROOM_WAKE is {shown}, but must be `listen` or `poll` or `call`");
        assert_refused(collect()?.env("MAILROOM_WAKE", text), &sentence)
    };
    let mixed = "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff";
    let private = "mrsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    for key in [KEY, &KEY[..33], mixed, private, " mrsk_AAEC"] {
        assert_shown(key, "a text that looks like a key")?;
    }
    for token in [&private.replace("mrsk", "mrpk"), "mailroom_of_the_department_of_letters"] {
        assert_shown(token, "a text that looks like a token")?;
    }
    for (text, shown) in [
        ("deadbeef", "`deadbeef`"),
        (&"9".repeat(40), &format!("`{}`", "9".repeat(40))),
        (&"9".repeat(41), &format!("`{}…`", "9".repeat(40))),
        ("a\nb\u{1b}[1m", "`a\\nb\\u{1b}[1m`"),
    ] {
        assert_shown(text, shown)?;
    }
    Ok(())
}

#[test]
fn every_invalid_value_is_one_sentence_that_names_its_flag() -> Result<()> {
    const TIME: &str = "a whole number of milliseconds, or one with the unit ms, s, m or h, from";
    for (flag, texts, allowed) in [
        ("batch-limit", &["", "+1", "1e3", "１"][..], "a whole number from 1 to 10000"),
        ("max-attempts", &["0", "99999999999999999999"], "a whole number from 1 to 1000"),
        ("prefetch", &["0", "1001", "many"], "`auto` or a whole number from 1 to 1000"),
        ("batch-timeout", &["", "s", "5 s", "-5s", "5S", "1d", "61m"], &format!("{TIME} 0 to 1h")),
        ("poll-interval", &["99ms", "9999999999999999h"], &format!("{TIME} 100ms to 24h")),
        ("lease", &["0"], &format!("{TIME} 1s to 24h")),
        ("backoff", &["0"], &format!("{TIME} 100ms to 1h")),
        ("min-lifetime", &["-1"], &format!("{TIME} 0 to 24h")),
        (
            "retention",
            &["", "d", "30", "-1d", "+1d", "1.5d", "1D", "23h", "36501d", "１d"],
            "`off` or a whole number with the unit h or d, from 24h to 36500d",
        ),
        (
            "rate",
            &["", "14", "/s", "0/s", "-1/s", "1.5/s", "14/m", "14 /s", "１/s", "1/s/s", "100001/s"],
            "`off`, a whole number with the unit /s, /min, /h or /d, from 1/d to 100000/s, one \
             with the unit /month, or both with a comma",
        ),
        ("channel-name", &["", &"ü".repeat(32)], "a name of 1 to 63 bytes"),
        ("wake", &["hint", "Listen"], "`listen` or `poll` or `call`"),
        ("adaptive", &["", "yes", "On"], "`on` or `off`"),
        ("token-format", &["2"], "`v1` or `v2` or `v3`"),
        ("log-level", &["trace"], "`error` or `warn` or `info` or `debug`"),
    ] {
        for text in texts {
            let sentence = format!("--{flag} is `{text}`, but must be {allowed}");
            assert_refused(collect()?.arg(format!("--{flag}={text}")), &sentence)?;
        }
    }
    for (flag, fault) in [
        ("channel-name", "but the queue `deliveries` is announced on `token_insert`"),
        (
            "queue-name",
            "but names a row of the table jobs, which the queue `deliveries` does not read",
        ),
    ] {
        let advice = "unset it or, on the base schema, \
                      set MAILROOM_QUEUE_KIND to `cursor`";
        assert_refused(
            collect()?.args(["--queue-kind", "deliveries", &format!("--{flag}=letters")]),
            &format!("--{flag} is `letters`, {fault}; {advice}"),
        )?;
    }
    Ok(())
}

#[test]
fn a_key_file_that_everybody_can_read_is_warned_of() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("keys");
    fs::write(&path, KEY)?;
    for (mode, warned) in [(0o600, false), (0o640, false), (0o644, true)] {
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        let mut command = program::mailroom()?;
        let output =
            command.args(["sign", "--action", "activate"]).arg("--key-file").arg(&path).output()?;
        assert!(output.status.success());
        let text = String::from_utf8(output.stderr)?;
        assert_eq!(text.contains("can be read by every user"), warned, "{mode:o}: {text}");
    }
    Ok(())
}

#[test]
fn a_wrong_number_or_time_is_named_with_what_is_allowed() -> Result<()> {
    const LIMIT: &str = "but must be a whole number from 1 to 10000";
    for value in ["0", "-1", "10001", "99999999999999999999", "ten", "1.5", " 1"] {
        let command = &mut collect()?;
        assert_refused(
            command.env("MAILROOM_BATCH_LIMIT", value),
            &format!("MAILROOM_BATCH_LIMIT is `{value}`, {LIMIT}"),
        )?;
        let command = &mut collect()?;
        assert_refused(
            command.args(["--batch-limit", value]),
            &format!("--batch-limit is `{value}`, {LIMIT}"),
        )?;
    }
    assert_refused(
        collect()?.env("MAILROOM_HEALTHCHECK_INTERVAL", "2000").args(["--batch-timeout", "2001"]),
        "MAILROOM_HEALTHCHECK_INTERVAL is 2s, which is below the batch timeout of 2001ms; raise \
         it, or lower MAILROOM_BATCH_TIMEOUT",
    )?;
    assert_refused(
        collect()?.env("MAILROOM_QUEUE_KIND", "leases"),
        "MAILROOM_QUEUE_KIND is `leases`, but must be `deliveries` or `cursor`",
    )?;
    assert_refused(
        collect()?.env("MAILROOM_RATE", "0060/min").env("MAILROOM_QUEUE_KIND", "cursor"),
        "MAILROOM_RATE is 1/s, but the queue `cursor` has no rate; unset it",
    )?;
    assert_refused(
        collect()?.env("MAILROOM_LEASE", OsStr::from_bytes(b"\xff")),
        "MAILROOM_LEASE is not valid UTF-8; write it in UTF-8",
    )?;
    // A flag beats its variable, and an empty variable is unset.
    assert_refused(
        collect()?.env("MAILROOM_BATCH_LIMIT", "ten").args(["--batch-limit", "0"]),
        &format!("--batch-limit is `0`, {LIMIT}"),
    )?;
    assert_refused(
        collect()?.env("MAILROOM_LEASE", "").env("MAILROOM_SENDER_TIMEOUT", "46s"),
        "the default of MAILROOM_LEASE is 90s, which is below twice the sender's timeout of 46s; \
         raise it, or lower MAILROOM_SENDER_TIMEOUT",
    )?;
    let output = program::mailroom()?.args(["migrate", "up", "--baseline", "x"]).output()?;
    let text = String::from_utf8(output.stderr)?;
    assert!(
        text.contains("it must be the number of a migration, such as 0 for the base schema"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_sender_that_cannot_be_one_is_refused_before_anything_is_claimed() -> Result<()> {
    for sender in ["", "  ", "send 'hunter2", "''"] {
        assert_refused(
            collect()?.args(["--sender", sender]),
            "--sender is no command; it must be a program with its arguments, separated by blanks, \
             and quoted as in a shell",
        )?;
    }
    assert_refused(
        collect()?.args(["--sender", "send", "--queue-kind", "cursor"]),
        "--queue-kind is `cursor`, but with a sender it must be `deliveries`: the cursor is one \
         number and cannot record which tokens are to be tried again",
    )?;
    let called = "is `call`, but there is no address to call: set MAILROOM_METRICS_ADDRESS";
    let mut command = collect()?;
    command.env("MAILROOM_QUEUE_KIND", "deliveries").env("MAILROOM_WAKE", "call");
    assert_refused(&mut command, &format!("MAILROOM_WAKE {called}"))?;
    assert_refused(
        collect()?.args(["--wake", "call", "--metrics-address", "1"]),
        "--wake is `call`, but the queue `cursor` is locked by a session; unset it",
    )?;
    let mut command = collect()?;
    command.env("MAILROOM_VERDICTS_FROM", "nats://127.0.0.1:4222");
    command.args(["--queue-kind", "deliveries", "--wake", "call", "--metrics-address", "1"]);
    assert_refused(
        &mut command,
        "--wake is `call`, but verdicts of a broker are recorded at any time; unset \
         MAILROOM_VERDICTS_FROM",
    )?;
    assert_refused(
        collect()?.args(["--sender", "send", "--lease", "1m", "--sender-timeout", "31s"]),
        "--lease is 1m, which is below twice the sender's timeout of 31s; raise it, or lower \
         MAILROOM_SENDER_TIMEOUT",
    )?;
    for (name, value) in [
        ("MAILROOM_LEASE", "-1"),
        ("MAILROOM_LEASE", "long"),
        ("MAILROOM_SENDER_TIMEOUT", "0"),
        ("MAILROOM_SENDER_TIMEOUT", "1.5s"),
        ("MAILROOM_LINE_FORMAT", "xml"),
    ] {
        let (code, text) = failure(collect()?.env(name, value))?;
        assert_eq!((code, text.lines().count()), (Some(2), 1), "{text}");
        assert!(
            text.starts_with(&format!("mailroom: {name} is `{value}`, but must be ")),
            "{text}"
        );
    }
    Ok(())
}

#[test]
fn a_key_is_never_taken_from_the_arguments() -> Result<()> {
    for flag in ["--secret-key", "--key", "--database-url"] {
        let (code, text) = failure(collect()?.args([flag, KEY]))?;
        assert_eq!(code, Some(2));
        assert!(text.contains("is not known to this command"), "{text}");
        assert!(!text.contains(KEY), "{text}");
    }
    Ok(())
}

/// The last message in the log of a collector that is told not to wait,
/// and ends because of its database.
fn database_failure(command: &mut Command) -> Result<String> {
    let (code, text) = failure(command.env("MAILROOM_MISSING_SCHEMA", "exit"))?;
    assert_eq!(code, Some(1), "{text}");
    let line = text.lines().last().unwrap_or_default();
    let sentence = line.split_once(" ERROR ending: ").map_or(line, |(_, sentence)| sentence);
    let sentence =
        sentence.strip_suffix(" event=failed").context("it is named as in the runbook")?;
    Ok(sentence.to_owned())
}

#[tokio::test]
async fn an_unknown_queue_is_named_with_those_there_are() -> Result<()> {
    let database = Database::with_base_schema()?;
    let sentence = "there is no queue `letters`: MAILROOM_QUEUE_NAME or --queue-name must name a \
                    row of the table jobs, which has mailroom";
    let mut command = collector::on_base_schema(database.url())?;
    assert_eq!(database_failure(command.env("MAILROOM_QUEUE_NAME", "letters"))?, sentence);

    database.connect().await?.batch_execute("DELETE FROM jobs").await?;
    assert_eq!(
        database_failure(&mut collector::on_base_schema(database.url())?)?,
        "there is no queue `mailroom`: MAILROOM_QUEUE_NAME or --queue-name must name a row of the \
         table jobs, which has no row at all"
    );
    Ok(())
}

#[tokio::test]
async fn a_schema_that_is_absent_or_too_old_names_the_command_that_mends_it() -> Result<()> {
    let database = Database::create()?;
    let text = database_failure(&mut collector::on_base_schema(database.url())?)?;
    let sentence = "no schema of the database has the tables accounts, jobs, tokens; run `mailroom \
                    migrate up`, or name the right database in MAILROOM_DATABASE_URL";
    assert!(text.ends_with(sentence), "{text}");

    let database = Database::with_base_schema()?;
    database.connect().await?.batch_execute("ALTER TABLE tokens DROP COLUMN code").await?;
    let text = database_failure(&mut collector::on_base_schema(database.url())?)?;
    let ending = "set MAILROOM_QUEUE_KIND to `cursor` for the base schema";
    assert!(text.contains("column \"code\" does not exist") && text.ends_with(ending), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_missing_privilege_is_named_before_anything_is_sent() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let role = database.name();
    let grant =
        format!("CREATE ROLE {role} LOGIN; GRANT SELECT ON accounts, tokens, jobs TO {role}");
    client.batch_execute(&grant).await?;
    client.account("a").at("b.test").insert().await?;
    let url = database.url_of(role);
    let text = database_failure(&mut collector::on_base_schema(&url)?)?;
    let sentence = format!(
        "GRANT SELECT ON jobs TO \"{role}\"; GRANT UPDATE ON jobs TO \"{role}\", as their owner"
    );
    assert!(text.ends_with(&sentence), "{text}");

    // With just these privileges it works.
    client.batch_execute(&format!("GRANT UPDATE ON jobs TO {role}")).await?;
    let mut collector =
        Collector::start(collector::on_base_schema(&url)?.args(["--batch-timeout", "0"]))?;
    assert_eq!(collector.lines()?.next_items(1)?[0].login, "a");
    collector.stop()?;
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    Ok(())
}
