//! A cluster of three brokers, whose leaders are killed, or cut off from the others.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mailroom_tests::broker::{Nats, Ways};
use mailroom_tests::collector::{self, Collector, PATIENCE, wait_until};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rows::{register, wait_for};
use mailroom_tests::sending::{Configuration, Sending};
use tokio::time::sleep;
use tokio_postgres::Client;

use super::{client_of, reached};

const MAILS: i32 = 300;

/// A cluster of three with a collector and a sender, which know all servers.
struct Cluster {
    nodes: Vec<Nats>,
    ways: Ways,
    server: MailServer,
    rows: Client,
    urls: Vec<String>,
    collector: Collector,
    sender: Sending,
    _configuration: Configuration,
    _database: Database,
}

impl Cluster {
    async fn start() -> Result<Option<Self>> {
        let Some((nodes, ways)) = Nats::cluster(3)? else { return Ok(None) };
        let Some(server) = MailServer::start(&["--delay", "0.02"])? else { return Ok(None) };
        let urls: Vec<_> = nodes.iter().map(Nats::url).collect();
        let all = urls.join(",");
        let database = Database::migrated()?;
        let rows = database.connect().await?;
        let mut command = collector::command(database.url())?;
        let program = program::path()?;
        let through = format!("'{program}' relay --to {all} --replicas 3");
        command.args(["--batch-timeout", "0", "--poll-interval", "200ms", "--sender", &through]);
        command.args(["--verdicts-from", &format!("{all} --replicas 3")]);
        let collector = Collector::start(&mut command)?;
        let configuration = Configuration::smtp(server.port, "")?;
        let from = ["--from", &all, "--replicas", "3", "--redeliver-after", "2"];
        let sender = Sending::start(&configuration, &from)?;
        Ok(Some(Self {
            nodes,
            ways,
            server,
            rows,
            urls,
            collector,
            sender,
            _configuration: configuration,
            _database: database,
        }))
    }

    /// Registers a third of the people, and returns the place of the server that leads a stream
    /// while their mails go out.
    async fn leader_under_way(&self, third: i32, stream: &str) -> Result<usize> {
        let first = reached(&self.server).len();
        register(&self.rows, third * MAILS / 3 + 1..=(third + 1) * MAILS / 3).await?;
        wait_until(|| reached(&self.server).len() > first + 5)?;
        let begin = Instant::now();
        loop {
            // A server that has just come back knows of no streams for a while.
            let found = self.leader(stream).await;
            if found.is_ok() || begin.elapsed() > PATIENCE {
                return found;
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn leader(&self, stream: &str) -> Result<usize> {
        let client = client_of(&self.urls).await?;
        let info = client.get_stream(stream).await?.get_info().await?;
        let leader = info.cluster.and_then(|cluster| cluster.leader).context("it has no leader")?;
        let place = self.nodes.iter().position(|node| node.name() == Some(&leader));
        place.context("no such node")
    }

    /// Waits until the database knows that the mails of so many thirds are sent.
    async fn wait_for_sent(&self, thirds: i32) -> Result<()> {
        let sent = "SELECT count(*) FROM mailroom.deliveries WHERE state = 'sent'";
        wait_for(&self.rows, sent, i64::from(thirds * MAILS / 3)).await
    }

    /// Each mail came once, and the database knows it of the last third, too.
    async fn finish(self) -> Result<()> {
        register(&self.rows, 2 * MAILS / 3 + 1..=MAILS).await?;
        self.wait_for_sent(3).await?;
        let log = self.collector.stop()?;
        let (_, said) = self.sender.stop()?;
        let reached = reached(&self.server);
        let doubled = reached.values().filter(|count| **count > 1).count();
        let is_whole = reached.len() == usize::try_from(MAILS)?;
        ensure!(is_whole && doubled == 0, "{}, {doubled}:\n{said}\n{log}", reached.len());
        Ok(())
    }
}

#[tokio::test]
async fn no_mail_is_lost_and_none_doubled_when_leaders_of_a_cluster_are_killed() -> Result<()> {
    let Some(mut cluster) = Cluster::start().await? else { return Ok(()) };
    // The one that leads the mails, and then the one that leads the verdicts.
    for (third, stream) in [(0, "mailroom"), (1, "mailroom-verdicts")] {
        let place = cluster.leader_under_way(third, stream).await?;
        cluster.nodes[place].kill()?;
        cluster.wait_for_sent(third + 1).await?;
        cluster.nodes[place].run()?;
    }
    cluster.finish().await
}

/// Whoever is connected to a server that the others have lost goes to another one.
#[tokio::test]
async fn mails_go_on_while_a_cluster_is_parted_and_none_is_lost_or_doubled() -> Result<()> {
    let Some(cluster) = Cluster::start().await? else { return Ok(()) };
    for (third, stream) in [(0, "mailroom"), (1, "mailroom-verdicts")] {
        let place = cluster.leader_under_way(third, stream).await?;
        cluster.ways.isolate(place);
        cluster.wait_for_sent(third + 1).await?;
        cluster.ways.heal();
    }
    cluster.finish().await
}
