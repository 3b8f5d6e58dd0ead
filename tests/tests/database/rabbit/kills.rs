//! Kills: of the broker and of senders.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use mailroom_tests::collector::{Collector, PATIENCE, wait_until};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::rabbit::Rabbit;
use mailroom_tests::rows::{WITHOUT_VERDICT, register, wait_for};
use mailroom_tests::sending::{Configuration, Sending};

use super::{
    client, collecting, counted, doubled, publish, reached, relay, sender, wait_for_recipients,
    wait_for_waiting,
};

/// How often the broker is killed.
const KILLS: i32 = 2;

/// How many activations a machine takes at a time by default.
const IN_FLIGHT: usize = 32;

/// Lets a broker be killed while mails are published and sent by so many machines, and
/// returns how many recipients got more than one, how many keys were published more than once, and
/// how many messages were given out again.
async fn through_kills(machines: usize) -> Result<Option<(usize, usize, usize)>> {
    const MAILS: i32 = 300;
    const QUEUE: &str = "killed";
    let Some(mut rabbit) = Rabbit::start()? else { return Ok(None) };
    let Some(server) = MailServer::start(&["--delay", "0.02"])? else { return Ok(None) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let collector = Collector::start(&mut collecting(&database, &rabbit, QUEUE)?)?;
    let (mut senders, mut configurations) = (Vec::new(), Vec::new());
    for _ in 0..machines {
        let configuration = Configuration::smtp(server.port, "")?;
        senders.push(sender(&rabbit, QUEUE, &configuration, &[])?);
        configurations.push(configuration);
    }
    for part in 0..=KILLS {
        let numbers = part * MAILS / 3 + 1..=(part + 1) * MAILS / 3;
        let first = reached(&server).len();
        register(&rows, numbers).await?;
        wait_until(|| reached(&server).len() > first + 5)?;
        if part < KILLS {
            rabbit.kill()?;
            rabbit.run()?;
        }
    }
    wait_for_recipients(&server, usize::try_from(MAILS)?)?;
    wait_for(&rows, WITHOUT_VERDICT, 0_i64).await?;
    let (_connection, broker) = client(&rabbit).await?;
    for queue in ["first", "other", "lapsed"] {
        wait_for_waiting(&broker, &format!("{QUEUE}.{queue}"), 0).await?;
    }
    let log = collector.stop()?;
    let mut again = 0;
    for sender in senders {
        let (_, said) = sender.stop()?;
        again += counted(&said, "delivered again");
    }
    let dead = "SELECT count(*) FROM mailroom.dead_letters";
    ensure!(rows.query_one(dead, &[]).await?.get::<_, i64>(0) == 0, "{log}");
    // What the log has of verdicts is no publication.
    let published = "SELECT count(*) FROM (SELECT token FROM mailroom.delivery_attempts
        WHERE outcome IN ('handed_over', 'unanswered')
        GROUP BY token HAVING count(*) > 1) AS again";
    let published: i64 = rows.query_one(published, &[]).await?.get(0);
    Ok(Some((doubled(&server), usize::try_from(published)?, usize::try_from(again)?)))
}

#[tokio::test]
async fn one_machine_loses_no_mail_and_sends_none_twice_when_rabbitmq_is_killed() -> Result<()> {
    let Some((doubled, published, again)) = through_kills(1).await? else { return Ok(()) };
    ensure!(doubled == 0, "{doubled} came twice, {published} published, {again} given out again");
    Ok(())
}

/// At each kill a machine has at most so many mails under way, and another one gets them. What is
/// published twice, since a confirmation was lost, counts beside.
#[tokio::test]
async fn two_machines_send_twice_at_most_what_they_had_when_rabbitmq_was_killed() -> Result<()> {
    const MACHINES: usize = 2;
    let Some((doubled, published, again)) = through_kills(MACHINES).await? else { return Ok(()) };
    let most = usize::try_from(KILLS)? * MACHINES * IN_FLIGHT + published;
    ensure!(
        doubled <= most,
        "{doubled} came twice, {published} published, {again} given out again"
    );
    Ok(())
}

/// Its journal is lost with its machine.
#[tokio::test]
async fn what_a_killed_sender_has_left_at_rabbitmq_is_sent_by_another_machine() -> Result<()> {
    const QUEUE: &str = "left";
    const MAILS: i64 = 60;
    const IN_FLIGHT: usize = 8;
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    // It has mails in its hands when it is killed, however late that is.
    let Some(server) = MailServer::start(&["--hold", "8"])? else { return Ok(()) };
    let mut relay = relay(&rabbit, QUEUE)?;
    let people: Vec<_> = (1..=MAILS).map(|id| (id, format!("p{id}@x.test"))).collect();
    let people: Vec<_> = people.iter().map(|(id, email)| (*id, email.as_str())).collect();
    publish(&mut relay, "b", &people)?;
    let in_flight = ["--in-flight", &IN_FLIGHT.to_string()];
    let first = Configuration::smtp(server.port, "")?;
    let killed = sender(&rabbit, QUEUE, &first, &in_flight)?;
    wait_until(|| reached(&server).len() >= 8)?;
    killed.kill()?;
    server.release();
    let second = Configuration::smtp(server.port, "")?;
    let other = sender(&rabbit, QUEUE, &second, &in_flight)?;
    wait_for_recipients(&server, usize::try_from(MAILS)?)?;
    let (_connection, broker) = client(&rabbit).await?;
    wait_for_waiting(&broker, "left.other", 0).await?;
    let (_, said) = other.stop()?;
    // At most what it had: no verdict was recorded of it.
    let doubled = doubled(&server);
    ensure!(doubled <= IN_FLIGHT, "{doubled} mails came twice:\n{said}");
    ensure!(said.contains("delivered again"), "{said}");
    Ok(())
}

/// Since RabbitMQ 4.0 there is such a limit without any policy.
#[tokio::test]
async fn a_mail_that_rabbitmq_gave_out_too_often_is_sent_nevertheless() -> Result<()> {
    const QUEUE: &str = "limited";
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    // It answers for no mail before each sender is killed that has it.
    let Some(server) = MailServer::start(&["--hold", "0"])? else { return Ok(()) };
    let mut relay = relay(&rabbit, QUEUE)?;
    let policy = ["set_policy", "limited", "^limited[.](first|other)$", r#"{"delivery-limit":1}"#];
    rabbit.control(&policy)?;
    publish(&mut relay, "b", &[(1, "ada@x.test")])?;
    let (_connection, broker) = client(&rabbit).await?;
    wait_for_waiting(&broker, "limited.other", 1).await?;
    for _ in 0..2 {
        let configuration = Configuration::smtp(server.port, "")?;
        let holding: Sending = sender(&rabbit, QUEUE, &configuration, &[])?;
        wait_for_waiting(&broker, "limited.other", 0).await?;
        holding.kill()?;
        wait_until_given_back(&broker).await?;
    }
    wait_for_waiting(&broker, "limited.lapsed", 1).await?;
    server.release();
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    wait_for_recipients(&server, 1)?;
    wait_for_waiting(&broker, "limited.verdicts", 1).await?;
    let (_, said) = sender.stop()?;
    ensure!(said.contains("1 sent"), "{said}");
    Ok(())
}

async fn wait_until_given_back(broker: &lapin::Channel) -> Result<()> {
    let begin = Instant::now();
    loop {
        let other = super::waiting(broker, "limited.other").await?;
        if other + super::waiting(broker, "limited.lapsed").await? == 1 {
            return Ok(());
        }
        let is_soon = begin.elapsed() < PATIENCE;
        ensure!(is_soon, "the broker does not give out the mail of a killed sender again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
