//! An installation of which everything is killed while mails are sent.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::program;
use mailroom_tests::proxy::Proxy;
use mailroom_tests::sending::Configuration;
use mailroom_tests::stopwatch::Stopwatch;
use mailroom_tests::trial::NEAR;
use mailroom_tests::workload::register;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;
use tokio_postgres::Client;

use super::TOKENS;
use super::ends::{DOUBTFUL, Ends, LISTED};
use super::provider::{Cut, Provider, Refuses, Silent, Trouble, Unheard};

/// How many tokens were sent, or are listed as such that may have been delivered.
const SENT: &str = "SELECT
        (SELECT count(DISTINCT token) FROM mailroom.delivery_attempts WHERE outcome::text = 'sent')
        + (SELECT count(*) FROM mailroom.dead_letters WHERE is_in_doubt)";

/// How long a token lives, in seconds: longer than any waits for the next start of something.
/// Pauses after refusals grow to a 24th.
const LIFETIME: u64 = 2 * 3_600;

/// How long nothing may be sent: until leases end, or the longest pause after refusals.
const PATIENCE: Duration = Duration::from_secs(LIFETIME / 24 + 60);

/// What is killed, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sender,
    Collector,
    Database,
    Network,
}

const KINDS: [Kind; 4] = [Kind::Sender, Kind::Collector, Kind::Database, Kind::Network];

/// The troubles of the first provider, and those of the fallback that come while it has them.
const TROUBLES: [(Trouble, Option<Trouble>); 9] = [
    (Refuses, None),
    (Silent, None),
    (Refuses, Some(Silent)),
    (Unheard, Some(Refuses)),
    (Refuses, Some(Unheard)),
    (Refuses, Some(Cut)),
    (Cut, None),
    (Refuses, Some(Refuses)),
    (Silent, Some(Silent)),
];

/// A database, collectors with their senders, and providers.
pub(super) struct Installation {
    cluster: Cluster,
    database: Database,
    to_database: Proxy,
    /// The first, and the fallback if there is one.
    pub(super) providers: Vec<Provider>,
    /// Each with a journal, which stays when a collector is started again.
    configurations: Vec<Configuration>,
    pub(super) collectors: Vec<Collector>,
    random: fastrand::Rng,
}

impl Installation {
    /// Each collector gets a configuration for the ports of the providers.
    pub(super) fn start(
        servers: impl IntoIterator<Item = MailServer>,
        collectors: usize,
        configuration: impl Fn(&[u16]) -> Result<Configuration>,
    ) -> Result<Self> {
        let cluster = Cluster::builder().tcp().start()?;
        let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
        let to_database = Proxy::start(cluster.port())?;
        let providers = servers
            .into_iter()
            .map(|server| Ok(Provider { way: Proxy::start(server.port)?, server }))
            .collect::<Result<Vec<_>>>()?;
        let ports: Vec<u16> = providers.iter().map(|provider| provider.way.port()).collect();
        let configurations =
            (0..collectors).map(|_| configuration(&ports)).collect::<Result<_>>()?;
        let random = fastrand::Rng::with_seed(17);
        let mut installation = Self {
            cluster,
            database,
            to_database,
            providers,
            configurations,
            collectors: Vec::new(),
            random,
        };
        for number in 0..collectors {
            let collector = installation.collector(number)?;
            installation.collectors.push(collector);
        }
        Ok(installation)
    }

    fn collector(&self, number: usize) -> Result<Collector> {
        let mut command = collector::command(&self.to_database.url(self.database.name()))?;
        let program = program::path()?;
        let sender =
            format!("'{program}' send --config '{}'", self.configurations[number].file().display());
        command.args(["--batch-timeout", "0", "--poll-interval", "500ms", "--sender", &sender]);
        command.args(["--lease", NEAR.lease, "--sender-timeout", NEAR.sender_timeout]);
        Collector::start(&mut command)
    }

    /// Kills everything in turn while mails are sent. Returns how many faults could double a mail
    /// where nobody knows its key.
    pub(super) async fn kill_everything(&mut self, kills: usize) -> Result<usize> {
        let (mut sent, mut risks) = (0, 0);
        let mut client = self.connect_for_hours().await?;
        for kill in 0..kills {
            // What was killed last works again, and has more to do.
            register(&client, &format!("a{kill}-"), TOKENS / 2).await?;
            self.sends(&client, sent).await?;
            register(&client, &format!("b{kill}-"), TOKENS / 2).await?;
            sleep(Duration::from_micros(self.random.u64(0..40_000))).await;
            let kind = KINDS[kill % KINDS.len()];
            risks += usize::from(self.kill(kind)?);
            if kind == Kind::Database {
                client = self.database.connect().await?;
            }
            sent = client.query_one(SENT, &[]).await?.get(0);
        }
        Ok(risks)
    }

