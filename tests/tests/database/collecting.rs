//! From inserted accounts to lines: what is printed, and when.

use std::collections::HashSet;
use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::Result;
use base64ct::{Base64UrlUnpadded, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use mailroom_tests::collector::{self, Collector, Item, KEY, wait_until};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{cursor, logins, register};
use sha2::Sha256;
use tokio_postgres::Client;

/// The token that the row of an item must lead to,
/// made by code that shares nothing with the collector's.
async fn expected_token(client: &Client, item: &Item) -> Result<String> {
    let query = "SELECT secret, tokens.code FROM tokens JOIN accounts ON accounts.id = account
        WHERE email = $1 AND login = $2 AND action = $3::text::token_action";
    let (action, path) = match item.action.as_str() {
        "1" => ("activation", "/activate"),
        _ => ("password_recovery", "/recover"),
    };
    let row = client.query_one(query, &[&item.email, &item.login, &action]).await?;
    let (mut bytes, code): (Vec<u8>, String) = (row.get(0), row.get(1));
    assert_eq!(item.code, code);
    let mut mac = Hmac::<Sha256>::new_from_slice(&base16(KEY)?)?;
    mac.update(path.as_bytes());
    mac.update(&bytes);
    if action == "password_recovery" {
        mac.update(code.as_bytes());
    }
    bytes.extend(mac.finalize().into_bytes());
    Ok(Base64UrlUnpadded::encode_string(&bytes))
}

fn base16(text: &str) -> Result<Vec<u8>> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| Ok(u8::from_str_radix(str::from_utf8(pair)?, 16)?))
        .collect()
}

/// Two activations and a recovery with known secrets and codes,
/// one of which only a faulty schema makes.
const KNOWN_ROWS: &str = "
    BEGIN;
    INSERT INTO accounts (email, login)
        VALUES ('user@example.test', 'user'), ('o''neill+x@bücher.test', 'jörg');
    INSERT INTO accounts (email, login, status) VALUES ('a@b.test', 'a b', 'active');
    INSERT INTO tokens (account, action)
        SELECT id, 'password_recovery' FROM accounts WHERE login = 'a b';
    UPDATE tokens SET code = '24735', secret = decode(
        '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 'hex')
        WHERE account = (SELECT id FROM accounts WHERE login = 'user');
    UPDATE tokens SET code = '#####', secret = decode(
        'e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 'hex')
        WHERE account = (SELECT id FROM accounts WHERE login = 'jörg');
    UPDATE tokens SET code = '00420', secret = decode(repeat('ff', 32), 'hex')
        WHERE action = 'password_recovery';
    COMMIT";

/// Computed by Python's hmac and base64.
const KNOWN_LINE: &str = concat!(
    "1,user@example.test,user,",
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-D_BCJwKfm7PGetbQ4qz6YCCClm9xfKMXFSC2iLXiF4Q,24735,",
    "1,o'neill+x@bücher.test,jörg,",
    "4OHi4-Tl5ufo6err7O3u7_Dx8vP09fb3-Pn6-_z9_v-jj4tJWej4TxKdMFP-fTJVYnIhJXrB_joIJXXnJpVYoA,#####,",
    "2,a@b.test,a b,",
    "___________________________________________vuwUuveqIIzJOSopiOfp3fKFK0DW3-m1ye1EgWcvbaw,00420",
    "\n",
);

#[tokio::test]
async fn a_line_is_byte_for_byte_what_existing_readers_expect() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    client.batch_execute(KNOWN_ROWS).await?;
    let mut command = collector::on_base_schema(database.url())?;
    let mut collector = Collector::start(command.env("MAILROOM_BATCH_LIMIT", "3"))?;
    assert_eq!(collector.lines()?.next_line()?, KNOWN_LINE);
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn every_token_is_signed_as_the_format_says_on_the_newest_schema_too() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut command = collector::command(database.url())?;
    let mut collector =
        Collector::start(command.args(["--batch-timeout", "300", "--batch-limit", "7"]))?;
    let lines = collector.lines()?;
    register(&client, 1..=20).await?;
    let items = lines.next_items(20)?;
    client.batch_execute("UPDATE accounts SET status = 'active'").await?;
    client
        .batch_execute(
            "INSERT INTO tokens (account, action) SELECT id, 'password_recovery' FROM accounts",
        )
        .await?;
    let recoveries = lines.next_items(20)?;
    assert!(items.iter().all(|item| item.action == "1"));
    assert!(recoveries.iter().all(|item| item.action == "2"));
    for item in items.iter().chain(&recoveries) {
        assert_eq!(item.token, expected_token(&client, item).await?);
    }
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_full_batch_goes_out_at_once_and_a_notification_is_what_wakes() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let mut command = collector::on_base_schema(database.url())?;
    // Neither a timeout nor a poll can be what sends these lines.
    command.args([
        "--batch-timeout",
        "1h",
        "--healthcheck-interval",
        "1h",
        "--poll-interval",
        "1h",
    ]);
    let mut collector = Collector::start(command.args(["--batch-limit", "3"]))?;
    let lines = collector.lines()?;
    collector.wait_for_log("listening on", 1)?;
    for number in 1..=7 {
        register(&client, number..=number).await?;
    }
    for first in [1, 4] {
        let batch: Vec<_> = lines.next_batch()?.into_iter().map(|item| item.login).collect();
        assert_eq!(batch, logins(first..=first + 2));
    }
    lines.expect_none(Duration::from_millis(500))?;
    collector.stop()?;
    assert_eq!(cursor(&client).await?, 6);
    Ok(())
}

#[tokio::test]
async fn a_batch_that_does_not_fill_goes_out_after_the_timeout() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let mut command = collector::on_base_schema(database.url())?;
    let mut collector = Collector::start(command.env("MAILROOM_BATCH_TIMEOUT", "1500"))?;
    let lines = collector.lines()?;
    collector.wait_for_log("listening on", 1)?;
    let start = Instant::now();
    register(&client, 1..=2).await?;
    assert_eq!(lines.next_batch()?.len(), 2);
    assert!(start.elapsed() >= Duration::from_millis(1_500), "after {:?}", start.elapsed());
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn an_adaptive_collector_sends_a_backlog_in_full_batches_and_a_lone_token_at_once()
-> Result<()> {
    let (deliveries, cursor) = (Database::migrated()?, Database::with_base_schema()?);
    let commands =
        [collector::command(deliveries.url())?, collector::on_base_schema(cursor.url())?];
    for (database, mut command) in [deliveries, cursor].iter().zip(commands) {
        let client = database.connect().await?;
        register(&client, 1..=1_000).await?;
        // No timeout can be what sends these lines.
        command.args([
            "--batch-timeout",
            "1h",
            "--healthcheck-interval",
            "1h",
            "--batch-limit",
            "100",
        ]);
        let mut collector = Collector::start(command.arg("--adaptive"))?;
        let lines = collector.lines()?;
        for _ in 0..10 {
            assert_eq!(lines.next_batch()?.len(), 100);
        }
        for number in 1_001..=1_003 {
            register(&client, number..=number).await?;
            assert_eq!(lines.next_batch()?.len(), 1);
        }
        collector.stop()?;
    }
    Ok(())
}

#[tokio::test]
async fn a_hundred_thousand_accounts_of_one_transaction_are_delivered_whole() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let mut command = collector::on_base_schema(database.url())?;
    // Lines larger than any pipe.
    let mut collector = Collector::start(command.args(["--batch-limit", "10000"]))?;
    let lines = collector.lines()?;
    collector.wait_for_log("listening on", 1)?;
    register(&client, 1..=100_000).await?;
    let items = lines.next_items(100_000)?;
    assert_eq!(items.len(), 100_000);
    let different: HashSet<_> = items.iter().map(|item| &item.login).collect();
    assert_eq!(different.len(), 100_000);
    for item in items.iter().step_by(9_973) {
        assert_eq!(item.token, expected_token(&client, item).await?);
    }
    collector.stop()?;
    assert_eq!(cursor(&client).await?, 100_000);
    Ok(())
}

