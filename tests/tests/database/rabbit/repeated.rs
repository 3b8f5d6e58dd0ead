//! Mails that come again, that are over, or that go first, and what is no mail.

use anyhow::{Context, Result, ensure};
use lapin::BasicProperties;
use lapin::options::BasicPublishOptions;
use lapin::types::{AMQPValue, FieldTable};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::rabbit::Rabbit;
use mailroom_tests::sending::{Configuration, item};
use mailroom_tests::through_broker::now;
use serde_json::json;

use super::{
    answer_to, client, expiring, publish, publish_items, reached, relay, sender, texts,
    wait_for_recipients, wait_for_waiting,
};

#[tokio::test]
async fn a_mail_that_comes_again_from_rabbitmq_for_ever_ends_with_its_token() -> Result<()> {
    const QUEUE: &str = "for-ever";
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&rabbit, QUEUE)?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    // The time of the other one begins when the sender works.
    publish(&mut relay, "a", &[(2, "ada@x.test")])?;
    wait_for_recipients(&server, 1)?;
    publish_items(&mut relay, "b", &[expiring(1, "rcpt-451@x.test", 40)?])?;
    let (_connection, broker) = client(&rabbit).await?;
    wait_for_waiting(&broker, "for-ever.verdicts", 2).await?;
    let verdicts = texts(&broker, "for-ever.verdicts").await?;
    ensure!(verdicts.iter().any(|verdict| verdict["verdict"] == "expired"), "{verdicts:?}");
    let (_, said) = sender.stop()?;
    ensure!(said.contains("1 expired") && said.contains("refused for now"), "{said}");
    ensure!(said.contains("delivered again"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_mail_that_expires_at_rabbitmq_lapses_and_is_counted() -> Result<()> {
    const QUEUE: &str = "lapsing";
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&rabbit, QUEUE)?;
    publish_items(&mut relay, "a", &[expiring(1, "ada@x.test", 2)?])?;
    let (_connection, broker) = client(&rabbit).await?;
    // By the broker itself.
    wait_for_waiting(&broker, "lapsing.lapsed", 1).await?;
    publish(&mut relay, "b", &[(2, "bob@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    wait_for_recipients(&server, 1)?;
    wait_for_waiting(&broker, "lapsing.verdicts", 2).await?;
    let (_, said) = sender.stop()?;
    ensure!(said.contains("1 expired, 1 sent"), "{said}");
    ensure!(!reached(&server).contains_key("ada@x.test"), "{:?}", reached(&server));
    Ok(())
}

#[tokio::test]
async fn a_recovery_is_before_the_others_that_wait_at_rabbitmq() -> Result<()> {
    const QUEUE: &str = "waiting";
    const MAILS: i64 = 60;
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let Some(server) = MailServer::start(&["--delay", "0.2"])? else { return Ok(()) };
    let mut relay = relay(&rabbit, QUEUE)?;
    let people: Vec<_> = (1..=MAILS).map(|id| (id, format!("p{id}@x.test"))).collect();
    let people: Vec<_> = people.iter().map(|(id, email)| (*id, email.as_str())).collect();
    publish(&mut relay, "a", &people)?;
    let mut recovery = item(MAILS + 1, "eva@x.test");
    recovery["action"] = json!("recover");
    recovery["path"] = json!("/recover");
    publish_items(&mut relay, "b", &[recovery])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &["--in-flight", "2"])?;
    wait_for_recipients(&server, usize::try_from(MAILS)?)?;
    sender.stop()?;
    let place = server.mails().iter().position(|mail| mail.to == "eva@x.test");
    let place = place.context("it is not sent")?;
    // Those that are sent already when it comes are not called back: on a busy machine the broker
    // may give out the others a moment earlier.
    ensure!(place < 30, "{place} mails were before it");
    Ok(())
}

#[tokio::test]
async fn a_dead_letter_that_is_put_back_is_sent_by_rabbitmq() -> Result<()> {
    const QUEUE: &str = "put-back";
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&rabbit, QUEUE)?;
    let people = [(1, "rcpt-550-first@x.test")];
    publish(&mut relay, "a", &people)?;
    let (_connection, broker) = client(&rabbit).await?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    wait_for_waiting(&broker, "put-back.verdicts", 1).await?;
    // At once: the sender knows the first message from the second one.
    publish(&mut relay, "b", &people)?;
    wait_for_recipients(&server, 1)?;
    wait_for_waiting(&broker, "put-back.verdicts", 2).await?;
    sender.stop()?;
    Ok(())
}

#[tokio::test]
async fn what_is_no_mail_of_this_version_holds_up_none_at_rabbitmq() -> Result<()> {
    const QUEUE: &str = "strange";
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&rabbit, QUEUE)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    let (_connection, broker) = client(&rabbit).await?;
    let later = item(2, "bob@x.test").to_string();
    let strange = ["", "a secret", "{}", "[\"a secret\"]", "{\"id\":1,\"key\":\"a secret\"}"];
    for text in strange.iter().copied().chain([later.as_str()]) {
        let mut properties = BasicProperties::default();
        if text == later {
            let mut headers = FieldTable::default();
            headers.insert("mailroom-version".into(), AMQPValue::LongInt(2));
            properties = properties.with_headers(headers);
        }
        let options = BasicPublishOptions::default();
        let key = "mail.other.activate".into();
        broker.basic_publish(QUEUE.into(), key, options, text.as_bytes(), properties).await?;
    }
    publish(&mut relay, "b", &[(3, "eva@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    wait_for_recipients(&server, 2)?;
    wait_for_waiting(&broker, "strange.dead", 5).await?;
    wait_for_waiting(&broker, "strange.later.8", 1).await?;
    let dead = texts(&broker, "strange.dead").await?;
    ensure!(dead.iter().all(|dead| dead["reason"] == "it is no mail"), "{dead:?}");
    let (_, said) = sender.stop()?;
    ensure!(said.contains("5 no mail") && said.contains("of another version"), "{said}");
    ensure!(!said.contains("a secret"), "{said}");
    ensure!(!reached(&server).contains_key("bob@x.test"), "{:?}", reached(&server));
    Ok(())
}

/// What strangers may write to a message beside its mail.
fn odd_messages() -> Result<Vec<(&'static str, String, BasicProperties)>> {
    const MAIL: &str = "mail.other.activate";
    let since = |seconds| Ok::<_, anyhow::Error>(now()? + seconds);
    let with = |header: &str, value: i64| {
        let mut headers = FieldTable::default();
        headers.insert(header.into(), AMQPValue::LongLongInt(value));
        BasicProperties::default().with_headers(headers)
    };
    let mut messages = Vec::new();
    for id in 100..140 {
        let list = json!([id, item(id, "")["key"], "activate", since(900)?, 1, 0, 1]);
        messages.push((MAIL, list.to_string(), BasicProperties::default()));
    }
    for timestamp in [u64::MAX, u64::try_from(i64::MAX)?] {
        let properties = BasicProperties::default().with_timestamp(timestamp);
        messages.push(("lapsed", "{}".to_owned(), properties.clone().with_type("verdict".into())));
        messages.push(("lapsed", "{}".to_owned(), properties));
    }
    for (id, header, value) in [
        (201, "mailroom-delivered", i64::MAX),
        (202, "mailroom-delivered", -5),
        (203, "mailroom-sequence", -1),
        (204, "mailroom-doubts", 1 << 40),
    ] {
        let mail = item(id, &format!("p{id}@x.test")).to_string();
        messages.push((MAIL, mail, with(header, value)));
    }
    let mut over = item(205, "over@x.test");
    over["expires_at"] = json!(since(-5)?);
    messages.push((MAIL, over.to_string(), with("mailroom-not-before", i64::MAX)));
    Ok(messages)
}

#[tokio::test]
async fn no_properties_of_a_message_at_rabbitmq_stop_the_mails() -> Result<()> {
    const QUEUE: &str = "odd";
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&rabbit, QUEUE)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    let (_connection, broker) = client(&rabbit).await?;
    for (key, text, properties) in odd_messages()? {
        let options = BasicPublishOptions::default();
        broker
            .basic_publish(QUEUE.into(), key.into(), options, text.as_bytes(), properties)
            .await?;
    }
    publish(&mut relay, "b", &[(2, "bob@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    // The two, and the four whose headers are odd.
    wait_for_recipients(&server, 6)?;
    for queue in ["odd.other", "odd.lapsed", "odd.later.256"] {
        wait_for_waiting(&broker, queue, 0).await?;
    }
    let (_, said) = sender.stop()?;
    ensure!(said.contains("1 expired") && said.contains("6 sent"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_mail_that_is_longer_than_rabbitmq_is_told_to_take_stops_no_other() -> Result<()> {
    const QUEUE: &str = "short";
    let Some(mut rabbit) = Rabbit::reserve()? else { return Ok(()) };
    let port = rabbit.port();
    let listener = format!("listeners.tcp.1 = 127.0.0.1:{port}\n");
    rabbit.configure(&format!("{listener}max_message_size = 65536\n"))?;
    rabbit.run()?;
    let mut relay = relay(&rabbit, QUEUE)?;
    let mut long = item(9, "long@x.test");
    long["payload"] = json!("x".repeat(100_000));
    let mut answers = Vec::new();
    for id in 1..=2 {
        let items = [long.clone(), item(id, &format!("p{id}@x.test"))];
        answers.push(answer_to(&mut relay, "b", &items)?);
    }
    // The first one may have ended the channel of the other one, which comes again.
    for answer in &answers {
        ensure!(answer["retry"][0]["id"] == 9, "{answer}");
    }
    ensure!(answers[1]["ok"][0] == 2, "{answers:?}");
    Ok(())
}
