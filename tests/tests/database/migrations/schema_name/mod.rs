//! An installation whose schema has another name than `mailroom`, by `--schema` and
//! `MAILROOM_SCHEMA`.

mod names;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom::migrate::MIGRATIONS;
use mailroom_tests::collector::{self, Collector, Item, KEY};
use mailroom_tests::postgres::{Database, Wanted};
use mailroom_tests::program;
use mailroom_tests::rows::{register, wait_for};
use mailroom_verifier_core::{Action, Expected, KeyRing, Moment, SharedKey, UntrustedToken};
use serde_json::Value;
use tokio_postgres::Client;

use super::schema::description;
use super::{Outcome, count, succeed};

const UP: &[&str] = &["up", "--schema", "letters"];
const WITHOUT_ACCOUNTS: &[&str] = &["up", "--without-accounts", "--schema", "letters"];

/// A command in an environment with the schema's name.
fn mailroom(database: &Database, arguments: &[&str]) -> Result<Outcome> {
    let mut command = program::mailroom()?;
    command
        .args(arguments)
        .env("MAILROOM_DATABASE_URL", database.url())
        .env("MAILROOM_SCHEMA", "letters");
    Ok(Outcome::from(command.output()?))
}

fn said(database: &Database, arguments: &[&str]) -> Result<String> {
    let outcome = mailroom(database, arguments)?;
    ensure!(outcome.code == Some(0), "{arguments:?}: {outcome:?}");
    Ok(outcome.stdout)
}

/// A collector that finds out by notifications alone what there is to do.
fn collect(database: &Database) -> Result<Collector> {
    let mut command = collector::command(database.url())?;
    command.args(["--schema", "letters", "--token-format", "v2", "--batch-timeout", "0"]);
    command.args(["--poll-interval", "1h", "--healthcheck-interval", "1h"]);
    let collector = Collector::start(&mut command)?;
    collector.wait_until_it_collects()?;
    collector.wait_for_log("listening on", 1)?;
    Ok(collector)
}

/// Redeems what a line carries.
async fn redeem(client: &Client, item: &Item, action: Action) -> Result<String> {
    let key = SharedKey::from_hex(KEY).ok().context("the key of the tests is one")?;
    let ring = KeyRing::new([key.into()]).ok().context("one key is a ring")?;
    let code = (action == Action::Recover).then_some(item.code.as_str());
    let expected = Expected { action, code: code.map(str::as_bytes), binding: None };
    let token =
        UntrustedToken::parse(&item.token)?.verify(&ring, expected, Moment::at(1_700_000_000))?;
    let query = "SELECT verdict::text FROM letters.redeem($1, $2, $3)";
    let secret = token.secret().as_bytes().to_vec();
    Ok(client.query_one(query, &[&secret, &action.to_string(), &code]).await?.get(0))
}

/// Takes everything back; then nothing is left but the record of that.
async fn takes_all_back(
    database: &Database,
    client: &Client,
    before: &[String],
    steps: usize,
) -> Result<()> {
    for _ in 0..steps {
        assert!(said(database, &["migrate", "down", "--yes"])?.contains("is taken back"));
    }
    let nothing_left = mailroom(database, &["migrate", "down"])?;
    assert_eq!(
        (nothing_left.code, nothing_left.stdout.trim()),
        (Some(3), "no migration is applied")
    );
    assert_eq!(count(client, "pg_namespace WHERE nspname IN ('letters', 'mailroom')").await?, 0);
    assert_eq!(description(client).await?, before);
    Ok(())
}

