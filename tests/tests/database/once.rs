//! `mailroom collect --once`: what is due goes out, and the command ends by itself.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use mailroom_tests::collector;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::register;
use tokio_postgres::Client;

/// Says of every token that it was sent.
const SENDS_ALL: &str = "import json, sys
for line in iter(sys.stdin.readline, ''):
    batch = json.loads(line)
    ok = [item['id'] for item in batch['items']]
    print(json.dumps({'batch': batch['batch'], 'ok': ok}), flush=True)
";

fn once(database: &Database, arguments: &[&str]) -> Result<Command> {
    let mut command = collector::command(database.url())?;
    command.arg("--once").args(arguments);
    Ok(command)
}

/// Exit status, standard output and log.
fn run(mut command: Command) -> Result<(Option<i32>, String, String)> {
    let output = command.output()?;
    let text = |bytes| String::from_utf8(bytes);
    Ok((output.status.code(), text(output.stdout)?, text(output.stderr)?))
}

async fn states(client: &Client) -> Result<String> {
    let query = "SELECT string_agg(number || ' ' || state, ', ' ORDER BY state) FROM (
        SELECT state::text, count(*) AS number FROM mailroom.deliveries GROUP BY state) AS counted";
    Ok(client.query_one(query, &[]).await?.get::<_, Option<String>>(0).unwrap_or_default())
}

#[tokio::test]
async fn what_is_due_goes_out_also_in_batches_that_are_not_full_and_nothing_is_no_failure()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let (status, lines, log) = run(once(&database, &[])?)?;
    ensure!((status, lines.as_str()) == (Some(0), ""), "{status:?} {lines}{log}");
    register(&client, 1..=23).await?;
    // Nobody waits for a batch to fill.
    let (status, lines, log) =
        run(once(&database, &["--batch-timeout", "1h", "--healthcheck-interval", "1h"])?)?;
    ensure!(status == Some(0), "{status:?} {log}");
    let logins = lines.matches("@example.test").count();
    ensure!(logins == 23, "{logins} tokens:\n{lines}{log}");
    ensure!(states(&client).await? == "23 sent", "{}", states(&client).await?);
    ensure!(run(once(&database, &[])?)?.1.is_empty(), "it went out twice");
    Ok(())
}

#[tokio::test]
async fn a_sender_that_answers_has_every_answer_recorded() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=12).await?;
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("send.py");
    fs::write(&script, SENDS_ALL)?;
    let sender = format!("python3 '{}'", script.display());
    let (status, _, log) = run(once(&database, &["--sender", &sender])?)?;
    ensure!(status == Some(0), "{status:?} {log}");
    ensure!(states(&client).await? == "12 sent", "{}", states(&client).await?);
    ensure!(log.contains("sender=python3") && !log.contains("batch_limit"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_sender_that_does_not_work_is_a_failure_and_no_mail_is_lost() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=3).await?;
    for sender in ["false", "/nowhere/send", "sh -c 'echo nonsense; exit 3'"] {
        let (status, _, log) = run(once(&database, &["--sender", sender])?)?;
        ensure!(status == Some(1), "{sender}: {status:?} {log}");
        ensure!(log.contains("the sender does not work, and what is due waits"), "{log}");
    }
    let left = "SELECT count(*) FROM mailroom.queue";
    ensure!(client.query_one(left, &[]).await?.get::<_, i64>(0) == 3, "a token is gone");
    Ok(())
}

#[tokio::test]
async fn a_budget_that_is_spent_is_a_failure_only_if_a_mail_waits_for_it() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=3).await?;
    for _ in 0..2 {
        let (status, _, log) = run(once(&database, &["--rate", "3/month"])?)?;
        ensure!(status == Some(0), "{status:?} {log}");
    }
    register(&client, 4..=5).await?;
    for rate in ["3/month", "10/s,4/month", "4/month"] {
        let (status, _, log) = run(once(&database, &["--rate", rate])?)?;
        ensure!(status == Some(1), "{rate}: {status:?} {log}");
        ensure!(
            log.contains("the month's budget of MAILROOM_RATE, and what is due waits"),
            "{log}"
        );
    }
    ensure!(states(&client).await? == "1 queued, 4 sent", "{}", states(&client).await?);
    Ok(())
}

#[tokio::test]
async fn a_database_that_is_away_or_has_no_schema_is_told_at_once() -> Result<()> {
    let database = Database::create()?;
    let (status, _, log) = run(once(&database, &[])?)?;
    ensure!(status == Some(1) && log.contains("`mailroom migrate up`"), "{status:?} {log}");
    let mut command = collector::command("postgresql://postgres@127.0.0.1:1/nothing")?;
    command.arg("--once");
    let (status, _, log) = run(command)?;
    ensure!(status == Some(1), "{status:?} {log}");
    Ok(())
}

#[tokio::test]
async fn the_queue_of_a_base_schema_is_emptied_too() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=11).await?;
    let mut command = collector::on_base_schema(database.url())?;
    command.arg("--once");
    let (status, lines, log) = run(command)?;
    ensure!(
        status == Some(0) && lines.matches("@example.test").count() == 11,
        "{status:?} {lines}{log}"
    );
    Ok(())
}
