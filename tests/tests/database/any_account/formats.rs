//! In which format collectors sign, by default and by their settings, and what becomes of what a
//! format cannot sign.

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{self, Collector, KEY};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use serde_json::{Value, json};
use tokio_postgres::Client;

use super::{count, product, refused};

/// A collector with settings of its own beside the default format.
fn start(database: &Database, settings: &[&str]) -> Result<Collector> {
    let mut command = collector::command(database.url())?;
    command.args(["--line-format", "ndjson", "--batch-timeout", "0"]).args(settings);
    let collector = Collector::start(&mut command)?;
    collector.wait_until_it_collects()?;
    Ok(collector)
}

/// The format of the token of a mail that is enqueued.
async fn signed(client: &Client, collector: &mut Collector, action: &str) -> Result<String> {
    client.mail(action).enqueue().await?;
    let line: Value = serde_json::from_str(&collector.lines()?.next_line()?)?;
    let token = line["items"][0]["token"].as_str().context("a token")?.to_owned();
    // Each format has its own length.
    Ok(match token.len() {
        86 => "v1",
        104 | 124 => "v2",
        length => anyhow::bail!("{length}"),
    }
    .to_owned())
}

fn status(database: &Database) -> Result<(Option<i32>, Value, String)> {
    let run = |arguments: &[&str]| -> Result<_> {
        let mut command = program::mailroom()?;
        Ok(command.args(arguments).env("MAILROOM_DATABASE_URL", database.url()).output()?)
    };
    let output = run(&["status", "--json"])?;
    let text = String::from_utf8(run(&["status"])?.stdout)?;
    Ok((output.status.code(), serde_json::from_slice(&output.stdout)?, text))
}