    /// Has both providers fail in turn, and kills everything meanwhile. Returns how many faults
    /// could double a mail of the second, or of the first, where it does not know the keys.
    pub(super) async fn trouble_everything(&mut self, rounds: usize) -> Result<[usize; 2]> {
        let (mut sent, mut risks) = (0, [0, 0]);
        let mut client = self.connect_for_hours().await?;
        for round in 0..rounds {
            let (first, second) = TROUBLES[round % TROUBLES.len()];
            self.providers[0].begin(first);
            risks[0] += usize::from(first != Refuses);
            register(&client, &format!("a{round}-"), TOKENS / 2).await?;
            // What the first has not accepted goes out by the fallback, which works.
            self.sends(&client, sent).await?;
            register(&client, &format!("b{round}-"), TOKENS / 2).await?;
            if let Some(second) = second {
                self.providers[1].begin(second);
                risks[1] += usize::from(second != Refuses);
            }
            sleep(Duration::from_millis(self.random.u64(0..300))).await;
            let kind = [Kind::Collector, Kind::Sender, Kind::Database][round % 3];
            let is_risk = usize::from(self.kill(kind)?);
            risks = risks.map(|risks| risks + is_risk);
            sleep(Duration::from_millis(self.random.u64(0..300))).await;
            self.providers.iter().for_each(Provider::come_back);
            if kind == Kind::Database {
                client = self.database.connect().await?;
            }
            sent = client.query_one(SENT, &[]).await?.get(0);
        }
        Ok(risks)
    }

    /// A connection, to a database whose tokens live for [`LIFETIME`].
    pub(super) async fn connect_for_hours(&self) -> Result<Client> {
        let client = self.database.connect().await?;
        let expiry = format!("floor(extract(epoch FROM now()))::bigint + {LIFETIME}");
        client
            .batch_execute(&format!(
                "ALTER TABLE tokens ALTER COLUMN expires_at SET DEFAULT {expiry}"
            ))
            .await?;
        Ok(client)
    }

    /// Waits until more was sent than this, and returns how much.
    async fn sends(&self, client: &Client, before: i64) -> Result<i64> {
        let started = Stopwatch::start();
        loop {
            let sent: i64 = client.query_one(SENT, &[]).await?.get(0);
            if sent > before {
                return Ok(sent);
            }
            if started.elapsed() > PATIENCE {
                let logs: Vec<String> = self.collectors.iter().map(Collector::log).collect();
                bail!("no more than {before} mails are sent; the logs:\n{}", logs.join("\n"));
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns whether the provider may have accepted what the sender does not know of.
    fn kill(&mut self, kind: Kind) -> Result<bool> {
        let victim = self.random.usize(..self.collectors.len());
        match kind {
            // One that was killed often is started after a pause, in which there is none.
            Kind::Sender if kill_sender(&self.collectors[victim])? => {}
            Kind::Sender | Kind::Collector => {
                self.collectors.remove(victim).kill()?;
                self.collectors.insert(victim, self.collector(victim)?);
            }
            Kind::Database => {
                self.cluster.stop(Shutdown::Immediate)?;
                self.cluster.start_again()?;
                return Ok(false);
            }
            Kind::Network => match self.random.u8(0..4) {
                0 => self.providers[0].way.cut(),
                statement => {
                    match statement {
                        1 => self.to_database.cut(),
                        2 => self.to_database.cut_after(&["mailroom.settle("], 1),
                        _ => self.to_database.cut_after(&["mailroom.claim("], 1),
                    }
                    return Ok(false);
                }
            },
        }
        Ok(true)
    }

    /// Waits until so many mails are listed as maybe delivered, whose pauses end at once, and kills
    /// sender and collector in turn meanwhile.
    pub(super) async fn list_as_maybe_delivered(
        &mut self,
        client: &Client,
        mails: usize,
        kills: usize,
    ) -> Result<()> {
        let end_pauses =
            "UPDATE mailroom.queue SET due_at = now(), put_off_at = NULL WHERE doubts > 0";
        let count = "SELECT count(*) FROM mailroom.dead_letters";
        let started = Stopwatch::start();
        for step in 0.. {
            client.batch_execute(end_pauses).await?;
            let listed: i64 = client.query_one(count, &[]).await?.get(0);
            if usize::try_from(listed)? >= mails {
                break;
            }
            if started.elapsed() > PATIENCE {
                let logs: Vec<String> = self.collectors.iter().map(Collector::log).collect();
                bail!("{listed} of {mails} mails are listed; the logs:\n{}", logs.join("\n"));
            }
            sleep(Duration::from_millis(self.random.u64(0..400))).await;
            if step < kills {
                self.kill([Kind::Sender, Kind::Collector][step % 2])?;
            }
        }
        Ok(())
    }

    /// Waits until everything was sent, or is listed.
    pub(super) async fn ends(mut self, people: usize) -> Result<Ends> {
        let client = self.database.connect().await?;
        let people = i64::try_from(people)?;
        let mut sent = client.query_one(SENT, &[]).await?.get(0);
        while sent < people {
            sent = self.sends(&client, sent).await?;
        }
        for collector in self.collectors.drain(..) {
            collector.stop()?;
        }
        let recipients = async |query: &str| -> Result<BTreeSet<String>> {
            Ok(client.query(query, &[]).await?.iter().map(|row| row.get(0)).collect())
        };
        let (doubtful, listed) = (recipients(DOUBTFUL).await?, recipients(LISTED).await?);
        Ok(Ends { mails: self.providers.iter().map(Provider::mails).collect(), doubtful, listed })
    }
}

/// Whether there was one.
fn kill_sender(collector: &Collector) -> Result<bool> {
    let Some(sender) = collector.sender()? else { return Ok(false) };
    let sender = Pid::from_raw(sender.try_into()?).context("a process has a positive id")?;
    // It may have ended meanwhile.
    Ok(kill_process(sender, Signal::KILL).is_ok())
}
