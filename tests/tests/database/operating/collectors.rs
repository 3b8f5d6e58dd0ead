//! What `status` tells of collectors and their senders.

use anyhow::Result;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{register, wait_for};
use serde_json::{Value, json};

use super::run;

const UNAVAILABLE: &str =
    r#"sed -un 's/.*"batch":"\([^"]*\)".*/{"batch":"\1","unavailable":{"reason":"421 closed"}}/p'"#;
const ALL_SENT: &str = r#"sed -un 's/.*"batch":"\([^"]*\)".*/{"batch":"\1","ok":"all"}/p'"#;

fn status(database: &Database) -> Result<(Option<i32>, Value)> {
    let said = run(database, &["status", "--json"])?;
    Ok((said.code, serde_json::from_str(&said.output)?))
}

#[tokio::test]
async fn on_a_site_with_three_mails_an_outage_of_the_mail_server_is_seen() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=3).await?;
    client
        .batch_execute("UPDATE mailroom.queue SET due_at = now() - interval '70 seconds'")
        .await?;
    let collector = Collector::start(
        collector::command(database.url())?
            .args(["--lease", "60s", "--batch-timeout", "0"])
            .args(["--sender", UNAVAILABLE]),
    )?;
    // Each of them was tried twice and was given another time.
    let tried = "SELECT bool_and(attempts >= 2 AND put_off_at IS NOT NULL) AND count(*) = 3 \
                 FROM mailroom.queue";
    wait_for(&client, tried, true).await?;
    let outage = "SELECT count(*) FROM mailroom.collectors WHERE state IN ('open', 'half_open')";
    wait_for(&client, outage, 1_i64).await?;
    for _ in 0..20 {
        let (code, status) = status(&database)?;
        assert_eq!(
            (code, &status["alarms"][0]),
            (Some(1), &json!("queue.oldest_due_ms")),
            "{status}"
        );
        assert!(
            status["queue"]["oldest_due_ms"].as_i64().is_some_and(|oldest| oldest >= 70_000),
            "{status}"
        );
    }
    let (_, shown) = status(&database)?;
    assert_eq!(shown["collectors"]["alive"], 1);
    let reason = &shown["collectors"]["list"][0]["reason"];
    assert_eq!(*reason, "the sender is unavailable: 421 closed", "{shown}");
    assert!(shown["collectors"]["unavailable_ms"].is_i64(), "{shown}");
    let text = run(&database, &["status"])?.output;
    assert!(
        text.contains(": the sender has been unavailable since 20")
            && text.contains(": 421 closed\n"),
        "{text}"
    );
    collector.stop()?;
    let (_, shown) = status(&database)?;
    assert_eq!(shown["collectors"]["list"], json!([]), "it has ended in order");
    Ok(())
}

#[tokio::test]
async fn a_failing_or_silent_sender_is_seen_and_a_working_or_idle_one_is_well() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    for (sender, has_work, state) in [
        (ALL_SENT, false, "new"),
        (ALL_SENT, true, "ready"),
        ("false", false, "failing"),
        ("/nowhere", false, "failing"),
        ("sleep 1000", true, "unanswered"),
        ("sh -c 'read line'", true, "failing"),
    ] {
        client
            .batch_execute(
                "DELETE FROM mailroom.queue; DELETE FROM mailroom.leases; DELETE FROM accounts",
            )
            .await?;
        if has_work {
            register(&client, 1..=1).await?;
        }
        let settings = ["--lease", "60s", "--batch-timeout", "0", "--sender", sender];
        let collector = Collector::start(collector::command(database.url())?.args(settings))?;
        let seen = format!("SELECT count(*) FROM mailroom.collectors WHERE state = '{state}'");
        wait_for(&client, &seen, 1_i64).await?;
        let (_, status) = status(&database)?;
        let is_unavailable = !["new", "ready"].contains(&state);
        assert_eq!(
            status["collectors"]["unavailable_ms"].is_i64(),
            is_unavailable,
            "{sender}: {status}"
        );
        collector.stop()?;
        assert_eq!(
            client.query_one(&seen, &[]).await?.get::<_, i64>(0),
            0,
            "it has ended in order"
        );
    }
    Ok(())
}

/// Host, when it was started and seen last (in seconds ago),
/// the state of its sender and since when.
type Row = (&'static str, i32, i32, &'static str, i32);

