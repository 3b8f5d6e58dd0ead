//! A RabbitMQ whose disk is full: it has an alarm until there is space again.

use anyhow::{Result, ensure};
use mailroom_tests::collector::Collector;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::rabbit::Rabbit;
use mailroom_tests::rows::{WITHOUT_VERDICT, register, wait_for};
use mailroom_tests::sending::Configuration;

use super::{collecting, reached, sender, wait_for_recipients};

#[tokio::test]
async fn a_full_disk_of_rabbitmq_loses_no_mail() -> Result<()> {
    const QUEUE: &str = "full";
    let Some(rabbit) = Rabbit::on_small_disk(64)? else { return Ok(()) };
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
    wait_for_recipients(&server, 80)?;
    wait_for(&rows, WITHOUT_VERDICT, 0_i64).await?;
    let log = collector.stop()?;
    let (_, said) = sender.stop()?;
    ensure!(reached(&server).values().all(|count| *count == 1), "{said}\n{log}");
    let dead = "SELECT count(*) FROM mailroom.dead_letters";
    ensure!(rows.query_one(dead, &[]).await?.get::<_, i64>(0) == 0, "{log}");
    Ok(())
}