#[tokio::test]
async fn accounts_are_registered_mailed_and_redeemed_and_every_command_finds_its_schema()
-> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    client.batch_execute("CREATE EXTENSION pgcrypto").await?;
    let before = description(&client).await?;
    succeed(&database, UP)?;
    let status = said(&database, &["migrate", "status"])?;
    assert!(status.ends_with(&format!("version {}\n", MIGRATIONS.len() - 1)), "{status}");
    assert_eq!(succeed(&database, UP)?.trim(), "no migration is missing");
    assert_eq!(
        said(&database, &["migrate", "bind"])?.trim(),
        "the queue is sent from this cluster"
    );

    // The collector is told of v2.
    client.batch_execute("UPDATE letters.installation SET token_format = 'v2'").await?;
    let mut collector = collect(&database)?;
    let lines = collector.lines()?;
    register(&client, 1..=1).await?;
    let activation = lines.next_items(1)?.remove(0);
    assert_eq!(redeem(&client, &activation, Action::Activate).await?, "ok");
    assert_eq!(redeem(&client, &activation, Action::Activate).await?, "used");
    client.batch_execute("SELECT letters.request('user1', 'recover')").await?;
    let recovery = lines.next_items(1)?.remove(0);
    assert_eq!(redeem(&client, &recovery, Action::Recover).await?, "ok");
    wait_for(&client, "SELECT count(*) FROM letters.deliveries WHERE state = 'sent'", 2_i64)
        .await?;
    let log = collector.stop()?;
    assert!(
        !log.contains("WARN") && !log.contains("ERROR") && log.contains("schema=letters"),
        "{log}"
    );

    client
        .batch_execute(
            "BEGIN; SET LOCAL letters.binding = 'b9e260ad2a53014fc325099499a79eda';
            INSERT INTO accounts (email, login) VALUES ('ada@example.test', 'ada'); COMMIT;
            INSERT INTO letters.dead_letters (token, died_at, expires_at, attempts, failures,
                    priority, secret, code, reason)
                SELECT token, now() - interval '1 minute', expires_at, 8, 8,
                    priority, secret, code, 'no such mailbox'
                FROM letters.queue JOIN letters.issued_tokens ON id = token
                WHERE binding IS NOT NULL;
            DELETE FROM letters.queue",
        )
        .await?;
    let outcome = mailroom(&database, &["status", "--json"])?;
    let status: Value = serde_json::from_str(&outcome.stdout)?;
    assert_eq!((outcome.code, &status["dead_letters"]), (Some(1), &Value::from(1)), "{outcome:?}");
    assert_eq!(said(&database, &["retry", "--all-dead"])?, "1 token waits again\n");
    assert_eq!(
        said(&database, &["suppress", "add", "ada@example.test"])?,
        "the address is now suppressed\n"
    );
    assert!(said(&database, &["suppress", "list"])?.contains("ada@example.test"));
    assert_eq!(
        said(&database, &["suppress", "remove", "ada@example.test"])?,
        "the address is no longer suppressed\n"
    );
    assert!(said(&database, &["status"])?.contains("2 tokens within the last minute"));
    client
        .batch_execute(
            "UPDATE letters.issued_tokens SET created_at = 1, expires_at = 2, consumed_at = 1;
            UPDATE letters.delivery_log SET happened_at = now() - interval '40 days';
            UPDATE letters.installation SET log_complete_since = now() - interval '1 year'",
        )
        .await?;
    let pruned = said(&database, &["prune", "--older-than", "30d"])?;
    assert!(pruned.starts_with("pruned 2 delivery attempts, 0 dead letters and "), "{pruned}");
    client.batch_execute("SELECT letters.cancel_subject('2')").await?;
    takes_all_back(&database, &client, &before, MIGRATIONS.len()).await
}

#[tokio::test]
async fn without_accounts_it_works_and_is_taken_back_too() -> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    let before = description(&client).await?;
    assert_eq!(succeed(&database, WITHOUT_ACCOUNTS)?.trim(), "1 migration applied");
    assert_eq!(count(&client, "letters.migrations").await?, 1);
    let status = said(&database, &["migrate", "status"])?;
    assert!(status.ends_with("schema letters: version 1\n"), "{status}");

    let mut collector = collect(&database)?;
    let lines = collector.lines()?;
    client
        .batch_execute("SELECT letters.enqueue('recover', 'ada@example.test', 'Ada', '7')")
        .await?;
    let item = lines.next_items(1)?.remove(0);
    assert_eq!(redeem(&client, &item, Action::Recover).await?, "ok");
    assert_eq!(lines.next_items(1)?.remove(0).action, "6");
    wait_for(&client, "SELECT count(*) FROM letters.deliveries WHERE state = 'sent'", 2_i64)
        .await?;
    collector.stop()?;
    assert_eq!(said(&database, &["retry", "--all-dead"])?, "0 tokens wait again\n");
    assert!(
        said(&database, &["prune", "--older-than", "30d"])?
            .starts_with("pruned 0 delivery attempts")
    );
    assert!(said(&database, &["status"])?.contains("2 tokens within the last minute"));
    takes_all_back(&database, &client, &before, 1).await
}

