//! A database, a collector with its relay, a broker, two machines with a sender each, a mail server
//! and the ways between them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mailroom_tests::broker::Nats;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::mail_server::{Arrival, MailServer};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::program;
use mailroom_tests::proxy::Proxy;
use mailroom_tests::rabbit::Rabbit;
use mailroom_tests::sending::{Configuration, Sending};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;
use tokio_postgres::Client;

use super::people::Person;

pub(super) const MACHINES: usize = 2;

/// How often it is said what is still to be drained.
const SHOWN_EVERY: Duration = Duration::from_secs(30);

/// From the collector and its relay to the broker, and from each machine.
pub(super) const WAYS: usize = 1 + MACHINES;

/// How many mails of each class a machine has under way at most.
pub(super) const IN_FLIGHT: usize = 8;

/// After how long without a sign of life of a sender its mails go to another one.
pub(super) const REDELIVER_AFTER: Duration = Duration::from_secs(6);

/// Which broker is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nats,
    Rabbit,
}

impl Kind {
    pub(super) fn of(name: &str) -> Result<Self> {
        match name {
            "nats" => Ok(Self::Nats),
            "rabbitmq" => Ok(Self::Rabbit),
            _ => bail!("{name:?} is no broker: name nats or rabbitmq"),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::Rabbit => "rabbitmq",
        }
    }
}

pub(super) enum Broker {
    Nats(Nats),
    Rabbit(Rabbit),
}

impl Broker {
    fn start(kind: Kind) -> Result<Option<Self>> {
        Ok(match kind {
            Kind::Nats => Nats::start(&[])?.map(Self::Nats),
            Kind::Rabbit => Rabbit::start()?.map(Self::Rabbit),
        })
    }

    fn run(&mut self) -> Result<()> {
        match self {
            Self::Nats(nats) => nats.run(),
            Self::Rabbit(rabbit) => rabbit.run(),
        }
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        match self {
            Self::Nats(nats) => nats.kill(),
            Self::Rabbit(rabbit) => rabbit.kill(),
        }
    }

    /// Fails if it does not run.
    pub(super) fn pause(&self) -> Result<()> {
        match self {
            Self::Nats(nats) => nats.pause(),
            Self::Rabbit(rabbit) => rabbit.pause(),
        }
    }

    fn resume(&self) -> Result<()> {
        match self {
            Self::Nats(nats) => nats.resume(),
            Self::Rabbit(rabbit) => rabbit.resume(),
        }
    }

    fn port(&self) -> u16 {
        match self {
            Self::Nats(nats) => nats.port(),
            Self::Rabbit(rabbit) => rabbit.port(),
        }
    }
}

/// Whom a fault befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Broker,
    Relay,
    Machine(usize),
    MailServer,
}

/// What ends a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mend {
    Nothing,
    StartBroker,
    ContinueBroker,
    ResumeAll,
    StartSender(usize),
    ContinueSender(usize),
    Cut(usize),
    Resume(usize),
    Restore(usize),
    ContinueRelay(Option<u32>),
    StartCollector,
    AcceptMails,
}

/// A fault that was.
#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) name: &'static str,
    pub(super) who: Who,
    pub(super) from: Instant,
    /// Nothing as long as it lasts.
    pub(super) to: Option<Instant>,
    due: Instant,
    mend: Mend,
}

struct Machine {
    /// A machine that is lost has another name than the one that takes its place.
    incarnation: usize,
    configuration: Configuration,
    sending: Option<Sending>,
}

pub(super) struct Site {
    pub(super) kind: Kind,
    pub(super) broker: Broker,
    pub(super) server: MailServer,
    pub(super) ways: Vec<Proxy>,
    pub(super) notes: Vec<Note>,
    pub(super) database: Database,
    pub(super) rows: Client,
    machines: Vec<Machine>,
    collector: Option<Collector>,
    /// Of how many programs that were ended in order.
    said: BTreeMap<String, u64>,
    // Dropped last.
    _cluster: Cluster,
}

/// The name with which a machine greets the mail server.
fn hello(machine: usize, incarnation: usize) -> String {
    format!("m{machine}-{incarnation}.x.test")
}

/// Which machine it is, whatever its incarnation.
pub(super) fn machine_of(hello: &str) -> Option<usize> {
    hello.strip_prefix('m')?.split_once('-')?.0.parse().ok()
}

