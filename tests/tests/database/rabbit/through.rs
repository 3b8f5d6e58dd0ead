//! From the database through the broker to the recipients, and back.

use anyhow::{Result, ensure};
use mailroom_tests::collector::Collector;
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::rabbit::Rabbit;
use mailroom_tests::rows::wait_for;
use mailroom_tests::sending::{Configuration, key, token};

use super::{
    client, collecting, publish, reached, relay, sender, texts, wait_for_recipients,
    wait_for_waiting, wait_until_waiting,
};

#[tokio::test]
async fn mails_reach_their_recipients_by_rabbitmq_and_each_verdict_comes_back() -> Result<()> {
    const QUEUE: &str = "through";
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    rows.accounts(numbered("p", 1..=30)).at("x.test").insert().await?;
    rows.account("busy").email("rcpt-451-first@x.test").insert().await?;
    let eva = rows.account("eva").at("x.test").active().insert().await?;
    rows.token().recovery().of(eva).insert().await?;
    let collector = Collector::start(&mut collecting(&database, &rabbit, QUEUE)?)?;
    // What the broker has is not sent.
    let state =
        |state: &str| format!("SELECT count(*) FROM mailroom.deliveries WHERE state = '{state}'");
    wait_for(&rows, &state("handed_over"), 32_i64).await?;
    let (_connection, broker) = client(&rabbit).await?;
    wait_until_waiting(&broker, "through.first", |found| found >= 1).await?;
    wait_until_waiting(&broker, "through.other", |found| found >= 31).await?;
    let receipts = "SELECT count(*) FROM mailroom.receipts WHERE provider = 'smtp'";
    wait_for(&rows, receipts, 0_i64).await?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    wait_for_recipients(&server, 32)?;
    wait_for(&rows, &state("sent"), 32_i64).await?;
    wait_for(&rows, receipts, 32_i64).await?;
    let log = collector.stop()?;
    ensure!(!log.contains("@x.test"), "an address is in the log:\n{log}");
    let (status, said) = sender.stop()?;
    ensure!(status.success() && said.contains("32 sent"), "{status}: {said}");
    ensure!(said.contains("1 refused for now"), "{said}");
    ensure!(!said.contains("@x.test"), "an address is in the log:\n{said}");
    ensure!(reached(&server).values().all(|count| *count == 1), "{:?}", reached(&server));
    for queue in ["first", "other", "lapsed", "verdicts", "dead"] {
        wait_for_waiting(&broker, &format!("through.{queue}"), 0).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_never_can_be_sent_is_a_dead_letter_of_rabbitmq_without_its_link() -> Result<()> {
    const QUEUE: &str = "dead-letters";
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&rabbit, QUEUE)?;
    publish(&mut relay, "b", &[(1, "gone@x.test"), (2, "ada@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    let (_connection, broker) = client(&rabbit).await?;
    wait_for_waiting(&broker, "dead-letters.verdicts", 2).await?;
    sender.stop()?;
    let dead = texts(&broker, "dead-letters.dead").await?;
    ensure!(dead.len() == 1 && dead[0]["id"] == 1 && dead[0]["verdict"] == "dead", "{dead:?}");
    ensure!(dead[0]["reason"] == "550 5.1.1 no such user", "{dead:?}");
    let text = dead[0].to_string();
    ensure!(!text.contains("x.test") && !text.contains(&token(1)), "{text}");
    let verdicts = texts(&broker, "dead-letters.verdicts").await?;
    let sent = verdicts.iter().find(|verdict| verdict["key"] == key(2));
    ensure!(
        sent.is_some_and(|sent| sent["verdict"] == "sent" && sent["receipt"]["provider"] == "smtp"),
        "{verdicts:?}"
    );
    wait_for_waiting(&broker, "dead-letters.other", 0).await
}
