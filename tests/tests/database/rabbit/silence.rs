//! What is known of a RabbitMQ that says nothing more, or is another one now.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, ExchangeDeleteOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use mailroom_tests::collector::{self, Collector, PATIENCE, wait_until};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::proxy::Proxy;
use mailroom_tests::rabbit::Rabbit;
use mailroom_tests::sending::{Sending, batch, item};
use serde_json::json;
use tokio::time::sleep;

use super::{answer_to, client, publish, publish_items, relay};

/// A relay that takes minutes to find out by signs of life that a connection is dead.
fn patient(way: &Proxy, queue: &str) -> Result<Sending> {
    let url = format!("amqp://127.0.0.1:{}", way.port());
    let arguments = ["relay", "--to", &url, "--queue", queue, "--redeliver-after", "600"];
    Sending::run(program::mailroom()?.args(arguments))
}

/// Its collector takes a relay for hung that says nothing for half a minute, and counts an attempt
/// of each mail.
#[tokio::test]
async fn many_mails_wait_no_longer_than_one_for_a_rabbitmq_that_says_nothing() -> Result<()> {
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let way = Proxy::start(rabbit.port())?;
    let mut relay = patient(&way, "silent-many")?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    way.silence();
    let names: Vec<_> = (2..=30).map(|id| format!("p{id}@x.test")).collect();
    let people: Vec<_> = (2..).zip(names.iter().map(String::as_str)).collect();
    // Those that are on their way, and those that need another channel.
    for name in ["b", "c"] {
        relay.write(&batch(name, &people))?;
        // One after the other they would wait for two minutes, five seconds each.
        let answer = relay.answer().with_context(|| name.to_owned())?;
        ensure!(answer.get("unavailable").is_some() && answer.get("ok").is_none(), "{answer}");
    }
    let begin = Instant::now();
    loop {
        relay.write(&batch("d", &people))?;
        let answer = relay.answer()?;
        if answer["ok"].as_array().is_some_and(|stored| stored.len() == people.len()) {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "{answer}");
    }
}

/// As of one that hangs, or whose balancer has none behind it.
#[tokio::test]
async fn a_rabbitmq_that_greets_nobody_costs_no_more_connections_with_each_attempt() -> Result<()> {
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let way = Proxy::start(rabbit.port())?;
    way.half_open();
    let mut relay = patient(&way, "silent-greeting")?;
    let id = relay.id();
    let count = |what: &str| -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{id}/{what}"))?.count())
    };
    let mut before = (0, 0);
    for name in ["a", "b", "c", "d"] {
        relay.write(&batch(name, &[(1, "ada@x.test")]))?;
        let answer = relay.answer()?;
        ensure!(answer.get("unavailable").is_some(), "{answer}");
        // It is not tried again at once.
        sleep(Duration::from_millis(500)).await;
        if name == "a" {
            before = (count("fd")?, count("task")?);
        }
    }
    wait_until(|| count("fd").is_ok_and(|now| now <= before.0))?;
    wait_until(|| count("task").is_ok_and(|now| now <= before.1))?;
    way.restore();
    publish(&mut relay, "e", &[(1, "ada@x.test")])
}

#[tokio::test]
async fn a_rabbitmq_that_takes_longer_mails_after_a_restart_gets_them() -> Result<()> {
    let Some(mut rabbit) = Rabbit::reserve()? else { return Ok(()) };
    let listener = format!("listeners.tcp.1 = 127.0.0.1:{}\n", rabbit.port());
    rabbit.configure(&format!("{listener}max_message_size = 65536\n"))?;
    rabbit.run()?;
    let mut relay = relay(&rabbit, "longer")?;
    let mut long = item(1, "ada@x.test");
    long["payload"] = json!({"text": "x".repeat(100_000)});
    let answer = answer_to(&mut relay, "a", std::slice::from_ref(&long))?;
    ensure!(answer["retry"][0]["id"] == 1, "{answer}");
    rabbit.kill()?;
    rabbit.configure(&listener)?;
    rabbit.run()?;
    // It may still be starting.
    publish_items(&mut relay, "b", &[long])
}

#[tokio::test]
async fn verdicts_are_claimed_again_where_another_database_has_claimed_them() -> Result<()> {
    const QUEUE: &str = "reclaimed";
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let way = Proxy::start(rabbit.port())?;
    let database = Database::migrated()?;
    let mut command = collector::command(database.url())?;
    let broker = format!("amqp://127.0.0.1:{} --queue {QUEUE}", way.port());
    let through = format!("'{}' relay --to {broker}", program::path()?);
    command.args(["--sender", &through, "--verdicts-from", &broker]);
    let collector = Collector::start(&mut command)?;
    let exchange = || format!("{QUEUE}.ledger").into();
    let begin = Instant::now();
    loop {
        let (_connection, broker) = client(&rabbit).await?;
        let options = ExchangeDeclareOptions { passive: true, ..Default::default() };
        let none = FieldTable::default();
        if broker.exchange_declare(exchange(), ExchangeKind::Topic, options, none).await.is_ok() {
            break;
        }
        ensure!(begin.elapsed() < PATIENCE, "nothing is claimed");
        sleep(Duration::from_millis(100)).await;
    }
    // As after its disk was lost, where another collector was the first one to come.
    let (_connection, broker) = client(&rabbit).await?;
    broker.exchange_delete(exchange(), ExchangeDeleteOptions::default()).await?;
    let mut arguments = FieldTable::default();
    let other = AMQPValue::LongString(format!("{QUEUE}.another").into());
    arguments.insert("alternate-exchange".into(), other);
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    broker.exchange_declare(exchange(), ExchangeKind::Topic, options, arguments).await?;
    way.cut();
    collector.wait_for_log("the verdicts at reclaimed are those of another database", 1)?;
    collector.stop()?;
    Ok(())
}

/// The client of RabbitMQ would write it there, link and all.
#[tokio::test]
async fn a_mail_that_rabbitmq_returns_is_in_no_log() -> Result<()> {
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let mut relay = relay(&rabbit, "returned")?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    let (_connection, broker) = client(&rabbit).await?;
    broker.queue_delete("returned.other".into(), QueueDeleteOptions::default()).await?;
    relay.write(&batch("b", &[(2, "bob@x.test")]))?;
    let answer = relay.answer()?;
    ensure!(answer.get("unavailable").is_some(), "{answer}");
    let (_, said) = relay.finish()?;
    let lines: Vec<_> = said.lines().collect();
    ensure!(said.contains("it was deleted"), "{said}");
    ensure!(lines.iter().all(|line| line.starts_with("mailroom relay: ")), "{said}");
    Ok(())
}
