//! `ndjson` lines, which a sender always gets and standard output on request.

use std::process::Command;

use anyhow::{Context, Result};
use mailroom_tests::collector::{self, Collector, Lines};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_verifier_core::{Action, Expected, KeyRing, Moment, SharedKey, UntrustedToken};
use serde_json::{Value, json};
use tokio_postgres::Client;

use super::test_sender::TestSender;

const LOGIN: &str = "o'neill, \"x\"\n1,victim@x.test\u{2028}\\ü😀";

/// An activation, and a recovery whose account has a name that could forge a csv line.
async fn fill(client: &Client) -> Result<()> {
    client.account("ada").at("x.test").insert().await?;
    let bob = client.account(LOGIN).email("bob@x.test").active().insert().await?;
    client.token().recovery().of(bob).insert().await?;
    Ok(())
}

/// The items that a collector writes must be what the database holds, and their tokens genuine.
async fn check(client: &Client, items: &[Value], is_for_sender: bool) -> Result<()> {
    let key = SharedKey::from_hex(collector::KEY).ok().context("the key of the tests is one")?;
    let ring = KeyRing::new([key.into()]).ok().context("one key is a ring")?;
    let mut logins = Vec::new();
    for item in items {
        let query = "SELECT action::text, code, expires_at, email, login,
            left(encode(sha256('mailroom/consumed\\000'::bytea || secret), 'hex'), 32)
                AS key FROM tokens JOIN accounts ON accounts.id = account
            WHERE tokens.id = $1";
        let row = client.query_one(query, &[&item["id"].as_i64()]).await?;
        let (action, name) = match row.get("action") {
            "activation" => (Action::Activate, "activate"),
            _ => (Action::Recover, "recover"),
        };
        let (code, expires_at): (&str, i64) = (row.get("code"), row.get("expires_at"));
        let token = item["token"].as_str().context("a token is text")?;
        let mut expected = json!({
            "id": item["id"],
            "attempt": 1,
            "action": name,
            "path": format!("/{name}"),
            "token": token,
            "code": code,
            "email": row.get::<_, &str>("email"),
            "login": row.get::<_, &str>("login"),
            "expires_at": expires_at,
            "key": row.get::<_, &str>("key"),
        });
        if is_for_sender {
            expected["priority"] = i32::from(name != "recover").into();
        }
        assert_eq!(item, &expected);
        let code = (action == Action::Recover).then_some(code.as_bytes());
        let verified = UntrustedToken::parse(token).and_then(|token| {
            token.verify(&ring, Expected { action, code, binding: None }, Moment::at(1_700_000_000))
        });
        assert!(verified.is_ok(), "{verified:?}");
        logins.push(item["login"].as_str().unwrap_or_default().to_owned());
    }
    logins.sort();
    assert_eq!(logins, ["ada", LOGIN]);
    Ok(())
}

#[tokio::test]
async fn a_line_carries_what_csv_cannot_and_its_tokens_are_genuine() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    fill(&client).await?;
    let mut command: Command = collector::command(database.url())?;
    command.args(["--line-format", "ndjson", "--token-format", "v2", "--batch-timeout", "0"]);
    let mut collector = Collector::start(&mut command)?;
    let lines: Lines = collector.lines()?;
    let line = lines.next_line()?;
    assert!(line.is_ascii(), "{line}");
    let batch: Value = serde_json::from_str(&line)?;
    let fields: Vec<_> =
        batch.as_object().context("it is an object")?.keys().map(String::as_str).collect();
    assert_eq!((fields, &batch["v"]), (vec!["batch", "items", "v"], &json!(1)));
    assert!(line.starts_with("{\"v\":1,\"batch\":\""), "{line}");
    let items = batch["items"].as_array().context("items are a list")?;
    check(&client, items, false).await?;
    let log = collector.stop()?;
    assert!(log.contains(" token_format=v2 ") && log.contains("line_format=ndjson "), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_sender_gets_ndjson_whatever_the_line_format_says() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    fill(&client).await?;
    let mut sender = TestSender::new()?;
    let mut command = super::command(&database, &sender)?;
    let collector =
        Collector::start(command.args(["--line-format", "csv", "--token-format", "v2"]))?;
    let mut items = sender.pass_the_trial()?.items;
    // In either order: every seventh place is an activation's, and the first one can be that.
    let rest = sender.next_batch()?;
    sender.answer(&rest, "\"ok\":\"all\"")?;
    items.extend(rest.items);
    check(&client, &items, true).await?;
    collector.stop()?;
    Ok(())
}

/// A database in which a text may be any bytes.
async fn without_encoding() -> Result<Database> {
    let (database, other) = (Database::create()?, Database::create()?);
    let admin = other.connect().await?;
    let name = database.name();
    admin.batch_execute(&format!("DROP DATABASE {name}")).await?;
    let create =
        format!("CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
    admin.batch_execute(&create).await?;
    database.migrate()
}

#[tokio::test]
async fn a_row_that_no_line_can_carry_is_dead_with_the_reason_and_the_others_go_out() -> Result<()>
{
    let database = without_encoding().await?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "INSERT INTO accounts (email, login) VALUES ('ada@x.test', 'ada'), ('bob@x.test',
                convert_from('\\xff41', 'SQL_ASCII')),
                ('eve@x.test', 'eve')",
        )
        .await?;
    let mut sender = TestSender::new()?;
    let collector = Collector::start(&mut super::command(&database, &sender)?)?;
    sender.pass_the_trial()?;
    let rest = sender.next_batch()?;
    assert_eq!(rest.ids(), [3]);
    sender.answer(&rest, "\"dead\":[{\"id\":3,\"reason\":\"unzustellbar für\\u0000 immer\"}]")?;
    super::wait_for_state(&client, &[2, 3], "dead").await?;
    assert_eq!(super::reason(&client, 2).await?, "its login contains bytes that are not UTF-8");
    // In characters that every client of such a database can read.
    assert_eq!(super::reason(&client, 3).await?, "unzustellbar f\\u{fc}r immer");
    super::wait_for_state(&client, &[1], "sent").await?;
    collector.stop()?;
    Ok(())
}
