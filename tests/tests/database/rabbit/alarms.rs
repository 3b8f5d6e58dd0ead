//! What has to come again while RabbitMQ takes nothing.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lapin::BasicProperties;
use lapin::options::{BasicGetOptions, BasicPublishOptions};
use lapin::types::{AMQPValue, FieldTable};
use mailroom_tests::collector::{Collector, wait_long_until};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::rabbit::Rabbit;
use mailroom_tests::rows::register;
use mailroom_tests::sending::{Configuration, item};
use serde_json::json;
use tokio::time::sleep;

use super::{client, collecting, publish, relay, sender, wait_for_waiting};

const LEVEL: &str = "set_vm_memory_high_watermark";

/// It cannot be given back with its pause, which is a minute after so many attempts.
#[tokio::test]
async fn a_mail_that_is_refused_for_now_keeps_its_pause_during_an_alarm_of_rabbitmq() -> Result<()>
{
    const QUEUE: &str = "paced";
    let Some(rabbit) = Rabbit::start()? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    // It makes the queues.
    publish(&mut relay(&rabbit, QUEUE)?, "a", &[(1, "ada@x.test")])?;
    let (_connection, broker) = client(&rabbit).await?;
    let mut headers = FieldTable::default();
    headers.insert("mailroom-delivered".into(), AMQPValue::LongLongInt(10));
    let properties = BasicProperties::default().with_headers(headers);
    let mail = item(2, "rcpt-451@x.test").to_string();
    let (key, options) = ("mail.other.activate".into(), BasicPublishOptions::default());
    broker.basic_publish(QUEUE.into(), key, options, mail.as_bytes(), properties).await?;
    // The alarm stops a connection that has published.
    let (_connection, broker) = client(&rabbit).await?;
    wait_for_waiting(&broker, "paced.other", 2).await?;
    rabbit.control(&[LEVEL, "absolute", "1"])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    let tried = || server.recipients().iter().filter(|to| to.starts_with("rcpt-451")).count();
    let is_tried = wait_long_until(|| tried() == 1);
    sleep(Duration::from_secs(30)).await;
    let count = tried();
    rabbit.control(&[LEVEL, "0.4"])?;
    let (_, said) = sender.stop()?;
    is_tried.with_context(|| said.clone())?;
    ensure!(count == 1, "it was tried {count} times: {said}");
    Ok(())
}

/// The token is in the queue, since the broker takes no mails.
#[tokio::test]
async fn a_verdict_that_is_early_keeps_its_pauses_during_an_alarm_of_rabbitmq() -> Result<()> {
    const QUEUE: &str = "early";
    let Some(rabbit) = Rabbit::start()? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    publish(&mut relay(&rabbit, QUEUE)?, "a", &[(987_654, "ada@x.test")])?;
    register(&rows, 1..=1).await?;
    let query = "SELECT id, encode(consumed_id, 'hex') FROM mailroom.issued_tokens";
    let row = rows.query_one(query, &[]).await?;
    let (id, key): (i64, String) = (row.get(0), row.get(1));
    let verdict = json!({
        "v": 1, "id": id, "key": key, "action": "activate", "verdict": "sent", "at": 5,
        "attempt": 1,
    });
    let (_connection, broker) = client(&rabbit).await?;
    let properties = BasicProperties::default().with_type("verdict".into());
    let (text, options) = (verdict.to_string(), BasicPublishOptions::default());
    let published =
        broker.basic_publish(QUEUE.into(), "verdict".into(), options, text.as_bytes(), properties);
    published.await?;
    // The alarm stops a connection that has published.
    let (_connection, broker) = client(&rabbit).await?;
    wait_for_waiting(&broker, "early.verdicts", 1).await?;
    rabbit.control(&[LEVEL, "absolute", "1"])?;
    let collector = Collector::start(&mut collecting(&database, &rabbit, QUEUE)?)?;
    collector.wait_for_log("it has an alarm of its memory or disk", 1)?;
    sleep(Duration::from_secs(10)).await;
    let log = collector.stop()?;
    wait_for_waiting(&broker, "early.verdicts", 1).await.context(log)?;
    let message = broker.basic_get("early.verdicts".into(), BasicGetOptions::default()).await?;
    let message = message.context("the verdict is gone")?;
    let headers = message.properties.headers().clone().unwrap_or_default();
    let count = match headers.inner().get("x-delivery-count") {
        Some(AMQPValue::LongLongInt(count)) => *count,
        Some(AMQPValue::LongInt(count)) => (*count).into(),
        other => anyhow::bail!("it was never given back: {other:?}"),
    };
    rabbit.control(&[LEVEL, "0.4"])?;
    ensure!(count < 10, "it was given out {count} times");
    Ok(())
}
