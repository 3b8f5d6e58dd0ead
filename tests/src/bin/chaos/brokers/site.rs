//! A database, a collector with its relay, a broker, two machines with a sender each, a mail server
//! and the ways between them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::program;
use mailroom_tests::proxy::Proxy;
use mailroom_tests::sending::{Configuration, Sending};
use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::Client;

use super::broker::{Broker, Kind};
use super::mending::{Mend, Note};

pub(super) const MACHINES: usize = 2;

/// From the collector and its relay to the broker, and from each machine.
pub(super) const WAYS: usize = 1 + MACHINES;

/// How many mails of each class a machine has under way at most.
pub(super) const IN_FLIGHT: usize = 8;

/// After how long without a sign of life of a sender its mails go to another one.
pub(super) const REDELIVER_AFTER: Duration = Duration::from_secs(6);

pub(super) struct Machine {
    /// A machine that is lost has another name than the one that takes its place.
    incarnation: usize,
    configuration: Configuration,
    pub(super) sending: Option<Sending>,
}

pub(super) struct Site {
    pub(super) kind: Kind,
    pub(super) broker: Broker,
    pub(super) server: MailServer,
    pub(super) ways: Vec<Proxy>,
    pub(super) notes: Vec<Note>,
    pub(super) database: Database,
    pub(super) rows: Client,
    pub(super) machines: Vec<Machine>,
    pub(super) collector: Option<Collector>,
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

    pub(super) fn start_collector(&mut self) -> Result<()> {
        let redeliver = REDELIVER_AFTER.as_secs();
        let mut command = collector::command(self.database.url())?;
        let broker = format!("{} --redeliver-after {redeliver}", self.url(0));
        let program = program::path()?;
        let relay = format!("'{program}' relay --to {broker}");
        command.args(["--batch-timeout", "0", "--poll-interval", "500ms", "--sender", &relay]);
        command.args(["--lease", "30s", "--sender-timeout", "15s", "--verdicts-from", &broker]);
        self.collector = Some(Collector::start(&mut command)?);
        Ok(())
    }

    pub(super) fn start_sender(&mut self, machine: usize) -> Result<()> {
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

    /// Fails if a program has ended by itself, for whose work the others would wait.
    pub(super) fn ensure_all_run(&mut self) -> Result<()> {
        if let Some(collector) = &mut self.collector {
            ensure!(collector.is_running()?, "the collector has ended: {}", collector.log());
        }
        for (number, machine) in self.machines.iter_mut().enumerate() {
            let Some(sending) = &mut machine.sending else { continue };
            if !sending.is_running()? {
                let ended = machine.sending.take().map(Sending::stop).transpose()?;
                bail!("the sender of machine {number} has ended: {ended:?}");
            }
        }
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

    /// How far it is, on a line.
    pub(super) fn progress(&self, registered: usize) -> String {
        let arrivals = self.server.arrivals();
        let people: std::collections::BTreeSet<_> =
            arrivals.iter().map(|arrival| &arrival.to).collect();
        let again = arrivals.len() - people.len();
        let faults = self.notes.len();
        format!("{registered} registered, {} arrived, {again} again, {faults} faults", people.len())
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

pub(super) fn send(process: Option<u32>, signal: Signal) {
    let process = process.and_then(|process| Pid::from_raw(i32::try_from(process).ok()?));
    if let Some(process) = process {
        kill_process(process, signal).ok();
    }
}
