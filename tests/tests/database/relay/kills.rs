//! Kills: of the broker, of the relay and of senders.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use mailroom_tests::broker::Nats;
use mailroom_tests::collector::{Collector, PATIENCE, wait_until};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{WITHOUT_VERDICT, register, wait_for};
use mailroom_tests::sending::Configuration;

use super::{
    client, collecting, doubled, impatient, publish, publish_many, reached, relay,
    wait_for_recipients, wait_for_verdicts, wait_for_waiting, wait_until_none_is_left,
};

#[tokio::test]
async fn no_mail_is_lost_and_none_doubled_when_the_broker_is_killed_and_comes_back() -> Result<()> {
    const MAILS: i32 = 600;
    let Some(mut nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&["--delay", "0.02"])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = impatient(&nats, &configuration, &[])?;
    // Each kill comes while mails are published and sent.
    for part in 0..3 {
        let numbers = part * MAILS / 3 + 1..=(part + 1) * MAILS / 3;
        let first = reached(&server).len();
        register(&rows, numbers).await?;
        wait_until(|| reached(&server).len() > first + 5)?;
        nats.kill()?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        nats.run()?;
    }
    let expected = usize::try_from(MAILS)?;
    wait_for_recipients(&server, expected)?;
    wait_for(&rows, WITHOUT_VERDICT, 0_i64).await?;
    let broker = client(&nats).await?;
    wait_for_verdicts(&broker, "sent", u64::try_from(MAILS)?).await?;
    wait_until_none_is_left(&broker).await?;
    let log = collector.stop()?;
    let (_, said) = sender.stop()?;
    let doubled = doubled(&server);
    ensure!(doubled == 0, "{doubled} mails came twice:\n{said}\n{log}");
    let dead = "SELECT count(*) FROM mailroom.dead_letters";
    ensure!(rows.query_one(dead, &[]).await?.get::<_, i64>(0) == 0, "{log}");
    Ok(())
}

/// Its journal is lost with its machine, so that only what the broker knows keeps mails from coming
/// twice.
#[tokio::test]
async fn what_a_killed_sender_has_left_is_sent_by_another_machine() -> Result<()> {
    const MAILS: i64 = 80;
    const IN_FLIGHT: usize = 8;
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    // It has mails in its hands when it is killed, however late that is.
    let Some(server) = MailServer::start(&["--hold", "8"])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish_many(&mut relay, 1..=MAILS)?;
    let in_flight = ["--in-flight", &IN_FLIGHT.to_string()];
    let first = Configuration::smtp(server.port, "")?;
    let killed = impatient(&nats, &first, &in_flight)?;
    wait_until(|| reached(&server).len() >= 8)?;
    killed.kill()?;
    server.release();
    let second = Configuration::smtp(server.port, "")?;
    let other = impatient(&nats, &second, &in_flight)?;
    wait_for_recipients(&server, usize::try_from(MAILS)?)?;
    wait_for_waiting(&client(&nats).await?, 0).await?;
    let (_, said) = other.stop()?;
    // At most what it had: no verdict was recorded of it.
    let doubled = doubled(&server);
    ensure!(doubled <= IN_FLIGHT, "{doubled} mails came twice:\n{said}");
    ensure!(said.contains("delivered again"), "{said}");
    Ok(())
}

/// The broker forgets by the kill what it gave out within the last tenth of a second, and counts
/// the next time as the first one.
#[tokio::test]
async fn a_killed_broker_makes_no_other_machine_send_what_has_a_verdict() -> Result<()> {
    const MACHINES: i64 = 5;
    let Some(mut nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    for machine in 0..MACHINES {
        let configuration = Configuration::smtp(server.port, "")?;
        let killed = impatient(&nats, &configuration, &[])?;
        let broker = client(&nats).await?;
        // The first mail shows that the sender is connected, so that the second one is quick.
        for id in 2 * machine + 1..=2 * machine + 2 {
            publish_many(&mut relay, id..=id)?;
            let verdicts = async || -> Result<u64> {
                Ok(broker.get_stream("mailroom-verdicts").await?.get_info().await?.state.messages)
            };
            let begin = Instant::now();
            while verdicts().await.ok() < Some(u64::try_from(id)?) {
                ensure!(begin.elapsed() < PATIENCE, "{:?} instead of {id}", verdicts().await);
            }
        }
        nats.kill()?;
        killed.kill()?;
        nats.run()?;
    }
    let configuration = Configuration::smtp(server.port, "")?;
    let other = impatient(&nats, &configuration, &[])?;
    wait_until_none_is_left(&client(&nats).await?).await?;
    let (_, said) = other.stop()?;
    let reached = reached(&server);
    let doubled: Vec<_> = reached.iter().filter(|(_, count)| **count > 1).collect();
    ensure!(doubled.is_empty(), "{doubled:?}:\n{said}");
    Ok(())
}

#[tokio::test]
async fn a_relay_that_is_killed_before_it_answers_publishes_nothing_twice() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let people = [(1, "ada@x.test"), (2, "bob@x.test")];
    let mut killed = relay(&nats)?;
    publish(&mut killed, "b", &people)?;
    killed.kill()?;
    // The collector did not hear the answer, and its lease lapses.
    let mut again = relay(&nats)?;
    publish(&mut again, "c", &people)?;
    let broker = client(&nats).await?;
    wait_for_waiting(&broker, 2).await?;
    let (status, said) = again.finish()?;
    ensure!(status.success() && said.contains("2 were there before"), "{said}");
    Ok(())
}
