//! A cluster of three brokers, whose leader is killed.

use anyhow::{Context, Result, ensure};
use async_nats::jetstream::Context as JetStream;
use mailroom_tests::broker::Nats;
use mailroom_tests::collector::{self, Collector, wait_until};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{register, wait_for};
use mailroom_tests::sending::{Configuration, Sending};

use super::reached;

/// The name of the server that leads a stream.
async fn leader(client: &JetStream, stream: &str) -> Result<String> {
    let info = client.get_stream(stream).await?.get_info().await?;
    info.cluster.and_then(|cluster| cluster.leader).context("it has no leader")
}

#[tokio::test]
async fn no_mail_is_lost_and_none_doubled_when_leaders_of_a_cluster_are_killed() -> Result<()> {
    const MAILS: i32 = 300;
    let Some(mut nodes) = Nats::cluster(3)? else { return Ok(()) };
    let Some(server) = MailServer::start(&["--delay", "0.02"])? else { return Ok(()) };
    let servers: Vec<_> = nodes.iter().map(Nats::url).collect();
    let urls = servers.join(",");
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let mut command = collector::command(database.url())?;
    let program = command.get_program().to_string_lossy().into_owned();
    let through = format!("'{program}' relay --to {urls} --replicas 3");
    command.args(["--batch-timeout", "0", "--poll-interval", "200ms", "--sender", &through]);
    command.args(["--verdicts-from", &format!("{urls} --replicas 3")]);
    let collector = Collector::start(&mut command)?;
    let configuration = Configuration::smtp(server.port, "")?;
    let from = ["--from", &urls, "--replicas", "3", "--redeliver-after", "2"];
    let sender = Sending::start(&configuration, &from)?;
    let sent = "SELECT count(*) FROM mailroom.deliveries WHERE state = 'sent'";
    // The one that leads the mails, and then the one that leads the verdicts.
    for (part, stream) in [(0, "mailroom"), (1, "mailroom-verdicts")] {
        let first = reached(&server).len();
        register(&rows, part * MAILS / 3 + 1..=(part + 1) * MAILS / 3).await?;
        wait_until(|| reached(&server).len() > first + 5)?;
        let client = async_nats::jetstream::new(async_nats::connect(&servers).await?);
        let name = leader(&client, stream).await?;
        let place =
            nodes.iter().position(|node| node.name() == Some(&name)).context("no such node")?;
        nodes[place].kill()?;
        let count = i64::from((part + 1) * MAILS / 3);
        wait_for(&rows, sent, count).await?;
        nodes[place].run()?;
    }
    register(&rows, 2 * MAILS / 3 + 1..=MAILS).await?;
    wait_for(&rows, sent, i64::from(MAILS)).await?;
    let log = collector.stop()?;
    let (_, said) = sender.stop()?;
    let reached = reached(&server);
    let doubled = reached.values().filter(|count| **count > 1).count();
    ensure!(reached.len() == usize::try_from(MAILS)? && doubled == 0, "{doubled}:\n{said}\n{log}");
    Ok(())
}
