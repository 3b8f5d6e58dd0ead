//! Mails that come again: to the broker, and from it.

use anyhow::{Result, ensure};
use async_nats::jetstream::Context as JetStream;
use mailroom_tests::broker::Nats;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::sending::{Configuration, key};

use serde_json::json;

use super::{
    client, expiring, impatient, last_of, now, publish, publish_items, reached, relay, sender,
    wait_for_recipients, wait_for_waiting, wait_until_given_out_again,
};

#[tokio::test]
async fn a_mail_that_was_sent_is_not_stored_again() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    wait_for_recipients(&server, 1)?;
    let broker = client(&nats).await?;
    wait_for_waiting(&broker, 0).await?;
    sender.stop()?;
    publish(&mut relay, "b", &[(1, "ada@x.test")])?;
    wait_for_waiting(&broker, 0).await?;
    let (_, said) = relay.finish()?;
    ensure!(said.contains("1 published, 1 were there before"), "{said}");
    Ok(())
}

/// The broker knows the key, and has nothing with it any more.
#[tokio::test]
async fn a_dead_letter_that_is_put_back_is_sent() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    let people = [(1, "rcpt-550-first@x.test")];
    publish(&mut relay, "a", &people)?;
    let broker = client(&nats).await?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    wait_for_waiting(&broker, 0).await?;
    ensure!(last_of(&broker, &format!("mailroom.verdict.{}", key(1))).await?["verdict"] == "dead");
    publish(&mut relay, "b", &people)?;
    wait_for_recipients(&server, 1)?;
    wait_for_waiting(&broker, 0).await?;
    ensure!(last_of(&broker, &format!("mailroom.verdict.{}", key(1))).await?["verdict"] == "sent");
    sender.stop()?;
    Ok(())
}

/// Records the verdict on the first message, as its sender does.
async fn give_up(broker: &JetStream, kind: &str) -> Result<()> {
    let verdict = json!({
        "v": 1, "id": 1, "key": key(1), "action": "activate", "verdict": kind,
        "attempt": 1, "sequence": 1, "at": now()? + 1, "reason": "may have been delivered",
    });
    let subject = format!("mailroom.verdict.{}", key(1));
    broker.publish(subject, verdict.to_string().into()).await?.await?;
    Ok(())
}

/// As when its sender was killed after the verdict, and an operator was quicker than the next one.
#[tokio::test]
async fn a_dead_letter_is_sent_that_was_put_back_while_its_former_message_is_there() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    let broker = client(&nats).await?;
    give_up(&broker, "dead").await?;
    publish(&mut relay, "b", &[(1, "ada@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    wait_for_recipients(&server, 1)?;
    wait_for_waiting(&broker, 0).await?;
    sender.stop()?;
    Ok(())
}

/// The broker's index would know of it later than the messages do: after a kill between the two it
/// has lost others.
#[tokio::test]
async fn a_message_that_is_replaced_is_not_overwritten() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    // Where none is left the broker begins a new file.
    publish(&mut relay, "other", &[(2, "bob@x.test")])?;
    let broker = client(&nats).await?;
    give_up(&broker, "dead").await?;
    publish(&mut relay, "b", &[(1, "ada@x.test")])?;
    wait_for_waiting(&broker, 2).await?;
    let stored = nats.copy_of_messages("mailroom")?;
    let text: String = stored.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes)).collect();
    let count = text.matches("ada@x.test").count();
    ensure!(count == 2, "the address is there {count} times");
    Ok(())
}

/// Its sender has recorded the verdict, and was killed before the broker heard that it is over.
#[tokio::test]
async fn a_mail_that_was_given_up_is_not_tried_again_by_another_machine() -> Result<()> {
    for kind in ["dead", "expired"] {
        let Some(nats) = Nats::start(&[])? else { return Ok(()) };
        let Some(server) = MailServer::start(&[])? else { return Ok(()) };
        let mut relay = relay(&nats)?;
        publish(&mut relay, "a", &[(1, "rcpt-451@x.test")])?;
        let broker = client(&nats).await?;
        let configuration = Configuration::smtp(server.port, "")?;
        let killed = impatient(&nats, &configuration, &[])?;
        wait_until_given_out_again(&broker).await?;
        killed.kill()?;
        give_up(&broker, kind).await?;
        let other = impatient(&nats, &configuration, &[])?;
        wait_for_waiting(&broker, 0).await?;
        let (_, said) = other.stop()?;
        ensure!(said.contains("1 given up before"), "{kind}: {said}");
        ensure!(!said.contains("refused for now"), "{kind}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn a_mail_that_comes_again_for_ever_ends_with_its_token() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    // The time of the other one begins when the sender works.
    publish(&mut relay, "a", &[(2, "ada@x.test")])?;
    wait_for_recipients(&server, 1)?;
    publish_items(&mut relay, "b", &[expiring(1, "rcpt-451@x.test", 40)?])?;
    let broker = client(&nats).await?;
    wait_for_waiting(&broker, 0).await?;
    let verdict = last_of(&broker, &format!("mailroom.verdict.{}", key(1))).await?;
    ensure!(verdict["verdict"] == "expired", "{verdict}");
    let (_, said) = sender.stop()?;
    ensure!(said.contains("1 expired") && said.contains("refused for now"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_mail_that_expires_while_no_sender_runs_is_dropped_and_counted() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish_items(&mut relay, "a", &[expiring(1, "ada@x.test", -1)?])?;
    publish(&mut relay, "b", &[(2, "bob@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    wait_for_recipients(&server, 1)?;
    wait_for_waiting(&client(&nats).await?, 0).await?;
    let (_, said) = sender.stop()?;
    ensure!(said.contains("1 expired, 1 sent"), "{said}");
    ensure!(!reached(&server).contains_key("ada@x.test"), "{:?}", reached(&server));
    Ok(())
}
