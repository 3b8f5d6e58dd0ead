//! `mailroom send` in an installation of which everything is killed: senders, collectors, the
//! database, connections.
//!
//! Answers are dropped at every point: of the provider before and after it has accepted a mail, of
//! the sender, and of the database before and after it has committed a claim or a settlement.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::machine::is_full;
use mailroom_tests::mail_server::{Mail, MailServer};
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

/// For each kill.
const TOKENS: usize = 10;

const CONNECTIONS: usize = 2;

/// How many tokens were sent, or are listed as such that may have been delivered.
const SENT: &str = "SELECT
        (SELECT count(DISTINCT token) FROM mailroom.delivery_attempts WHERE outcome::text = 'sent')
        + (SELECT count(*) FROM mailroom.dead_letters WHERE is_in_doubt)";

/// The recipients of mails of which nobody knew
/// at some time whether the provider had accepted them.
const DOUBTFUL: &str = "SELECT recipient_email FROM mailroom.issued_tokens
    WHERE id IN (SELECT token FROM mailroom.delivery_attempts WHERE outcome::text = 'in_doubt')";

/// Those of mails that are dead letters, because it was unknown to the end.
const LISTED: &str = "SELECT recipient_email FROM mailroom.issued_tokens
    WHERE id IN (SELECT token FROM mailroom.dead_letters WHERE is_in_doubt)";

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

/// What is wrong with a provider for a while. After `Refuses` a mail was certainly not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Refuses,
    Silent,
    Unheard,
    Cut,
}

use Trouble::{Cut, Refuses, Silent, Unheard};

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

struct Provider {
    server: MailServer,
    way: Proxy,
}

impl Provider {
    fn begin(&self, trouble: Trouble) {
        match trouble {
            Refuses => self.server.refuse(true),
            Silent => self.way.half_open(),
            Unheard => self.way.swallow_answers(),
            Cut => self.way.cut(),
        }
    }

    fn come_back(&self) {
        self.server.refuse(false);
        self.way.restore();
    }

    /// All mails by their recipients.
    fn mails(&self) -> BTreeMap<String, Vec<Mail>> {
        let mut mails: BTreeMap<String, Vec<Mail>> = BTreeMap::new();
        for mail in self.server.mails() {
            mails.entry(mail.to.clone()).or_default().push(mail);
        }
        mails
    }
}

/// What has become of all tokens.
struct Ends {
    /// All mails of each provider by their recipients.
    mails: Vec<BTreeMap<String, Vec<Mail>>>,
    /// The recipients that [`DOUBTFUL`] and [`LISTED`] find.
    doubtful: BTreeSet<String>,
    listed: BTreeSet<String>,
}

impl Ends {
    /// How many of so many people got no mail and are not listed, either.
    fn lost(&self, people: usize) -> usize {
        let reached = self.mails.iter().flat_map(BTreeMap::keys);
        people - reached.chain(&self.listed).collect::<BTreeSet<_>>().len()
    }

    /// The recipients of more than one mail by this provider; each mail must be the one before it,
    /// and must have been in doubt.
    fn doubled(&self, provider: usize) -> Vec<&String> {
        let repeated = self.mails[provider].iter().filter(|(_, mails)| mails.len() > 1);
        let check = |(to, mails): (_, &Vec<Mail>)| {
            assert!(mails[0].header("Message-ID").is_some(), "{}", mails[0].content);
            assert!(mails.iter().all(|mail| *mail == mails[0]), "a mail is repeated as it was");
            assert!(
                self.doubtful.contains(to),
                "the mail to {to} is repeated, which was not in doubt"
            );
            assert!(mails.len() <= 3, "{} mails to {to}", mails.len());
            to
        };
        repeated.map(check).collect()
    }
}

struct Installation {
    cluster: Cluster,
    database: Database,
    to_database: Proxy,
    /// The first, and the fallback if there is one.
    providers: Vec<Provider>,
    /// Each with a journal, which stays when a collector is started again.
    configurations: Vec<Configuration>,
    collectors: Vec<Collector>,
    random: fastrand::Rng,
}

