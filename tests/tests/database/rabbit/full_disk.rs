//! A RabbitMQ whose disk is full to its last byte: its queues stop, and it must be started again,
//! as the page of the operator says.

use anyhow::Result;
use mailroom_tests::collector::Collector;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::rabbit::Rabbit;
use mailroom_tests::rows::register;
use mailroom_tests::sending::Configuration;
use mailroom_tests::through_broker::all_sent_once;

use super::{collecting, sender, wait_for_recipients};

#[tokio::test]
async fn a_full_disk_of_rabbitmq_loses_no_mail() -> Result<()> {
    const QUEUE: &str = "full";
    let Some(mut rabbit) = Rabbit::on_small_disk(64)? else { return Ok(()) };
    let Some(server) = MailServer::start(&["--delay", "0.1"])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let collector = Collector::start(&mut collecting(&database, &rabbit, QUEUE)?)?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    register(&rows, 1..=40).await?;
    wait_for_recipients(&server, 5)?;
    rabbit.disk()?.fill()?;
    register(&rows, 41..=80).await?;
    collector.wait_for_log("it has an alarm of its memory or disk", 1)?;
    rabbit.disk()?.free()?;
    rabbit.kill()?;
    rabbit.run()?;
    let ended = all_sent_once(&rows, &server, 80).await;
    let (log, (_, said)) = (collector.stop()?, sender.stop()?);
    ended.map_err(|error| error.context(format!("{said}\n{log}\n{}", rabbit.log())))
}
