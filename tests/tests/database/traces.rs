//! The trace that a mail belongs to, from the call of the application to the line and the log.

use anyhow::{Context, Result};
use mailroom_tests::application::Application;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::program::mailroom;
use serde_json::Value;
use tokio_postgres::Client;

use crate::any_account::without_accounts;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const ONE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// Enqueues a mail, with an argument or without, and answers its trace.
async fn enqueue(client: &Client, traceparent: Option<&str>) -> Result<Option<String>> {
    let call = "SELECT mailroom.enqueue('invite', 'ada@x.test', traceparent => $1)";
    let token: i64 = client.query_one(call, &[&traceparent]).await?.get(0);
    let query = "SELECT traceparent FROM mailroom.issued_tokens WHERE id = $1";
    Ok(client.query_one(query, &[&token]).await?.get(0))
}

async fn set(client: &Client, traceparent: &str) -> Result<()> {
    client
        .query_one("SELECT set_config('mailroom.traceparent', $1, false)", &[&traceparent])
        .await?;
    Ok(())
}

/// The traces of all tokens, the oldest first.
async fn traces(client: &Client) -> Result<Vec<Option<String>>> {
    let query = "SELECT traceparent FROM mailroom.issued_tokens ORDER BY id";
    Ok(client.query(query, &[]).await?.iter().map(|row| row.get(0)).collect())
}

#[tokio::test]
async fn a_mail_belongs_to_the_trace_of_its_argument_or_else_of_the_setting() -> Result<()> {
    let database = without_accounts(Database::create()?)?;
    let client = database.connect().await?;
    assert_eq!(enqueue(&client, None).await?, None);
    assert_eq!(enqueue(&client, Some(ONE)).await?.as_deref(), Some(ONE));
    set(&client, OTHER).await?;
    assert_eq!(enqueue(&client, None).await?.as_deref(), Some(OTHER));
    assert_eq!(enqueue(&client, Some(ONE)).await?.as_deref(), Some(ONE));
    // What is ignored is as if it were not there.
    assert_eq!(enqueue(&client, Some("00-no")).await?.as_deref(), Some(OTHER));
    set(&client, "").await?;
    assert_eq!(enqueue(&client, None).await?, None);
    // Without the argument, as callers wrote it before.
    client.mail("invite").enqueue().await?;

    // It is no part of what an idempotency key stands for.
    let keyed = "SELECT mailroom.enqueue('invite', 'a@x.test', idempotency_key => 'k', \
                 traceparent => $1)";
    let first: i64 = client.query_one(keyed, &[&ONE]).await?.get(0);
    let second: i64 = client.query_one(keyed, &[&OTHER]).await?.get(0);
    assert_eq!(first, second);
    Ok(())
}

#[tokio::test]
async fn what_is_no_traceparent_is_ignored_and_fails_no_call() -> Result<()> {
    let database = without_accounts(Database::create()?)?;
    let client = database.connect().await?;
    for bad in [
        String::new(),
        " ".to_owned(),
        ONE.to_uppercase(),
        ONE.replacen("00-", "ff-", 1),
        ONE.replacen("00-", "01-", 1),
        ONE.replace(TRACE, &"0".repeat(32)),
        ONE.replace("00f067aa0ba902b7", &"0".repeat(16)),
        format!("{ONE}\n"),
        format!("\n{}", &ONE[..54]),
        format!("{}\n", &ONE[..54]),
        format!("{ONE}-00"),
        ONE.replace('-', "_"),
        ONE[1..].to_owned(),
        "\u{e9}".repeat(27) + "a",
        "0".repeat(55),
        "0".repeat(10_000),
        format!("{ONE}{}", "a".repeat(1_000_000)),
        "'; DROP TABLE mailroom.queue; --".to_owned(),
        "{\"a\":1}".to_owned(),
    ] {
        set(&client, "").await?;
        let shown: String = bad.chars().take(60).collect();
        assert_eq!(enqueue(&client, Some(&bad)).await?, None, "{shown:?}");
        set(&client, &bad).await?;
        assert_eq!(enqueue(&client, None).await?, None, "{shown:?} as the setting");
    }
    Ok(())
}

#[tokio::test]
async fn requests_registrations_and_renewals_have_their_trace_and_leave_the_setting_alone()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let application = Application::connect(&database).await?;
    set(&application.client, ONE).await?;
    application.register_and_activate("a").await?;
    let setting = "SELECT current_setting('mailroom.traceparent', true)";
    let request = "SELECT mailroom.request('a', 'recover', cooldown => '0', traceparent => $1)";
    // With the end of a transaction it would have its own value again in any case.
    application.client.batch_execute("BEGIN").await?;
    application.client.query_one(request, &[&OTHER]).await?;
    assert_eq!(application.client.query_one(setting, &[]).await?.get::<_, &str>(0), ONE);
    application.client.batch_execute("COMMIT").await?;
    application.client.query_one(request, &[&"invalid"]).await?;
    application.client.query_one(request, &[&None::<&str>]).await?;
    set(&application.client, "x").await?;
    application.client.query_one(request, &[&None::<&str>]).await?;
    let others = [Some(ONE), Some(OTHER), Some(ONE), Some(ONE), None];
    assert_eq!(traces(&client).await?, others.map(|trace| trace.map(str::to_owned)));

    // A further action goes another way.
    let further = "INSERT INTO mailroom.actions (number, name, path, eligibility)
        VALUES (100, 'vote', '/vote', 'mailroom.active_accounts(text[], boolean)')";
    client.batch_execute(further).await?;
    let vote = request.replace("recover", "vote");
    application.client.query_one(&vote, &[&OTHER]).await?;
    assert_eq!(traces(&client).await?.last().cloned().flatten().as_deref(), Some(OTHER));

    let renewable = "UPDATE mailroom.actions SET cooldown = '0' WHERE name = 'vote'";
    client.batch_execute(renewable).await?;
    let secret = "SELECT secret FROM mailroom.queue ORDER BY token DESC LIMIT 1";
    let secret: Vec<u8> = client.query_one(secret, &[]).await?.get(0);
    set(&client, ONE).await?;
    client.query_one("SELECT mailroom.renew_link($1, 'vote')", &[&secret]).await?;
    assert_eq!(traces(&client).await?.len(), 7);
    assert_eq!(traces(&client).await?.last().cloned().flatten().as_deref(), Some(ONE));
    Ok(())
}