#[tokio::test]
async fn collectors_that_are_missed_and_senders_that_are_unavailable_are_alarms() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let [ready, lost]: [Row; 2] = [("a", 7_200, 5, "ready", 600), ("b", 7_200, 100, "ready", 600)];
    let state = |name, since| ("a", 7_200, 5, name, since);
    let cases: [(&[Row], &[&str], i32); 17] = [
        (&[], &[], 0),
        (&[ready], &[], 0),
        (&[ready, lost], &["collectors.lost"], 1),
        (&[lost], &["collectors.lost", "collectors.all_lost"], 2),
        // It ended in order, or another one has taken its place.
        (&[("b", 7_200, 100, "ended", 100)], &[], 0),
        (&[ready, lost, ("b", 60, 5, "new", 60)], &[], 0),
        (&[ready, lost, ("c", 60, 5, "new", 60)], &["collectors.lost"], 1),
        // Forgotten, unless it was the last one.
        (&[ready, ("b", 9_000, 3_700, "ready", 8_000)], &[], 0),
        (
            &[("b", 900_000, 370_000, "ready", 800_000)],
            &["collectors.lost", "collectors.all_lost"],
            2,
        ),
        (&[state("open", 1)], &[], 0),
        (&[state("open", 40)], &["collectors.unavailable_ms"], 1),
        (&[state("half_open", 310)], &["collectors.unavailable_ms"], 2),
        (&[state("failing", 40)], &["collectors.unavailable_ms"], 1),
        (&[state("unanswered", 40)], &["collectors.unavailable_ms"], 1),
        (&[state("new", 40)], &[], 0),
        (&[("b", 900, 2, "ready", 60), state("open", 40)], &["collectors.unavailable_ms"], 1),
        // What a dead collector said last says nothing.
        (&[("a", 900, 4_000, "open", 5_000), ("b", 900, 2, "ready", 60)], &[], 0),
    ];
    for (rows, alarms, code) in cases {
        client.batch_execute("DELETE FROM mailroom.collectors").await?;
        for (number, (host, started, seen, state, since)) in rows.iter().enumerate() {
            let insert = format!(
                "INSERT INTO mailroom.collectors (collector_id, name, started_at, seen_at, state,
                state_since)
                VALUES ({number}, '{host} process {number}', now() - interval '{started} s',
                    now() - interval '{seen} s',
                    '{state}', now() - interval '{since} s')"
            );
            client.batch_execute(&insert).await?;
        }
        let (found, status) = status(&database)?;
        assert_eq!((found, &status["alarms"]), (Some(code), &json!(alarms)), "{rows:?}");
    }
    Ok(())
}

#[tokio::test]
async fn one_line_for_monitors_has_the_state_the_alarms_and_the_figures_with_their_bounds()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let said = run(&database, &["status", "--nagios"])?.success()?;
    assert!(
        said.starts_with("MAILROOM OK: 0 waiting, 0 dead | queue.oldest_due_ms=U;65000;305000 "),
        "{said}"
    );
    client
        .batch_execute(
            "INSERT INTO mailroom.queue (token, due_at, priority, secret)
            VALUES (1, now() - interval '70 s', 1, 'a');
            INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
                VALUES ('{2}', now(), 0, 'expired')",
        )
        .await?;
    let said = run(&database, &["status", "--nagios", "--max-dead", "7"])?;
    assert_eq!((said.code, said.output.lines().count()), (Some(2), 1), "{}", said.output);
    let (text, figures) = said.output.split_once(" | ").expect("figures follow a bar");
    let seconds = text
        .strip_prefix("MAILROOM CRITICAL: queue.oldest_due ")
        .and_then(|rest| rest.strip_suffix(" s (warning), expired.last_hour 1 (critical)"));
    // Some more where a machine is busy; from 305 on it would be critical.
    let seconds: Option<u32> = seconds.and_then(|seconds| seconds.parse().ok());
    assert!(seconds.is_some_and(|seconds| (70..305).contains(&seconds)), "{text}");
    for figure in
        ["dead_letters=0;7; ", "expired.last_hour=1;;0 ", "queue.depth=1 ", "collectors.alive=0\n"]
    {
        assert!(figures.contains(figure), "{figure:?} is not in {figures}");
    }
    let mut command = super::command("postgresql://127.0.0.1:1/x", &["status", "--nagios"])?;
    command.env("PGCONNECT_TIMEOUT", "5");
    let said = super::said(command)?;
    assert!(
        said.code == Some(3) && said.output.starts_with("MAILROOM UNKNOWN: "),
        "{}",
        said.output
    );
    let said = run(&database, &["status", "--nagios", "--yaml"])?;
    assert!(
        said.code == Some(3) && said.output.starts_with("MAILROOM UNKNOWN: "),
        "{}",
        said.output
    );
    Ok(())
}
