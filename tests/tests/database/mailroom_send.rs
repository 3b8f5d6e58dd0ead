//! `mailroom send` between a real collector and a real mail server.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{self, Collector, wait_long_until, wait_until};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::port;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rows::{WITHOUT_VERDICT, wait_for};
use mailroom_tests::sending::Configuration;

/// A collector that sends by the freshly built program.
pub(crate) fn command(database: &Database, configuration: &Configuration) -> Result<Command> {
    let mut command = collector::command(database.url())?;
    let program = program::path()?;
    let sender = format!("'{program}' send --config '{}'", configuration.file().display());
    command.args(["--batch-timeout", "0", "--poll-interval", "200ms", "--sender", &sender]);
    Ok(command)
}

#[tokio::test]
async fn mails_reach_their_recipients_and_every_token_gets_its_verdict() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client
        .accounts(["ada", "gone", "busy", "cut", "two"])
        .emails([
            "ada@x.test",
            "rcpt-550@x.test",
            "rcpt-451-first@x.test",
            "cut@x.test",
            "two@x.test, victim@x.test",
        ])
        .insert()
        .await?;
    let bob = client.account("bob").at("x.test").active().insert().await?;
    client.token().recovery().of(bob).insert().await?;
    let configuration = Configuration::smtp(server.port, "")?;
    let collector = Collector::start(&mut command(&database, &configuration)?)?;
    wait_for(&client, WITHOUT_VERDICT, 0_i64).await?;
    let log = collector.stop()?;
    let query = "SELECT login, state::text, attempts::bigint, reason FROM mailroom.deliveries
        JOIN tokens ON tokens.id = token
        JOIN accounts ON accounts.id = account WHERE login <> 'bob' ORDER BY login";
    let rows = client.query(query, &[]).await?;
    let found: Vec<(&str, &str, i64)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let expected = [
        ("ada", "sent", 1),
        ("busy", "sent", 2),
        ("cut", "sent", 2),
        ("gone", "dead", 1),
        ("two", "cancelled", 0),
    ];
    ensure!(found == expected, "{found:?}; the log:\n{log}");
    ensure!(
        rows[3].get::<_, &str>(3) == "550 5.1.1 no such user",
        "{:?}",
        rows[3].get::<_, &str>(3)
    );
    let mails = server.mails();
    let code = "SELECT code FROM tokens WHERE action::text = 'password_recovery'";
    let code: String = client.query_one(code, &[]).await?.get(0);
    let recovery =
        mails.iter().find(|mail| mail.to == "bob@x.test").context("no recovery was sent")?;
    ensure!(recovery.text.contains(&format!("Your code is {code}\n")), "{}", recovery.text);
    ensure!(recovery.text.contains("https://example.test/recover?token="), "{}", recovery.text);
    let cut: Vec<_> = mails.iter().filter(|mail| mail.to == "cut@x.test").collect();
    ensure!(
        cut.len() == 2 && cut[0] == cut[1],
        "a mail without an answer goes out again as it was"
    );
    ensure!(!log.contains("@x.test"), "an address is in the log:\n{log}");
    Ok(())
}

#[tokio::test]
async fn an_outage_of_the_mail_server_costs_no_token_an_attempt() -> Result<()> {
    // A port that nobody else gets while the server is away.
    let port = port::free()?.to_string();
    let refusing = ["--port", &port, "--refuse", "MAIL=421"];
    let Some(server) = MailServer::start(&refusing)? else { return Ok(()) };
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.accounts(numbered("p", 1..=40)).at("x.test").insert().await?;
    let configuration = Configuration::smtp(server.port, "")?;
    let collector = Collector::start(&mut command(&database, &configuration)?)?;
    collector.wait_for_log("the sender is unavailable: ", 1)?;
    drop(server);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let server = MailServer::start(&["--port", &port])?.context("it started before")?;
    wait_until(|| server.mails().len() >= 40)?;
    wait_for(&client, WITHOUT_VERDICT, 0_i64).await?;
    let log = collector.stop()?;
    let query = "SELECT count(*) FILTER (WHERE outcome::text = 'sent'),
        count(*) FILTER (WHERE outcome::text NOT IN ('sent', 'unanswered'))
            FROM mailroom.delivery_attempts";
    let row = client.query_one(query, &[]).await?;
    let found: (i64, i64) = (row.get(0), row.get(1));
    ensure!(found == (40, 0), "{found:?}; the log:\n{log}");
    ensure!(server.mails().len() == 40);
    Ok(())
}

/// The refusal says nothing of whose fault it is, so that it could be ours.
#[tokio::test]
async fn a_thousand_bad_addresses_of_a_stranger_hold_up_nobody() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let emails = (1..=1_000).map(|number| format!("rcpt-554@d{number}.test"));
    client.accounts(numbered("p", 1..=1_000)).emails(emails).insert().await?;
    client.account("ada").at("x.test").insert().await?;
    let configuration = Configuration::smtp(server.port, "")?;
    let collector = Collector::start(&mut command(&database, &configuration)?)?;
    let start = std::time::Instant::now();
    wait_long_until(|| !server.mails().is_empty())?;
    println!("the mail behind a thousand bad addresses went out after {:?}", start.elapsed());
    // Now that one was accepted, the refusals are believed.
    let query = "SELECT count(*) FROM mailroom.deliveries WHERE state::text = 'dead'";
    wait_for(&client, query, 1000_i64).await?;
    let log = collector.stop()?;
    ensure!(server.mails().len() == 1 && log.contains("refused alike"), "{log}");
    Ok(())
}

#[tokio::test]
async fn the_sender_warns_at_its_start_of_actions_that_have_no_template() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.account("a").at("x.test").insert().await?;
    let configuration = Configuration::smtp(server.port, "")?;
    let v2 = |command: &mut Command| Collector::start(command.env("MAILROOM_TOKEN_FORMAT", "v2"));
    let missing = "of the database have no template";
    let collector = v2(&mut command(&database, &configuration)?)?;
    // What it says at its start it has said then.
    wait_until(|| server.mails().len() == 1)?;
    let log = collector.stop()?;
    ensure!(!log.contains(missing), "every action has a mail:\n{log}");
    let statement =
        "INSERT INTO mailroom.actions (number, name, path) VALUES (100, 'vote', '/vote')";
    client.batch_execute(statement).await?;
    let collector = v2(&mut command(&database, &configuration)?)?;
    collector.wait_for_log(&format!("vote {missing}"), 1)?;
    collector.stop()?;
    Ok(())
}
