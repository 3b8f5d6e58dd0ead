//! What a drill of a failover registers, counts and compares.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

use crate::collector::{self, wait_long_until};
use crate::fixtures::Fixtures;
use crate::fleet::Member;
use crate::program;
use crate::recorder::{Pace, Recorder, SecretBytes};
use crate::stopwatch::Stopwatch;
use crate::trial::{Deadlines, FAR, NDJSON, NEAR, PATIENCE};

/// How long a registration waits for the next one.
const PAUSE: Duration = Duration::from_millis(2);

/// Gives a database the schema.
pub fn migrate(url: &str) -> Result<()> {
    let mut command = program::mailroom()?;
    command.args(["migrate", "up"]).env("MAILROOM_DATABASE_URL", url);
    let migrated = command.output()?;
    ensure!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    Ok(())
}

/// The secrets of all tokens that a database has.
async fn secrets(client: &Client) -> Result<HashSet<SecretBytes>> {
    let rows = client.query("SELECT secret FROM tokens", &[]).await?;
    let secret = |row: &tokio_postgres::Row| row.get::<_, &[u8]>(0).try_into();
    Ok(rows.iter().map(secret).collect::<Result<_, _>>()?)
}

/// People who register one by one at whichever server takes writes.
#[derive(Debug)]
struct Registrations {
    committed: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Registrations {
    /// Begins, with logins that begin with `prefix`; a connection that is lost is made again.
    fn start(servers: &str, prefix: &'static str) -> Self {
        let (committed, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let task = register(servers.to_owned(), prefix, Arc::clone(&committed), Arc::clone(&stop));
        let task = tokio::spawn(task);
        Self { committed, stop, task }
    }

    /// How many commits were acknowledged.
    fn committed(&self) -> usize {
        self.committed.load(Ordering::Relaxed)
    }

    /// Waits until so many commits were acknowledged.
    async fn wait_for(&self, least: usize) -> Result<()> {
        let since = Stopwatch::start();
        while self.committed() < least {
            sleep(Duration::from_millis(5)).await;
            let committed = self.committed();
            ensure!(since.elapsed() < PATIENCE, "only {committed} of {least} registrations");
        }
        Ok(())
    }

    /// Ends after the one that is on its way.
    async fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.task.await?)
    }
}

async fn register(
    servers: String,
    prefix: &str,
    committed: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
) {
    let mut number = 0_usize;
    while !stop.load(Ordering::Relaxed) {
        let Ok((client, connection)) = tokio_postgres::connect(&servers, NoTls).await else {
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let serving = tokio::spawn(connection);
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            // One whose commit nobody has acknowledged may be there or not.
            if client.account(&format!("{prefix}{number}")).insert().await.is_err() {
                break;
            }
            committed.fetch_add(1, Ordering::Relaxed);
            sleep(PAUSE).await;
        }
        serving.abort();
    }
}

/// A queue, a collector, and registrations that both reach in the same way.
#[derive(Debug)]
pub struct Drill {
    recorder: Recorder,
    collector: Member,
    registrations: Registrations,
    /// What any primary had that was one no longer.
    of_old: HashSet<SecretBytes>,
}

impl Drill {
    /// Begins to collect and to register at `servers`. A collector that `polls` hears of nothing.
    pub fn start(servers: &str, is_synchronous: bool, polls: bool) -> Result<Self> {
        let recorder = Recorder::new()?;
        let mut command = collector::command(servers)?;
        command.args(["--queue-kind", "deliveries", "--batch-timeout", "20ms"]);
        command.args(["--poll-interval", "500ms"]).args(NDJSON);
        if polls {
            command.args(["--wake", "poll"]);
        }
        // What the new primary believes to be claimed, though it was settled, is soon claimed
        // again. Where it knows all, nothing is taken over from a collector that lives.
        let Deadlines { lease, sender_timeout } = if is_synchronous { FAR } else { NEAR };
        command.args(["--lease", lease, "--sender-timeout", sender_timeout]);
        let collector = Member::run("one", &mut command, &recorder, Pace::default())?;
        let registrations = Registrations::start(servers, "p");
        Ok(Self { recorder, collector, registrations, of_old: HashSet::new() })
    }

    /// Waits for more registrations.
    pub async fn more(&self, registrations: usize) -> Result<()> {
        self.registrations.wait_for(self.registrations.committed() + registrations).await
    }

    /// Lets people register at `servers` alone from now on; whoever waits elsewhere gives up.
    pub fn register_at(&mut self, servers: &str) {
        self.registrations.task.abort();
        self.registrations = Registrations::start(servers, "q");
    }

    /// Waits for the first registration from now on, and then for the first mail. Returns how long
    /// that took after the registration.
    pub async fn goes_on(&self) -> Result<Duration> {
        self.more(1).await?;
        let (since, arrived) = (Stopwatch::start(), self.recorder.tokens());
        while self.recorder.tokens() == arrived {
            sleep(Duration::from_millis(10)).await;
            ensure!(since.elapsed() < PATIENCE, "nothing is collected from the new primary");
        }
        Ok(since.elapsed())
    }

    /// Remembers what a server has that is no primary any longer.
    pub async fn note_old(&mut self, old: &Client) -> Result<()> {
        self.of_old.extend(secrets(old).await?);
        Ok(())
    }

    /// Ends the registrations, waits until all mails of the primary went out, and compares. Where
    /// `is_all_known`, every server that was a primary was noted.
    pub async fn end(self, primary: &Client, is_all_known: bool) -> Result<Counts> {
        let Self { recorder, collector, registrations, of_old } = self;
        registrations.stop().await?;
        let survived = secrets(primary).await?;
        let all_arrived = || {
            let seen = recorder.seen();
            survived.iter().all(|secret| seen.tokens.contains_key(secret))
        };
        wait_long_until(all_arrived).context("mails of the timeline that survives are lost")?;
        let waiting = "SELECT count(*) FROM mailroom.queue";
        while primary.query_one(waiting, &[]).await?.get::<_, i64>(0) > 0 {
            sleep(Duration::from_millis(50)).await;
        }
        collector.stop(PATIENCE)?;
        let seen = recorder.seen();
        ensure!(seen.faults.is_empty(), "{:?}", seen.faults);
        let came_twice = |secret: &&SecretBytes| seen.tokens[*secret].len() > 1;
        let unknown = seen.tokens.keys().filter(|secret| !of_old.contains(*secret));
        if is_all_known {
            let strange = unknown.clone().filter(|secret| !survived.contains(*secret)).count();
            ensure!(strange == 0, "{strange} mails went out for tokens that no server has");
            // What was registered after the last promotion went out once.
            let twice = unknown.filter(came_twice).count();
            ensure!(twice == 0, "{twice} mails of the new primary went out twice");
        }
        Ok(Counts {
            survived: survived.len(),
            twice: seen.tokens.keys().filter(came_twice).count(),
            lost: of_old.difference(&survived).count(),
            orphaned: seen.tokens.keys().filter(|secret| !survived.contains(*secret)).count(),
        })
    }
}

/// What a failover has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Tokens of the new primary, all of which went out.
    pub survived: usize,
    /// Those that went out more than once.
    pub twice: usize,
    /// Tokens that an old primary alone had.
    pub lost: usize,
    /// Mails that went out for such a token.
    pub orphaned: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { survived, twice, lost, orphaned } = self;
        write!(
            formatter,
            "{survived} tokens survived and all went out, {twice} of all mails twice; an old \
             primary alone had {lost}, and {orphaned} mails went out for such"
        )
    }
}
