//! A NATS server that has no space left: on its disk, by its own limit, or by one of the stream.

use anyhow::Result;
use async_nats::jetstream::stream::Config;
use mailroom_tests::broker::Nats;
use mailroom_tests::collector::Collector;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::register;
use mailroom_tests::sending::Configuration;
use mailroom_tests::through_broker::all_sent_once;

use super::{client, collecting, publish, relay, sender, wait_for_recipients};

/// `nats-server` 2.9.10 answers nothing any more then, not even SIGTERM.
#[tokio::test]
async fn a_full_disk_of_the_broker_loses_no_mail() -> Result<()> {
    let Some(mut nats) = Nats::on_small_disk(16)? else { return Ok(()) };
    let Some(server) = MailServer::start(&["--delay", "0.1"])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    register(&rows, 1..=40).await?;
    wait_for_recipients(&server, 5)?;
    nats.disk()?.fill()?;
    register(&rows, 41..=80).await?;
    collector.wait_for_log("its disk may be full", 1)?;
    nats.disk()?.free()?;
    nats.kill()?;
    nats.run()?;
    let ended = all_sent_once(&rows, &server, 80).await;
    let (log, (_, said)) = (collector.stop()?, sender.stop()?);
    ended.map_err(|error| error.context(format!("{said}\n{log}")))
}

#[tokio::test]
async fn a_full_stream_of_mails_makes_the_collector_wait_and_goes_on_by_itself() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    let broker = client(&nats).await?;
    let mut stream = broker.get_stream("mailroom").await?;
    let config = Config { max_messages: 10, ..stream.info().await?.config.clone() };
    broker.update_stream(config).await?;
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    register(&rows, 1..=80).await?;
    collector.wait_for_log("maximum messages exceeded", 1)?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    let ended = all_sent_once(&rows, &server, 81).await;
    let (log, (_, said)) = (collector.stop()?, sender.stop()?);
    ended.map_err(|error| error.context(format!("{said}\n{log}")))
}

/// Then it takes no verdicts either: a mail that is sent waits for its verdict.
#[tokio::test]
async fn a_broker_at_its_own_limit_loses_no_mail_and_goes_on_with_a_higher_one() -> Result<()> {
    let Some(mut nats) = Nats::reserve(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("nats.conf");
    let name = file.display().to_string();
    let limit =
        |bytes: u32| std::fs::write(&file, format!("jetstream {{ max_file_store: {bytes} }}\n"));
    limit(40_000)?;
    nats.set_arguments(&["--config", &name]);
    nats.run()?;
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    register(&rows, 1..=200).await?;
    collector.wait_for_log("the sender is unavailable: ", 1)?;
    limit(4_000_000)?;
    nats.stop()?;
    nats.run()?;
    let ended = all_sent_once(&rows, &server, 200).await;
    let (log, (_, said)) = (collector.stop()?, sender.stop()?);
    ended.map_err(|error| error.context(format!("{said}\n{log}")))
}
