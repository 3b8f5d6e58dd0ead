//! `mailroom send` in an installation of which everything is killed: senders, collectors, the database, connections.
//!
//! Answers are dropped at every point: of the provider before and after it has accepted a mail, of the sender, and of the database
//! before and after it has committed a claim or a settlement.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::machine::is_full;
use mailroom_tests::mail_server::{Mail, MailServer};
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::proxy::Proxy;
use mailroom_tests::sending::Configuration;
use mailroom_tests::stopwatch::Stopwatch;
use mailroom_tests::trial::NEAR;
use mailroom_tests::workload::register;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;
use tokio_postgres::Client;

/// For each kill.
const TOKENS: usize = 10;

const CONNECTIONS: usize = 2;

const SENT: &str =
    "SELECT count(DISTINCT token) FROM mailroom.delivery_attempts WHERE outcome::text = 'sent'";

/// How long nothing may be sent: leases end, and pauses after refusals.
const PATIENCE: Duration = Duration::from_secs(180);

/// What is killed, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sender,
    Collector,
    Database,
    Network,
}

const KINDS: [Kind; 4] = [Kind::Sender, Kind::Collector, Kind::Database, Kind::Network];

struct Installation {
    cluster: Cluster,
    database: Database,
    to_database: Proxy,
    to_provider: Proxy,
    provider: MailServer,
    /// Each with a journal, which stays when a collector is started again.
    configurations: Vec<Configuration>,
    collectors: Vec<Collector>,
    random: fastrand::Rng,
}

impl Installation {
    fn start(
        provider: MailServer,
        collectors: usize,
        configuration: impl Fn(u16) -> Result<Configuration>,
    ) -> Result<Self> {
        let cluster = Cluster::builder().tcp().start()?;
        let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
        let to_database = Proxy::start(cluster.port())?;
        let to_provider = Proxy::start(provider.port)?;
        let configurations =
            (0..collectors).map(|_| configuration(to_provider.port())).collect::<Result<_>>()?;
        let random = fastrand::Rng::with_seed(17);
        let mut installation = Self {
            cluster,
            database,
            to_database,
            to_provider,
            provider,
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
        let program = command.get_program().to_string_lossy().into_owned();
        let sender = format!("'{program}' send --config '{}'", self.configurations[number].file().display());
        command.args(["--batch-timeout", "0", "--poll-interval", "500ms", "--sender", &sender]);
        command.args(["--lease", NEAR.lease, "--sender-timeout", NEAR.sender_timeout]);
        Collector::start(&mut command)
    }

    /// Kills everything in turn while mails are sent. Returns how many faults could double a mail where nobody knows its key.
    async fn kill_everything(&mut self, kills: usize) -> Result<usize> {
        let (mut sent, mut risks) = (0, 0);
        let mut client = self.database.connect().await?;
        // None may expire while it waits for the next start of something.
        let day = "ALTER TABLE tokens ALTER COLUMN expires_at SET DEFAULT floor(extract(epoch FROM now()))::bigint + 86400";
        client.batch_execute(day).await?;
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
                0 => self.to_provider.cut(),
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

    /// Waits until everything was sent, and returns all mails by their recipients.
    async fn mails(mut self, people: usize) -> Result<BTreeMap<String, Vec<Mail>>> {
        let client = self.database.connect().await?;
        let people = i64::try_from(people)?;
        let mut sent = client.query_one(SENT, &[]).await?.get(0);
        while sent < people {
            sent = self.sends(&client, sent).await?;
        }
        for collector in self.collectors.drain(..) {
            collector.stop()?;
        }
        let mut mails: BTreeMap<String, Vec<Mail>> = BTreeMap::new();
        for mail in self.provider.mails() {
            mails.entry(mail.to.clone()).or_default().push(mail);
        }
        Ok(mails)
    }
}

fn kills() -> usize {
    if is_full() { 1_000 } else { 40 }
}

/// Whether there was one.
fn kill_sender(collector: &Collector) -> Result<bool> {
    let Some(sender) = collector.sender()? else { return Ok(false) };
    let sender = Pid::from_raw(sender.try_into()?).context("a process has a positive id")?;
    // It may have ended meanwhile.
    Ok(kill_process(sender, Signal::KILL).is_ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_everything_lose_and_double_no_mail_of_a_provider_with_keys() -> Result<()> {
    let kills = kills();
    let Some(provider) = MailServer::start_api(&["--drop", "0.1"])? else { return Ok(()) };
    let mut installation = Installation::start(provider, 2, |port| {
        let lines =
            format!("[resend]\nkey_file = \"key\"\nurl = \"http://127.0.0.1:{port}\"\ntimeout_seconds = 5");
        let configuration = Configuration::new(&format!("{lines}\nconnections = {CONNECTIONS}"))?;
        fs::write(configuration.path("key"), "re_test\n")?;
        Ok(configuration)
    })?;
    installation.kill_everything(kills).await?;
    let mails = installation.mails(kills * TOKENS).await?;
    let doubled = mails.values().filter(|mails| mails.len() > 1).count();
    println!("{} mails, {kills} kills, {doubled} doubled", mails.len());
    assert_eq!((mails.len(), doubled), (kills * TOKENS, 0));
    Ok(())
}

/// One collector: what another one's journal says it would not know.
#[tokio::test(flavor = "multi_thread")]
async fn kills_of_everything_lose_no_mail_by_smtp_and_double_only_what_was_on_its_way() -> Result<()> {
    let kills = kills();
    let Some(provider) = MailServer::start(&["--delay", "0.005"])? else { return Ok(()) };
    let mut installation = Installation::start(provider, 1, |port| {
        Configuration::smtp(port, &format!("timeout_seconds = 5\nconnections = {CONNECTIONS}"))
    })?;
    let risks = installation.kill_everything(kills).await?;
    let mails = installation.mails(kills * TOKENS).await?;
    let repeated: Vec<_> = mails.values().filter(|mails| mails.len() > 1).collect();
    let doubled: usize = repeated.iter().map(|mails| mails.len() - 1).sum();
    println!("{} mails, {kills} kills, {doubled} doubled", mails.len());
    assert_eq!(mails.len(), kills * TOKENS, "mails are lost");
    assert!(doubled <= CONNECTIONS * risks, "{doubled} of {risks} kills between a mail and its answer");
    for mails in repeated {
        assert!(mails[0].header("Message-ID").is_some(), "{}", mails[0].content);
        assert!(mails.iter().all(|mail| *mail == mails[0]), "a mail is repeated as it was");
    }
    Ok(())
}
