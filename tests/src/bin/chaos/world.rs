//! A server, three collectors, their ways to the server and their readers.

use std::env;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mailroom_tests::clock::WrongClock;
use mailroom_tests::fleet::Member;
use mailroom_tests::history::{Tally, Watch};
use mailroom_tests::mailer::{Mailer, Manner};
use mailroom_tests::postgres::{Cluster, Database, disk};
use mailroom_tests::proxy::Proxy;
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::{Deadlines, NDJSON, PATIENCE, Trial};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::load::Load;

/// Over often within a stretch.
const DEADLINES: Deadlines = Deadlines { lease: "5s", sender_timeout: "2s" };

/// Longer than the sender's timeout, after which what is on its way is given back.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// How often a collector looks through the whole queue, because a clock may have been set back.
const LOOK_BACK: Duration = Duration::from_secs(60);

/// What ends by itself after a time.
pub(crate) enum Mend {
    Resume,
    Restore,
    Continue { collector: usize, what: Frozen },
    Forget(Watch),
}

#[derive(Clone, Copy)]
pub(crate) enum Frozen {
    Collector,
    Sender,
}

/// One of the collectors, by what it is connected to.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    through_proxy: bool,
    to_sender: bool,
    pub(crate) member: Option<Member>,
}

pub(crate) struct World {
    pub(crate) trial: Trial,
    pub(crate) proxy: Proxy,
    pub(crate) mailer: Mailer,
    pub(crate) places: [Place; 3],
    pub(crate) mends: Vec<(Instant, Mend)>,
    pub(crate) has_disk: bool,
    host_clock: WrongClock,
    patience: Duration,
    load: Option<Load>,
    database: Arc<Database>,
    registered: usize,
    stretches: u64,
    seed: u64,
    // Dropped last: everything ends with the server.
    pub(crate) cluster: Cluster,
}

impl World {
    /// Everything that lasts until the end, with room for what is written in so much time.
    pub(crate) async fn create(seed: u64, duration: Duration) -> Result<Self> {
        let mut builder = Cluster::builder().tcp();
        let has_disk = disk::can_be_made();
        if has_disk {
            let minutes = u32::try_from(duration.as_secs() / 60)?;
            builder = builder.disk(64 + 8 * minutes);
        } else {
            println!("skipped: full disks: this user cannot mount a small disk; run it as root");
        }
        let cluster = builder.start()?;
        let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
        let mut trial = Trial::with_seed(database, seed).await?;
        trial.deadlines = DEADLINES;
        if has_disk {
            let create = format!("CREATE TABLESPACE small LOCATION '{}'", cluster.disk().display());
            trial.client.batch_execute(&create).await?;
            trial.client.batch_execute(include_str!("move_queue.sql")).await?;
        }
        // Whatever is not sent in the end is to be found,
        // so nothing may expire but what is meant to.
        let outlive = "ALTER TABLE tokens ALTER expires_at SET DEFAULT \
                       extract(epoch FROM now() + interval '1 day')";
        trial.client.batch_execute(outlive).await?;
        let relay = env::current_exe()?.with_file_name("relay");
        ensure!(relay.is_file(), "{} is missing: build it", relay.display());
        let mailer = Mailer::start(&relay, &trial.recorder)?;
        let proxy = Proxy::start(cluster.port())?;
        let place =
            |name, through_proxy, to_sender| Place { name, through_proxy, to_sender, member: None };
        Ok(Self {
            database: Arc::clone(&trial.database),
            places: [
                place("pipe", false, false),
                place("proxy", true, false),
                place("sender", true, true),
            ],
            trial,
            proxy,
            mailer,
            mends: Vec::new(),
            has_disk,
            host_clock: WrongClock::build()?,
            patience: PATIENCE,
            load: None,
            registered: 0,
            stretches: 0,
            seed,
            cluster,
        })
    }

