//! `mailroom relay` and `mailroom send --from` with RabbitMQ, and with a real mail server. Tests
//! whose server is never stopped share one, and take a queue each.

mod alarms;
mod full_disk;
mod kills;
mod outages;
mod repeated;
mod silence;
mod through;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use lapin::options::{BasicAckOptions, BasicGetOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use mailroom_tests::collector::{self, PATIENCE};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rabbit::Rabbit;
use mailroom_tests::sending::{Configuration, Sending};
use mailroom_tests::through_broker::{
    answer_to, counted, doubled, expiring, publish, publish_items, reached, refusal,
    wait_for_recipients,
};
use serde_json::Value;
use tokio::time::sleep;

/// A relay of this test, which writes the lines.
fn relay(rabbit: &Rabbit, queue: &str) -> Result<Sending> {
    Sending::run(program::mailroom()?.args(["relay", "--to", &rabbit.url(), "--queue", queue]))
}

/// A sender that takes mails from the broker.
fn sender(
    rabbit: &Rabbit,
    queue: &str,
    configuration: &Configuration,
    further: &[&str],
) -> Result<Sending> {
    let url = rabbit.url();
    let arguments = ["--from", &url, "--queue", queue, "--redeliver-after", "4"];
    Sending::start(configuration, &[&arguments, further].concat())
}

/// A collector that gives mails to the broker, and records what their senders say.
fn collecting(database: &Database, rabbit: &Rabbit, queue: &str) -> Result<Command> {
    let mut command = collector::command(database.url())?;
    let broker = format!("{} --queue {queue}", rabbit.url());
    let through = format!("'{}' relay --to {broker}", command.get_program().to_string_lossy());
    command.args(["--batch-timeout", "0", "--poll-interval", "200ms", "--sender", &through]);
    command.args(["--verdicts-from", &broker]);
    Ok(command)
}

/// Somebody who looks at the queues, and the connection.
async fn client(rabbit: &Rabbit) -> Result<(Connection, Channel)> {
    let connection = Connection::connect(&rabbit.url(), ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    Ok((connection, channel))
}

/// How many messages a queue has that nobody is working on.
async fn waiting(channel: &Channel, queue: &str) -> Result<u32> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let found = channel.queue_declare(queue.into(), options, FieldTable::default()).await?;
    Ok(found.message_count())
}

/// Waits until a queue has so many messages that nobody is working on.
async fn wait_for_waiting(channel: &Channel, queue: &str, count: u32) -> Result<()> {
    wait_until_waiting(channel, queue, |found| found == count).await
}

/// Waits until the messages of a queue that nobody is working on are as many as wanted. What is
/// published is stored twice where the broker is late to confirm it.
async fn wait_until_waiting(
    channel: &Channel,
    queue: &str,
    is_wanted: impl Fn(u32) -> bool,
) -> Result<()> {
    let begin = Instant::now();
    loop {
        let found = waiting(channel, queue).await?;
        if is_wanted(found) {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            bail!("{queue} has {found} messages");
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// The texts of a queue, each taken out of it.
async fn texts(channel: &Channel, queue: &str) -> Result<Vec<Value>> {
    let mut texts = Vec::new();
    while let Some(message) = channel.basic_get(queue.into(), BasicGetOptions::default()).await? {
        texts.push(serde_json::from_slice(&message.data)?);
        message.ack(BasicAckOptions::default()).await?;
    }
    Ok(texts)
}