#[tokio::test]
async fn a_cursor_leaves_what_is_queued_in_a_schema_of_another_name() -> Result<()> {
    let database = Database::create()?;
    succeed(&database, UP)?;
    let collector = Collector::start(&mut collector::on_base_schema(database.url())?)?;
    collector.wait_for_log("set MAILROOM_QUEUE_KIND to `deliveries`", 1)?;
    collector.kill()?;
    Ok(())
}

#[tokio::test]
async fn a_collector_waits_for_a_schema_of_its_name() -> Result<()> {
    let database = Database::create()?;
    let mut collector = {
        let mut command = collector::command(database.url())?;
        Collector::start(command.env("MAILROOM_SCHEMA", "letters"))?
    };
    collector.wait_for_log("functions letters.claim, letters.heartbeat", 1)?;
    succeed(&database, UP)?;
    let client = database.connect().await?;
    register(&client, 1..=1).await?;
    assert_eq!(collector.lines()?.next_items(1)?[0].login, "user1");
    collector.stop()?;
    Ok(())
}

/// The listener and the idle lock: what is enqueued while nobody is busy is announced.
#[tokio::test]
async fn an_idle_collector_is_woken_by_each_registration() -> Result<()> {
    let database = Database::create()?;
    succeed(&database, UP)?;
    let client = database.connect().await?;
    let mut collector = collect(&database)?;
    let lines = collector.lines()?;
    for number in 1..=3 {
        register(&client, number..=number).await?;
        assert_eq!(lines.next_items(1)?[0].login, format!("user{number}"));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    collector.stop()?;
    Ok(())
}

/// They run `pg_dump`, which not every installation has: `xtask` knows this module.
mod dumps {
    use super::*;

    /// Everything that `pg_dump` writes but for rows with times, and the marks that differ from one
    /// dump to the next.
    fn dump(database: &Database) -> Result<String> {
        let installation = Wanted::from_environment()?.find()?;
        let mut command = Command::new(installation.programs.join("pg_dump"));
        command.args(["--exclude-table-data", "*.installation", "--dbname"]).arg(database.url());
        let output = command.output().context("pg_dump does not start")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout)?;
        let is_mark =
            |line: &&str| line.starts_with("\\restrict") || line.starts_with("\\unrestrict");
        Ok(text.lines().filter(|line| !is_mark(line)).collect::<Vec<_>>().join("\n"))
    }

    /// The word stays in the type of a job, in what is hashed and signed with it,
    /// and in the program's name.
    #[tokio::test]
    async fn the_installation_is_the_same_but_for_the_name_which_is_nowhere_in_it() -> Result<()> {
        for up in [&["up"][..], &["up", "--drop-secrets"], &["up", "--without-accounts"]] {
            let [usual, named] = [Database::create()?, Database::create()?];
            succeed(&usual, up)?;
            said(&named, &[&["migrate"], up].concat())?;
            let client = named.connect().await?;
            let namespaces =
                "pg_namespace WHERE nspname !~ '^(pg_|information_schema|public|letters)'";
            assert_eq!(count(&client, namespaces).await?, 0);
            let dumped = dump(&named)?;
            for (place, _) in dumped.match_indices("mailroom") {
                let (before, after) = (&dumped[..place], &dumped[place + "mailroom".len()..]);
                let is_word =
                    after.starts_with(['\'', '/', ' ', '\t']) || before.ends_with("ailroom_test_");
                assert!(
                    is_word && !before.ends_with("SCHEMA "),
                    "{:.200}",
                    &dumped[before.rfind('\n').unwrap_or(0)..]
                );
            }
            let renamed = |dump: &str| dump.replace("mailroom", "letters");
            assert!(dumped.contains("CREATE FUNCTION letters.redeem("));
            assert_eq!(renamed(&dump(&usual)?), renamed(&dumped), "{up:?}");
        }
        Ok(())
    }
}
