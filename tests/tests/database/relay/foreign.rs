//! Messages that are no mails of this version.

use anyhow::{Result, ensure};
use async_nats::HeaderMap;
use mailroom_tests::broker::Nats;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::sending::{Configuration, item, key};
use serde_json::json;

use super::{
    client, impatient, last_of, now, publish, reached, relay, sender, wait_for_recipients,
    wait_for_waiting,
};

#[tokio::test]
async fn a_message_that_is_no_mail_is_a_dead_letter_and_holds_up_none() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    let broker = client(&nats).await?;
    for text in ["", "a secret", "{}", "[\"a secret\"]", "{\"id\":1,\"key\":\"a secret\"}"] {
        broker.publish("mailroom.mail.other.activate", text.into()).await?.await?;
    }
    publish(&mut relay, "b", &[(2, "bob@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    wait_for_recipients(&server, 2)?;
    wait_for_waiting(&broker, 0).await?;
    let dead = last_of(&broker, "mailroom.dead.foreign").await?;
    ensure!(dead["reason"] == "it is no mail" && !dead.to_string().contains("secret"), "{dead}");
    let (_, said) = sender.stop()?;
    ensure!(said.contains("5 no mail") && !said.contains("a secret"), "{said}");
    Ok(())
}

/// A list of an item's values, which some readers take for an item.
fn list(id: i64) -> Result<String> {
    let item = item(id, "ada@x.test");
    Ok(json!([id, item["key"], "activate", now()? + 900, 1, 0, 1]).to_string())
}

#[tokio::test]
async fn messages_that_look_like_mails_to_one_reader_alone_stop_no_mails() -> Result<()> {
    // More than a sender takes at a time.
    const LISTS: i64 = 40;
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    let broker = client(&nats).await?;
    for id in 100..100 + LISTS {
        broker.publish("mailroom.mail.other.activate", list(id)?.into()).await?.await?;
    }
    publish(&mut relay, "b", &[(2, "bob@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    wait_for_recipients(&server, 2)?;
    wait_for_waiting(&broker, 0).await?;
    let (_, said) = sender.stop()?;
    ensure!(said.contains(&format!("{LISTS} no mail, 2 sent")), "{said}");
    Ok(())
}

/// A client takes the first one for a word of the broker, and cannot read the others.
#[tokio::test]
async fn a_message_whose_headers_no_client_takes_is_ended_and_holds_up_none() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    for headers in ["NATS/1.0 404", "NATS/1.0 xyz", "NATS/1.0\r\nno header"] {
        let headers = format!("{headers}\r\n\r\n");
        nats.publish_odd("mailroom.mail.other.activate", &headers, "a secret")?;
    }
    publish(&mut relay, "b", &[(2, "bob@x.test")])?;
    let broker = client(&nats).await?;
    wait_for_waiting(&broker, 5).await?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = impatient(&nats, &configuration, &[])?;
    wait_for_recipients(&server, 2)?;
    wait_for_waiting(&broker, 0).await?;
    let dead = last_of(&broker, "mailroom.dead.foreign").await?;
    ensure!(dead["reason"] == "it is no mail" && !dead.to_string().contains("secret"), "{dead}");
    let (_, said) = sender.stop()?;
    ensure!(!said.contains("a secret"), "{said}");
    Ok(())
}

/// It would hold a mail until its token expires, and let one that was sent be sent again.
#[tokio::test]
async fn what_is_no_verdict_is_set_aside_and_hides_none_before_it() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test"), (2, "bob@x.test")])?;
    let broker = client(&nats).await?;
    let sent = json!({
        "v": 1, "id": 2, "key": key(2), "action": "activate", "verdict": "sent", "at": now()?,
    });
    let sent = sent.to_string();
    for (id, text) in [(1, "a secret"), (1, "{}"), (2, sent.as_str()), (2, "a secret")] {
        broker
            .publish(format!("mailroom.verdict.{}", key(id)), text.to_owned().into())
            .await?
            .await?;
    }
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    wait_for_recipients(&server, 1)?;
    wait_for_waiting(&broker, 0).await?;
    let dead = last_of(&broker, "mailroom.dead.foreign").await?;
    ensure!(dead["reason"] == "it is no verdict", "{dead}");
    let (_, said) = sender.stop()?;
    ensure!(!reached(&server).contains_key("bob@x.test"), "{:?}", reached(&server));
    ensure!(said.contains("with what is no verdict, which is set aside"), "{said}");
    ensure!(said.contains("1 sent before") && !said.contains("a secret"), "{said}");
    Ok(())
}

/// What no consumer takes is found by the look at what is left behind.
#[tokio::test]
async fn a_mail_under_a_subject_of_no_consumer_goes_out_after_a_while() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    let broker = client(&nats).await?;
    let stray = item(2, "bob@x.test").to_string();
    broker.publish("mailroom.mail.third.activate", stray.into()).await?.await?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = impatient(&nats, &configuration, &[])?;
    wait_for_recipients(&server, 2)?;
    wait_for_waiting(&broker, 0).await?;
    sender.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_mail_of_another_version_waits_for_its_own_senders() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    let broker = client(&nats).await?;
    let mut headers = HeaderMap::new();
    headers.insert("Mailroom-Version", "2");
    let later = item(2, "bob@x.test").to_string();
    let subject = "mailroom.mail.other.activate";
    broker.publish_with_headers(subject, headers, later.into()).await?.await?;
    publish(&mut relay, "b", &[(3, "eva@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    wait_for_recipients(&server, 2)?;
    wait_for_waiting(&broker, 1).await?;
    let (_, said) = sender.stop()?;
    ensure!(said.contains("of another version"), "{said}");
    ensure!(!reached(&server).contains_key("bob@x.test"), "{:?}", reached(&server));
    Ok(())
}