impl Installation {
    /// Each collector gets a configuration for the ports of the providers.
    fn start(
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
    async fn kill_everything(&mut self, kills: usize) -> Result<usize> {
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
    async fn trouble_everything(&mut self, rounds: usize) -> Result<[usize; 2]> {
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
    async fn connect_for_hours(&self) -> Result<Client> {
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
    async fn list_as_maybe_delivered(
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
    async fn ends(mut self, people: usize) -> Result<Ends> {
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

fn resend(port: u16, seconds: u8) -> String {
    format!(
        "[resend]\nkey_file = \"key\"\nurl = \"http://127.0.0.1:{port}\"\ntimeout_seconds = \
         {seconds}\nconnections = {CONNECTIONS}\n"
    )
}

fn with_key(configuration: Configuration) -> Result<Configuration> {
    fs::write(configuration.path("key"), "re_test\n")?;
    Ok(configuration)
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_everything_lose_and_double_no_mail_of_a_provider_with_keys() -> Result<()> {
    let kills = kills();
    let Some(provider) = MailServer::start_api(&["--drop", "0.1"])? else { return Ok(()) };
    let mut installation = Installation::start([provider], 2, |ports| {
        with_key(Configuration::new(&resend(ports[0], 5))?)
    })?;
    installation.kill_everything(kills).await?;
    let people = kills * TOKENS;
    let ends = installation.ends(people).await?;
    let doubled = ends.mails[0].values().filter(|mails| mails.len() > 1).count();
    println!("{people} mails, {kills} kills, {} lost, {doubled} doubled", ends.lost(people));
    assert_eq!((ends.mails[0].len(), ends.lost(people), doubled), (people, 0, 0));
    Ok(())
}

/// One collector: what another one's journal says it would not know.
#[tokio::test(flavor = "multi_thread")]
async fn killing_everything_loses_no_mail_and_doubles_only_what_was_in_flight() -> Result<()> {
    let kills = kills();
    let Some(provider) = MailServer::start(&["--delay", "0.005"])? else { return Ok(()) };
    let mut installation = Installation::start([provider], 1, |ports| {
        Configuration::smtp(ports[0], &format!("timeout_seconds = 5\nconnections = {CONNECTIONS}"))
    })?;
    let risks = installation.kill_everything(kills).await?;
    let people = kills * TOKENS;
    let ends = installation.ends(people).await?;
    let (lost, doubled) = (ends.lost(people), ends.doubled(0).len());
    let (doubtful, listed) = (ends.doubtful.len(), ends.listed.len());
    println!(
        "{people} mails, {kills} kills, {lost} lost, {doubled} doubled of {doubtful} in doubt, \
        {listed} listed"
    );
    assert_eq!(lost, 0, "mails are lost");
    assert!(
        doubled <= CONNECTIONS * risks,
        "{doubled} of {risks} kills between a mail and its answer"
    );
    Ok(())
}

/// One collector, since its journal says which provider may have accepted a mail.
#[tokio::test(flavor = "multi_thread")]
async fn kills_of_everything_lose_no_mail_of_two_providers_that_fail_and_none_is_accepted_by_both()
-> Result<()> {
    let (rounds, orders) = if is_full() { (200, 2) } else { (6, 1) };
    for order in 0..orders {
        let Some(with_keys) = MailServer::start_api(&["--drop", "0.1"])? else { return Ok(()) };
        let Some(smtp) = MailServer::start(&["--delay", "0.005"])? else { return Ok(()) };
        let mut servers = [with_keys, smtp];
        servers.rotate_left(order);
        let mut installation = Installation::start(servers, 1, |ports| {
            let (resend, fallback) = (resend(ports[order], 2), ["smtp", "resend"][order]);
            let further = format!("timeout_seconds = 2\nconnections = {CONNECTIONS}\n{resend}");
            let configuration = Configuration::smtp(ports[1 - order], &further)?;
            configuration
                .write(&format!("fallback = \"{fallback}\"\n{}", configuration.text()?))?;
            with_key(configuration)
        })?;
        let risks = installation.trouble_everything(rounds).await?[1 - order];
        let mut ends = installation.ends(rounds * TOKENS).await?;
        ends.mails.rotate_left(order);
        let (lost, doubled) = (ends.lost(rounds * TOKENS), ends.doubled(1).len());
        let [by_key, by_smtp] = &ends.mails[..] else { bail!("there are two providers") };
        println!(
            "{} and {} mails, {rounds} kills, {lost} lost, {doubled} by SMTP doubled, {} in doubt",
            by_key.len(),
            by_smtp.len(),
            ends.doubtful.len()
        );
        let both = by_key.keys().filter(|to| by_smtp.contains_key(*to)).count();
        assert_eq!((both, lost), (0, 0), "accepted by both, and by none");
        assert!(by_key.values().all(|mails| mails.len() == 1), "doubled although there are keys");
        assert!(
            doubled <= CONNECTIONS * risks,
            "{doubled} of {risks} faults between a mail and its answer"
        );
        assert!(!by_key.is_empty() && !by_smtp.is_empty(), "both are used");
    }
    Ok(())
}

/// The provider takes every mail and never says so. Between the steps of its doubts (recorded in
/// the journal, sent, answered, settled) sender and collector are killed.
#[tokio::test(flavor = "multi_thread")]
async fn kills_between_the_steps_of_a_doubt_lose_no_mail_and_send_none_more_than_three_times()
-> Result<()> {
    const PEOPLE: usize = 10;
    let kills: usize = if is_full() { 40 } else { 8 };
    let Some(provider) = MailServer::start(&["--delay", "0.05"])? else { return Ok(()) };
    let mut installation = Installation::start([provider], 1, |ports| {
        Configuration::smtp(ports[0], &format!("timeout_seconds = 5\nconnections = {CONNECTIONS}"))
    })?;
    let client = installation.connect_for_hours().await?;
    // Each round has mails of its own: after eight crashes over it a mail is given up.
    let rounds = kills.div_ceil(8);
    for round in 0..rounds {
        register(&client, &format!("lost{round}-"), PEOPLE).await?;
        let listed = (round + 1) * PEOPLE;
        installation.list_as_maybe_delivered(&client, listed, kills / rounds).await?;
    }
    let counts = "SELECT count(*) FILTER (WHERE is_in_doubt), count(*), (SELECT count(*) FROM \
                  mailroom.delivery_log WHERE outcome IN ('sent', 'expired')), (SELECT count(*) \
                  FROM mailroom.queue) + (SELECT count(*) FROM mailroom.leases) FROM \
                  mailroom.dead_letters";
    let row = client.query_one(counts, &[]).await?;
    let [in_doubt, dead, other, left] = [0, 1, 2, 3].map(|column| row.get::<_, i64>(column));
    let people = i64::try_from(rounds * PEOPLE)?;
    assert_eq!((in_doubt, dead, other, left), (people, people, 0, 0));
    for collector in installation.collectors.drain(..) {
        collector.stop()?;
    }
    let mails = installation.providers[0].mails();
    let most = mails.values().map(Vec::len).max().unwrap_or_default();
    println!("{} mails, {kills} kills, {most} copies at most", mails.len());
    assert!(most <= 3, "{most} copies of a mail");
    assert!(mails.values().flatten().count() > rounds * PEOPLE, "mails are sent again");
    assert!(mails.values().flatten().all(|mail| mail == &mails[&mail.to][0]), "as it was");
    Ok(())
}