/// That step has triggers of its own.
#[tokio::test]
async fn where_secrets_were_dropped_requests_and_registrations_have_their_trace() -> Result<()> {
    let database = Database::create()?.migrate_with(&["--drop-secrets"])?;
    let client = database.connect().await?;
    let application = Application::connect(&database).await?;
    set(&application.client, ONE).await?;
    let account = application.register("a").await?;
    application.set_status(account, "active").await?;
    let request = "SELECT mailroom.request('a', 'recover', cooldown => '0', traceparent => $1)";
    application.client.query_one(request, &[&OTHER]).await?;
    assert_eq!(traces(&client).await?, [ONE, OTHER].map(|trace| Some(trace.to_owned())));
    Ok(())
}

#[tokio::test]
async fn lines_of_json_have_the_trace_and_csv_does_not() -> Result<()> {
    for format in ["ndjson", "csv"] {
        let database = without_accounts(Database::create()?)?;
        let client = database.connect().await?;
        enqueue(&client, None).await?;
        enqueue(&client, Some(ONE)).await?;
        let mut command = collector::command(database.url())?;
        command.args(["--line-format", format, "--token-format", "v2", "--batch-limit", "2"]);
        let mut collector = Collector::start(&mut command)?;
        let line = collector.lines()?.next_line()?;
        collector.stop()?;
        if format == "csv" {
            assert!(!line.contains(TRACE), "{line}");
            assert_eq!(line.split(',').count(), 10, "{line}");
        } else {
            let batch: Value = serde_json::from_str(&line)?;
            let items = batch["items"].as_array().context("items")?;
            assert_eq!(items[0].get("traceparent"), None, "{line}");
            assert_eq!(items[1]["traceparent"], ONE, "{line}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_log_names_the_traces_of_mails_that_are_not_sent() -> Result<()> {
    for format in ["json", "text"] {
        let database = without_accounts(Database::create()?)?;
        let client = database.connect().await?;
        // A name that no line of CSV can carry, and one that was used before it was sent.
        let call = "SELECT mailroom.enqueue('invite', 'ada@x.test', 'a,b', traceparent => $1)";
        client.query_one(call, &[&ONE]).await?;
        enqueue(&client, None).await?;
        enqueue(&client, Some(OTHER)).await?;
        let used = "UPDATE mailroom.issued_tokens SET consumed_at = 1 WHERE id > 1";
        client.batch_execute(used).await?;
        let mut command = collector::command(database.url())?;
        command.args(["--line-format", "csv", "--token-format", "v2", "--batch-timeout", "0"]);
        command.args(["--log-format", format]);
        let collector = Collector::start(&mut command)?;
        collector.wait_for_log("tokens_dead", 1)?;
        collector.wait_for_log("tokens_cancelled", 1)?;
        let log = collector.stop()?;
        for (event, trace) in [("tokens_dead", ONE), ("tokens_cancelled", OTHER)] {
            let line = log.lines().find(|line| line.contains(event)).context("the event")?;
            if format == "json" {
                let line: Value = serde_json::from_str(line)?;
                assert_eq!(line["traceparents"], serde_json::json!([trace]), "{line}");
            } else {
                assert!(line.contains(&format!(" traceparents=[{trace}] ")), "{line}");
            }
        }
        assert!(!log.contains("ada@x.test"), "{log}");
    }
    Ok(())
}

#[tokio::test]
async fn the_story_of_a_mail_says_in_which_trace_it_was_enqueued() -> Result<()> {
    let database = without_accounts(Database::create()?)?;
    let client = database.connect().await?;
    enqueue(&client, Some(ONE)).await?;
    enqueue(&client, None).await?;
    for (token, is_traced) in [("1", true), ("2", false)] {
        for further in [&["trace", token][..], &["trace", "--json", token]] {
            let mut command = mailroom()?;
            command.env("MAILROOM_DATABASE_URL", database.url()).args(further);
            let told = String::from_utf8(command.output()?.stdout)?;
            assert_eq!(told.contains(&format!("in trace {TRACE}")), is_traced, "{told}");
        }
    }
    let exported = "SELECT mailroom.export_subject(NULL, 'ada@x.test') #>> '{mails,0,traceparent}'";
    assert_eq!(client.query_one(exported, &[]).await?.get::<_, &str>(0), ONE);
    Ok(())
}