    /// Starts what is not running: applications and collectors.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        self.trial.connect_again().await?;
        for place in 0..self.places.len() {
            self.fill(place)?;
        }
        self.patience = PATIENCE;
        self.stretches += 1;
        let seed = self.seed.wrapping_add(self.stretches);
        self.mailer.answer(Manner::Odd(seed));
        self.load = Some(Load::start(&self.database, seed));
        Ok(())
    }

    /// Starts a collector in a place.
    pub(crate) fn fill(&mut self, at: usize) -> Result<()> {
        let pace = self.pace();
        self.fill_with(at, pace, 0)
    }

    /// How fast a reader takes lines.
    pub(crate) fn pace(&mut self) -> Pace {
        Pace { pause: self.trial.up_to(Duration::from_millis(10)), ..Pace::default() }
    }

    /// Starts a collector in a place whose reader takes lines at this pace and whose host's clock
    /// is so many seconds ahead.
    pub(crate) fn fill_with(&mut self, at: usize, pace: Pace, ahead: i64) -> Result<()> {
        let mut command = self.command(at)?;
        if ahead != 0 {
            self.host_clock.shift(&mut command, ahead);
        }
        let to = &mut self.places[at];
        // A sender takes its lines elsewhere.
        let pace = if to.to_sender { Pace::default() } else { pace };
        to.member = Some(Member::run(to.name, &mut command, &self.trial.recorder, pace)?);
        Ok(())
    }

    /// What runs in a place.
    pub(crate) fn command(&self, at: usize) -> Result<Command> {
        let Place { name, through_proxy, to_sender, .. } = &self.places[at];
        let database = &self.trial.database;
        let url = if *through_proxy {
            self.proxy.url(database.name())
        } else {
            database.url().to_owned()
        };
        let mut command = self.trial.command(&url)?;
        if *to_sender {
            command.args(["--sender", &self.mailer.command(name)]);
        } else {
            command.args(NDJSON);
        }
        Ok(command)
    }

    /// What came while the clock was behind waits until somebody looks back so far, and nothing for
    /// longer than that.
    pub(crate) fn clock_was_wrong(&mut self) {
        self.patience = PATIENCE + LOOK_BACK;
    }

    /// Takes a collector out of its place.
    pub(crate) fn take(&mut self, at: usize) -> Result<Member> {
        // A frozen one would neither end nor close its pipe.
        self.signal(at, Frozen::Collector, Signal::CONT)?;
        self.signal(at, Frozen::Sender, Signal::CONT)?;
        self.places[at].member.take().context("there is no collector")
    }

    /// Sends a signal to a collector or its sender, if it runs.
    pub(crate) fn signal(&mut self, at: usize, what: Frozen, signal: Signal) -> Result<()> {
        let place = &mut self.places[at];
        match (what, &mut place.member) {
            (Frozen::Collector, Some(member)) => member.collector().signal(signal)?,
            (Frozen::Sender, _) => _ = self.mailer.signal(place.name, signal),
            (Frozen::Collector, None) => {}
        }
        Ok(())
    }

    /// Has something mended after a time.
    pub(crate) fn mend_after(&mut self, time: Duration, mend: Mend) {
        self.mends.push((Instant::now() + time, mend));
    }

    /// Lets a short time pass, and mends what is due.
    pub(crate) async fn pause(&mut self) -> Result<()> {
        sleep(self.trial.up_to(Duration::from_millis(600))).await;
        self.mend(Instant::now()).await
    }

    async fn mend(&mut self, until: Instant) -> Result<()> {
        let (due, later) =
            std::mem::take(&mut self.mends).into_iter().partition(|(at, _)| *at <= until);
        self.mends = later;
        for (_, mend) in due {
            match mend {
                Mend::Resume => self.proxy.resume(),
                Mend::Restore => self.proxy.restore(),
                Mend::Continue { collector, what } => self.signal(collector, what, Signal::CONT)?,
                Mend::Forget(watch) => {
                    let claimed = watch.end().await?;
                    self.trial.history.put_at_risk(claimed);
                }
            }
        }
        Ok(())
    }

    /// Mends everything, waits until all is sent, ends the collectors, and checks the history.
    pub(crate) async fn settle(&mut self) -> Result<Tally> {
        let load = self.load.take().context("nobody registers people")?;
        self.registered += load.end().await?;
        while !self.mends.is_empty() {
            sleep(Duration::from_millis(100)).await;
            self.mend(Instant::now()).await?;
        }
        self.proxy.resume();
        self.mailer.answer(Manner::Sent(Duration::ZERO));
        for (oddity, times) in self.mailer.take_oddities() {
            self.trial.history.note_times(oddity, times);
        }
        self.trial.connect_again().await?;
        mailroom_tests::workload::unsuspend_all(&self.trial.client).await?;
        let drained = self.trial.history.drained(&self.trial.client, self.patience).await;
        drained.with_context(|| self.logs())?;
        for place in 0..self.places.len() {
            self.take(place)?.stop(ENDS_WITHIN)?;
        }
        self.trial.history.nothing_is_claimed(&self.trial.client).await?;
        self.trial.history.check(&self.trial.client).await
    }

    fn logs(&mut self) -> String {
        let mut logs = String::new();
        for place in &mut self.places {
            if let Some(member) = &mut place.member {
                let log = member.collector().log();
                let start = log.len().saturating_sub(3_000);
                let end = log.get(start..).unwrap_or(&log);
                logs = format!("{logs}the log of `{}` ends with\n{end}\n", place.name);
            }
        }
        logs
    }

    /// How far it is, on a line.
    pub(crate) fn progress(&self) -> String {
        let registered = self.registered + self.load.as_ref().map_or(0, Load::registered);
        let seen = self.trial.recorder.seen();
        format!(
            "{registered} registered, {} tokens arrived, {} of them again, {} faults",
            seen.tokens.len(),
            seen.handovers - seen.tokens.len(),
            self.trial.history.faults()
        )
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The collectors are killed; a frozen sender would not hear of it.
        for place in &self.places {
            self.mailer.signal(place.name, Signal::CONT);
        }
    }
}