#[tokio::test]
async fn what_the_database_already_holds_is_collected_at_the_start() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=25).await?;
    client.batch_execute("UPDATE jobs SET last_seq = 5").await?;
    let mut command = collector::on_base_schema(database.url())?;
    let mut collector = Collector::start(command.args(["--batch-timeout", "200"]))?;
    let items: Vec<_> =
        collector.lines()?.next_items(20)?.into_iter().map(|item| item.login).collect();
    assert_eq!(items, logins(6..=25));
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn lines_can_go_to_a_file() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=30).await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("lines");
    let mut command = collector::on_base_schema(database.url())?;
    let collector = Collector::start_writing_to(&mut command, File::create(&path)?)?;
    wait_until(|| std::fs::read_to_string(&path).is_ok_and(|text| text.lines().count() == 3))?;
    collector.stop()?;
    let text = std::fs::read_to_string(&path)?;
    let mut items = Vec::new();
    for line in text.split_inclusive('\n') {
        items.extend(collector::items(line)?);
    }
    assert_eq!(items.len(), 30);
    assert_eq!(cursor(&client).await?, 30);
    Ok(())
}

#[tokio::test]
async fn the_log_is_json_on_request_and_shows_no_secrets_and_no_addresses() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let mut command = collector::on_base_schema(database.url())?;
    command.args(["--log-format", "json", "--log-level", "debug", "--batch-timeout", "100"]);
    let mut collector = Collector::start(&mut command)?;
    let lines = collector.lines()?;
    register(&client, 1..=3).await?;
    client.account("a,comma").email("comma@example.test").insert().await?;
    let items = lines.next_items(3)?;
    collector.wait_for_log("tokens are rejected and get no mail", 1)?;
    let log = collector.stop()?;
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
        assert!(line["message"].is_string() && line["event"].is_string(), "{line}");
    }
    for item in &items {
        for secret in [&item.email, &item.login, &item.token, &item.token[..43]] {
            assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
        }
    }
    for secret in [KEY, "comma@example.test", "a,comma"] {
        assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
    }
    Ok(())
}