impl Site {
    /// Starts everything; nothing if this machine lacks something.
    pub(super) async fn start(kind: Kind) -> Result<Option<Self>> {
        let Some(broker) = Broker::start(kind)? else { return Ok(None) };
        let Some(server) = MailServer::start(&["--delay", "0.02"])? else { return Ok(None) };
        let cluster = Cluster::builder().start()?;
        let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
        let rows = database.connect().await?;
        // What is lost is to be found, and not to be taken for expired.
        let outlive = "ALTER TABLE tokens ALTER expires_at SET DEFAULT \
                       extract(epoch FROM now() + interval '1 day')";
        rows.batch_execute(outlive).await?;
        let ways: Result<Vec<_>> = (0..WAYS).map(|_| Proxy::start(broker.port())).collect();
        let mut site = Self {
            kind,
            broker,
            server,
            ways: ways?,
            notes: Vec::new(),
            database,
            rows,
            machines: Vec::new(),
            collector: None,
            said: BTreeMap::new(),
            _cluster: cluster,
        };
        for machine in 0..MACHINES {
            let configuration = site.configuration(machine, 0)?;
            site.machines.push(Machine { incarnation: 0, configuration, sending: None });
            site.start_sender(machine)?;
        }
        site.start_collector()?;
        Ok(Some(site))
    }

    pub(super) async fn client(&self) -> Result<Client> {
        self.database.connect().await
    }

    fn configuration(&self, machine: usize, incarnation: usize) -> Result<Configuration> {
        let hello = format!("hello = \"{}\"\n", hello(machine, incarnation));
        Configuration::smtp(self.server.port, &hello)
    }

    fn url(&self, way: usize) -> String {
        let scheme = if self.kind == Kind::Nats { "nats" } else { "amqp" };
        format!("{scheme}://127.0.0.1:{}", self.ways[way].port())
    }

    fn start_collector(&mut self) -> Result<()> {
        let redeliver = REDELIVER_AFTER.as_secs();
        let mut command = collector::command(self.database.url())?;
        let broker = format!("{} --redeliver-after {redeliver}", self.url(0));
        let program = program::mailroom()?.get_program().to_string_lossy().into_owned();
        let relay = format!("'{program}' relay --to {broker}");
        command.args(["--batch-timeout", "0", "--poll-interval", "500ms", "--sender", &relay]);
        command.args(["--lease", "30s", "--sender-timeout", "15s", "--verdicts-from", &broker]);
        self.collector = Some(Collector::start(&mut command)?);
        Ok(())
    }

    fn start_sender(&mut self, machine: usize) -> Result<()> {
        let (url, of) = (self.url(1 + machine), &mut self.machines[machine]);
        let (redeliver, in_flight) = (REDELIVER_AFTER.as_secs().to_string(), IN_FLIGHT.to_string());
        let arguments =
            [["--from", &url], ["--redeliver-after", &redeliver], ["--in-flight", &in_flight]];
        of.sending = Some(Sending::start(&of.configuration, arguments.as_flattened())?);
        Ok(())
    }

    pub(super) fn kill_sender(&mut self, machine: usize) -> Result<()> {
        self.machines[machine].sending.take().map_or(Ok(()), Sending::kill)
    }

    pub(super) fn stop_sender(&mut self, machine: usize) -> Result<()> {
        let Some(sending) = self.machines[machine].sending.take() else { return Ok(()) };
        // It may be stopped.
        sending.signal(Signal::CONT)?;
        let (status, said) = sending.stop()?;
        // It may have been started just now, and not have begun to hear signals.
        let is_early = status.signal() == Some(Signal::TERM.as_raw()) && said.is_empty();
        ensure!(status.success() || is_early, "a sender ended with {status}: {said}");
        self.count(&said);
        Ok(())
    }

    pub(super) fn freeze_sender(&mut self, machine: usize) -> Result<()> {
        let sending = self.machines[machine].sending.as_ref();
        sending.map_or(Ok(()), |sending| sending.signal(Signal::STOP))
    }

    /// Another machine takes the place of one, with a journal of its own.
    pub(super) fn lose_machine(&mut self, machine: usize) -> Result<()> {
        self.kill_sender(machine)?;
        let incarnation = self.machines[machine].incarnation + 1;
        let configuration = self.configuration(machine, incarnation)?;
        self.machines[machine] = Machine { incarnation, configuration, sending: None };
        Ok(())
    }

    /// Sends a signal to the relay, if one runs, and returns its process.
    pub(super) fn signal_relay(&self, signal: Signal) -> Result<Option<u32>> {
        let Some(collector) = &self.collector else { return Ok(None) };
        let relay = collector.sender()?;
        send(relay, signal);
        Ok(relay)
    }

    pub(super) fn kill_collector(&mut self) -> Result<()> {
        if let Some(collector) = self.collector.take() {
            collector.kill()?;
        }
        Ok(())
    }

