//! From the database through the broker to the recipients.

use anyhow::{Result, ensure};
use mailroom_tests::broker::Nats;
use mailroom_tests::collector::Collector;
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::wait_for;
use mailroom_tests::sending::{Configuration, key, token};

use super::{
    client, collecting, last_of, publish, reached, relay, sender, wait_for_recipients,
    wait_for_waiting,
};

#[tokio::test]
async fn mails_reach_their_recipients_and_each_leaves_a_verdict() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    rows.accounts(numbered("p", 1..=30)).at("x.test").insert().await?;
    rows.account("busy").email("rcpt-451-first@x.test").insert().await?;
    let eva = rows.account("eva").at("x.test").active().insert().await?;
    rows.token().recovery().of(eva).insert().await?;
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    // What the broker has is not sent.
    let state =
        |state: &str| format!("SELECT count(*) FROM mailroom.deliveries WHERE state = '{state}'");
    wait_for(&rows, &state("handed_over"), 32_i64).await?;
    let receipts = "SELECT count(*) FROM mailroom.receipts WHERE provider = 'smtp'";
    wait_for(&rows, receipts, 0_i64).await?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    wait_for_recipients(&server, 32)?;
    wait_for(&rows, &state("sent"), 32_i64).await?;
    wait_for(&rows, receipts, 32_i64).await?;
    let broker = client(&nats).await?;
    wait_for_waiting(&broker, 0).await?;
    let log = collector.stop()?;
    ensure!(!log.contains("@x.test"), "an address is in the log:\n{log}");
    let (status, said) = sender.stop()?;
    ensure!(status.success() && said.contains("32 sent"), "{status}: {said}");
    ensure!(!said.contains("@x.test"), "an address is in the log:\n{said}");
    ensure!(reached(&server).values().all(|count| *count == 1), "{:?}", reached(&server));
    Ok(())
}

#[tokio::test]
async fn what_never_can_be_sent_is_a_dead_letter_without_its_link() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "b", &[(1, "gone@x.test"), (2, "ada@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    let broker = client(&nats).await?;
    wait_for_waiting(&broker, 0).await?;
    let dead = last_of(&broker, &format!("mailroom.dead.{}", key(1))).await?;
    ensure!(dead["id"] == 1 && dead["verdict"] == "dead", "{dead}");
    ensure!(dead["reason"] == "550 5.1.1 no such user", "{dead}");
    let text = dead.to_string();
    ensure!(!text.contains("x.test") && !text.contains(&token(1)), "{text}");
    let sent = last_of(&broker, &format!("mailroom.verdict.{}", key(2))).await?;
    ensure!(sent["verdict"] == "sent" && sent["receipt"]["provider"] == "smtp", "{sent}");
    sender.stop()?;
    Ok(())
}

/// As the database has it, whatever the action is called.
#[tokio::test]
async fn what_has_the_first_priority_has_its_own_place_at_the_broker() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let database = Database::create()?.migrate_with(&["--without-accounts"])?;
    let rows = database.connect().await?;
    rows.batch_execute(
        "UPDATE mailroom.actions SET priority = 0 WHERE name = 'invite';
         UPDATE mailroom.actions SET priority = 1 WHERE name = 'recover'",
    )
    .await?;
    for action in ["invite", "recover", "sign_in"] {
        rows.mail(action).to(format!("{action}@x.test")).enqueue().await?;
    }
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    let broker = client(&nats).await?;
    wait_for_waiting(&broker, 3).await?;
    let stream = broker.get_stream("mailroom").await?;
    for subject in ["first.invite", "other.recover", "first.sign_in"] {
        let subject = format!("mailroom.mail.{subject}");
        let found = stream.get_last_raw_message_by_subject(&subject).await;
        ensure!(found.is_ok(), "there is nothing at {subject}: {found:?}");
    }
    collector.stop()?;
    Ok(())
}