#[tokio::test]
async fn collectors_sign_what_the_installation_has_recorded_unless_they_are_told() -> Result<()> {
    let (database, client) = product().await?;
    for (recorded, settings, expected, differs) in [
        ("v2", &[][..], "v2", false),
        ("v2", &["--token-format", "v2"], "v2", false),
        ("v2", &["--token-format", "v1"], "v1", true),
        ("v1", &[], "v1", false),
        ("v1", &["--token-format", "v2"], "v2", true),
    ] {
        let record = format!("UPDATE mailroom.installation SET token_format = '{recorded}'");
        client.batch_execute(&record).await?;
        let mut collector = start(&database, settings)?;
        assert_eq!(signed(&client, &mut collector, "activate").await?, expected);
        let log = collector.stop()?;
        assert!(log.contains(&format!("token_format={expected}")), "{log}");
        assert_eq!(
            log.contains("signs another format than the installation's default"),
            differs,
            "{log}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_collector_on_a_schema_that_records_no_format_signs_v1() -> Result<()> {
    let (database, client) = product().await?;
    client
        .batch_execute(
            "DROP FUNCTION mailroom.list_actions();
            CREATE FUNCTION mailroom.list_actions()
            RETURNS TABLE (number smallint, name text, path text, code_digits smallint)
            LANGUAGE sql STABLE SECURITY DEFINER
            BEGIN ATOMIC SELECT number, name, path, code_digits FROM mailroom.actions
                ORDER BY number; END",
        )
        .await?;
    let mut collector = start(&database, &[])?;
    assert_eq!(signed(&client, &mut collector, "activate").await?, "v1");
    collector.stop()?;
    // And an older collector says nothing of its format.
    client
        .batch_execute(
            "SELECT mailroom.heartbeat(7, 'old process 1', '{}', 90000, NULL, NULL, 0, NULL)",
        )
        .await?;
    let (_, status, _) = status(&database)?;
    assert_eq!(status["collectors"]["list"][0]["token_format"], Value::Null);
    Ok(())
}

#[test]
fn a_key_of_another_kind_than_the_format_is_an_error_at_the_start() -> Result<()> {
    let made = |format: &str| -> Result<String> {
        let output = program::mailroom()?.args(["keygen", "--token-format", format]).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let private = made("v3")?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), &private)?;
    let path = file.path().to_string_lossy().into_owned();
    for (variables, arguments, said) in [
        (
            &[("MAILROOM_SIGNING_KEY", private.as_str())][..],
            &[][..],
            "set MAILROOM_TOKEN_FORMAT=v3",
        ),
        (&[("MAILROOM_KEY_FILE", path.as_str())], &[], "set MAILROOM_TOKEN_FORMAT=v3"),
        (
            &[("MAILROOM_KEY_FILE", path.as_str())],
            &["--token-format", "v2"],
            "but v2 is signed with a shared key",
        ),
        (
            &[("MAILROOM_SECRET_KEY", KEY)],
            &["--token-format", "v3"],
            "v3 is signed with a private key",
        ),
    ] {
        let mut command = program::mailroom()?;
        command.env("MAILROOM_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing");
        command.env_remove("MAILROOM_SECRET_KEY").envs(variables.iter().copied());
        let output = command.arg("collect").args(arguments).output()?;
        let complaint = String::from_utf8(output.stderr)?;
        ensure!(
            output.status.code() == Some(2) && complaint.contains(said),
            "{arguments:?}: {complaint}"
        );
        assert!(!complaint.contains(&private) && !complaint.contains(KEY), "{complaint}");
    }
    Ok(())
}

#[tokio::test]
async fn collectors_of_several_formats_and_what_none_of_them_signs_are_alarms() -> Result<()> {
    let (database, client) = product().await?;
    let first = start(&database, &["--token-format", "v1"])?;
    for action in ["invite", "sign_in"] {
        client.mail(action).enqueue().await?;
    }
    client.mail("activate").to("bob@example.test").bound_to([0xb9; 16]).enqueue().await?;
    // Each with its own reason.
    for reason in [
        "their action is invite, but v1",
        "their action is sign_in, but v1",
        "they are bound to a browser, but v1",
    ] {
        first.wait_for_log(reason, 1)?;
    }
    let (code, json, text) = status(&database)?;
    assert_eq!(
        (code, &json["alarms"], &json["unsignable"]),
        (Some(2), &json!(["unsignable"]), &json!(3))
    );
    for line in [
        "unsigned  invite: 1 token waits, because every collector signs v1, which has only \
         activate and recover; set MAILROOM_TOKEN_FORMAT=v2 once",
        "unsigned  sign_in: 1 token waits, because every collector signs v1, which has only",
        "unsigned  activate: 1 token waits, because it is for one browser, and every collector \
         signs v1, which binds no links; set MAILROOM_TOKEN_FORMAT=v2 once",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(text.matches("unsigned  ").count(), 3, "{text}");
    assert_eq!(
        json["unsigned"],
        json!([
            {"reason": "action", "action": "invite", "tokens": 1},
            {"reason": "action", "action": "sign_in", "tokens": 1},
            {"reason": "binding", "action": "activate", "tokens": 1},
        ])
    );
    assert!(text.contains("format    v2, but collectors that were told so sign v1\n"), "{text}");
    // Another one signs them, and verifiers must accept both.
    let mut second = start(&database, &[])?;
    let lines = second.lines()?;
    let mut sent = 0;
    while sent < 3 {
        let line: Value = serde_json::from_str(&lines.next_line()?)?;
        sent += line["items"].as_array().map_or(0, Vec::len);
    }
    let (code, json, _) = status(&database)?;
    assert_eq!((code, &json["alarms"]), (Some(1), &json!(["collectors.token_formats"])));
    assert_eq!(
        json["installation"],
        json!({ "name": null, "token_format": "v2", "is_of_another_cluster": false })
    );
    first.stop()?;
    let (code, _, text) = status(&database)?;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("format    v2, unless a collector is told another one\n"), "{text}");
    second.stop()?;
    Ok(())
}

/// Otherwise it would put them off for longer and longer, whenever it looks first.
#[tokio::test]
async fn what_a_collector_cannot_sign_is_left_to_one_that_is_there_and_signs_it() -> Result<()> {
    let (_database, client) = product().await?;
    client.mail("invite").enqueue().await?;
    let claim = async |binds: bool| -> Result<(i32, i64)> {
        let statement = format!(
            "SELECT sum(scanned)::integer, count(batch) FROM mailroom.claim(
                1, ARRAY[gen_random_uuid()], 1, true, 9, 0, NULL, NULL, 90000, 30,
                (SELECT array_agg(number) FROM mailroom.actions WHERE {binds} OR number <= 2),
                {binds}
            )"
        );
        let row = client.query_one(&statement, &[]).await?;
        Ok((row.get(0), row.get(1)))
    };
    assert_eq!(claim(false).await?, (1, 0), "it is put off");
    let due_again = "UPDATE mailroom.queue
        SET put_off_at = now() - interval '200 s', due_at = now() - interval '1 s'";
    for (other, is_left) in [
        ("'v2', now(), 'ready'", true),
        ("'v3', now(), NULL", true),
        ("'v1', now(), 'ready'", false),
        ("NULL, now(), NULL", false),
        ("'v2', now() - interval '100 s', 'ready'", false),
        ("'v2', now(), 'ended'", false),
    ] {
        client.batch_execute(due_again).await?;
        let here = format!(
            "DELETE FROM mailroom.collectors;
            INSERT INTO mailroom.collectors (
                collector_id, name, started_at, state_since, token_format, seen_at, state
            )
            SELECT 2, 'other process 1', now(), now(), {other}"
        );
        client.batch_execute(&here).await?;
        assert_eq!(claim(false).await?, (i32::from(!is_left), 0), "{other}");
    }
    // As long as it was put off once more, it waits for the other one alone.
    client
        .batch_execute(
            "UPDATE mailroom.collectors SET state = 'ready';
            UPDATE mailroom.queue
                SET put_off_at = now() - interval '20 s', due_at = now() - interval '11 s'",
        )
        .await?;
    assert_eq!(claim(false).await?, (1, 0));
    client.batch_execute(due_again).await?;
    assert_eq!(claim(false).await?, (0, 0));
    assert_eq!(claim(true).await?, (1, 1));
    Ok(())
}

#[tokio::test]
async fn the_schema_takes_no_action_that_no_verifier_takes() -> Result<()> {
    let (_database, client) = product().await?;
    let before = count(&client, "mailroom.actions").await?;
    for (name, path) in [
        ("vote", "'/a/../b'"),
        ("vote", "'/..'"),
        ("vote", "'/./vote'"),
        ("vote", "'/vote/.'"),
        ("vote", "'vote'"),
        ("vote", "'/vote/'"),
        ("activation", "'/vote'"),
        ("password_recovery", "NULL"),
    ] {
        let insert = format!(
            "INSERT INTO mailroom.actions (number, name, path) VALUES (100, '{name}', {path})"
        );
        let (code, message) = refused(&client, &insert).await?;
        assert!(code.code() == "23514", "{insert}: {message}");
    }
    client
        .batch_execute(
            "INSERT INTO mailroom.actions (number, name, path)
                VALUES (100, 'vote', '/...'), (101, 'poll', '/.well-known/p..l'), (102, 'list',
                    NULL)",
        )
        .await?;
    assert_eq!(count(&client, "mailroom.actions").await?, before + 3);
    Ok(())
}