    pub(super) fn stop_collector(&mut self) -> Result<()> {
        self.signal_relay(Signal::CONT)?;
        if let Some(collector) = self.collector.take() {
            // Before that it ends as any program does.
            collector.wait_until_it_collects()?;
            collector.stop()?;
        }
        Ok(())
    }

    /// Remembers a fault that has begun.
    pub(super) fn note(&mut self, name: &'static str, who: Who, time: Duration, mend: Mend) {
        let from = Instant::now();
        self.notes.push(Note { name, who, from, to: None, due: from + time, mend });
    }

    /// Lets time pass, and ends the faults whose time is over.
    pub(super) async fn pass(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            for place in 0..self.notes.len() {
                let Note { to, due, mend, .. } = self.notes[place].clone();
                if to.is_none() && due <= Instant::now() {
                    self.mend(mend).with_context(|| format!("{mend:?}"))?;
                    self.notes[place].to = Some(Instant::now());
                }
            }
            if Instant::now() >= end {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends all faults.
    pub(super) async fn mend_all(&mut self) -> Result<()> {
        while self.notes.iter().any(|note| note.to.is_none()) {
            self.pass(Duration::from_millis(100)).await?;
        }
        Ok(())
    }

    fn mend(&mut self, mend: Mend) -> Result<()> {
        match mend {
            Mend::Nothing => {}
            Mend::StartBroker => {
                // It may have been killed twice.
                if self.broker.pause().is_err() {
                    self.broker.run()?;
                }
                self.broker.resume()?;
            }
            Mend::ContinueBroker => _ = self.broker.resume(),
            Mend::ResumeAll => self.ways.iter().for_each(Proxy::resume),
            Mend::StartSender(machine) => {
                if self.machines[machine].sending.is_none() {
                    self.start_sender(machine)?;
                }
            }
            Mend::ContinueSender(machine) => {
                if let Some(sending) = &self.machines[machine].sending {
                    sending.signal(Signal::CONT)?;
                }
            }
            Mend::Cut(way) => self.ways[way].cut(),
            Mend::Resume(way) => self.ways[way].resume(),
            Mend::Restore(way) => self.ways[way].restore(),
            Mend::ContinueRelay(relay) => send(relay, Signal::CONT),
            Mend::StartCollector => {
                if self.collector.is_none() {
                    self.start_collector()?;
                }
            }
            Mend::AcceptMails => self.server.refuse(false),
        }
        Ok(())
    }

    /// How far it is, on a line.
    pub(super) fn progress(&self, registered: usize) -> String {
        let arrivals = self.server.arrivals();
        let people: std::collections::BTreeSet<_> =
            arrivals.iter().map(|arrival| &arrival.to).collect();
        let again = arrivals.len() - people.len();
        let faults = self.notes.len();
        format!("{registered} registered, {} arrived, {again} again, {faults} faults", people.len())
    }

    /// Waits until each mail has its end.
    pub(super) async fn drain(&mut self, patience: Duration) -> Result<()> {
        let query = "SELECT state || ' ' || count(*) FROM mailroom.waiting
            WHERE state <> 'dead' GROUP BY state ORDER BY state";
        let (began, mut since, mut shown) = (Instant::now(), Instant::now(), Instant::now());
        let mut last = None;
        loop {
            let rows = self.rows.query(query, &[]).await?;
            let states: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            if states.is_empty() {
                println!("  drained after {} s", began.elapsed().as_secs());
                return Ok(());
            }
            if last.as_ref() != Some(&states) {
                since = Instant::now();
            }
            if since.elapsed() > patience {
                bail!("{states:?} stay for {patience:?}: {}", self.remains().await?);
            }
            if shown.elapsed() > SHOWN_EVERY {
                shown = Instant::now();
                println!("  {} s of draining: {states:?}", began.elapsed().as_secs());
            }
            last = Some(states);
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// What is known of the mails that have no end.
    async fn remains(&mut self) -> Result<String> {
        let log = self.collector.as_ref().map(Collector::log).unwrap_or_default();
        let start = log.len().saturating_sub(2_000);
        let mut text = log.get(start..).unwrap_or(&log).to_owned();
        let query = "SELECT token, email, waiting.state::text, attempts::int
            FROM mailroom.waiting JOIN tokens ON tokens.id = token
            JOIN accounts ON accounts.id = account WHERE waiting.state <> 'dead' LIMIT 20";
        let arrivals = self.server.arrivals();
        for row in self.rows.query(query, &[]).await? {
            let (token, address): (i64, String) = (row.get(0), row.get(1));
            let came = arrivals.iter().filter(|arrival| arrival.to == address).count();
            let (state, attempts): (String, i32) = (row.get(2), row.get(3));
            write!(
                text,
                "\n{token} {address}: {state}, {attempts} attempts, arrived {came} times"
            )?;
        }
        for machine in 0..MACHINES {
            if let Some(sending) = self.machines[machine].sending.take() {
                let (status, said) = sending.stop()?;
                write!(text, "\nmachine {machine} ended with {status}: {said}")?;
            }
        }
        Ok(text)
    }

    /// What happened about two arrivals of a mail, in seconds after the first one.
    pub(super) fn about(&self, first: &Arrival, second: &Arrival) -> String {
        let span = Duration::from_secs(60);
        let seconds = |at: Instant| {
            let later = at.saturating_duration_since(first.at).as_secs_f64();
            later - first.at.saturating_duration_since(at).as_secs_f64()
        };
        let (one, other, after) = (&first.hello, &second.hello, seconds(second.at));
        let mut text = format!("by {one}, and by {other} after {after:.1} s;");
        for note in &self.notes {
            let end = note.to.unwrap_or(note.from);
            if note.from < second.at && end + span > first.at {
                let (from, to) = (seconds(note.from), seconds(end));
                write!(text, " {} of {:?} {from:.1} to {to:.1},", note.name, note.who).ok();
            }
        }
        text
    }

    /// Recoveries that come after a hundred of activations, all of which wait at the broker, are
    /// sent before most of them.
    pub(super) async fn recoveries_overtake(&mut self, patience: Duration) -> Result<()> {
        const OTHERS: usize = 150;
        const RECOVERIES: usize = 10;
        const FIRST: usize = 10_000_000;
        for machine in 0..MACHINES {
            self.stop_sender(machine)?;
        }
        let before = self.server.arrivals().len();
        for number in FIRST..FIRST + OTHERS {
            Person::Plain.register(&self.rows, number, 86_400).await?;
        }
        self.wait_for_handed_over(OTHERS, patience).await?;
        for number in FIRST..FIRST + RECOVERIES {
            Person::Recovering.register(&self.rows, number, 86_400).await?;
        }
        self.wait_for_handed_over(OTHERS + RECOVERIES, patience).await?;
        for machine in 0..MACHINES {
            self.start_sender(machine)?;
        }
        self.drain(patience).await?;
        let arrivals = self.server.arrivals();
        let person = |place: &usize| Person::of(&arrivals[*place].to) == Some(Person::Recovering);
        let last = (before..arrivals.len()).rfind(person).context("no recovery came")? - before;
        println!("  the last of {RECOVERIES} recoveries came {last}th, before {OTHERS} others");
        ensure!(last < RECOVERIES + OTHERS / 2, "others were sent before recoveries");
        Ok(())
    }

    async fn wait_for_handed_over(&self, count: usize, patience: Duration) -> Result<()> {
        let begin = Instant::now();
        let query = "SELECT count(*) FROM mailroom.handed_over";
        let wanted = i64::try_from(count)?;
        while self.rows.query_one(query, &[]).await?.get::<_, i64>(0) != wanted {
            ensure!(begin.elapsed() < patience, "the relay does not take {count} mails");
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Ends all programs in order, and returns what those say that were ended so.
    pub(super) fn stop(&mut self) -> Result<String> {
        for machine in 0..MACHINES {
            self.stop_sender(machine)?;
        }
        self.stop_collector()?;
        let mut said = "senders that were ended in order:".to_owned();
        for (what, count) in &self.said {
            write!(said, " {count} {what},")?;
        }
        Ok(said)
    }

    fn count(&mut self, said: &str) {
        let last = said.lines().rfind(|line| line.contains("since the start: "));
        let counts = last.and_then(|line| line.split_once("since the start: "));
        for count in counts.into_iter().flat_map(|(_, counts)| counts.split(", ")) {
            if let Some((number, what)) = count.split_once(' ') {
                *self.said.entry(what.to_owned()).or_default() += number.parse().unwrap_or(0);
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // A frozen relay would not hear that its collector is gone.
        if let Some(collector) = &self.collector {
            send(collector.sender().ok().flatten(), Signal::KILL);
        }
        for note in &self.notes {
            if let (None, Mend::ContinueRelay(relay)) = (note.to, note.mend) {
                send(relay, Signal::CONT);
            }
        }
    }
}

fn send(process: Option<u32>, signal: Signal) {
    let process = process.and_then(|process| Pid::from_raw(i32::try_from(process).ok()?));
    if let Some(process) = process {
        kill_process(process, signal).ok();
    }
}
