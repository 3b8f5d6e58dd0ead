//! What can go wrong.

use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom_tests::history::{Watch, claimed};
use mailroom_tests::postgres::Shutdown;
use mailroom_tests::recorder::Pace;
use mailroom_tests::workload::{Change, LateWriters, unsuspend_all};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::world::{Frozen, Mend, World};

/// The longest stall, longer than a lease.
const STALL: Duration = Duration::from_secs(12);

/// Where the collector with a sender is.
const SENDER: usize = 2;

/// How long a collector may take to end when it is asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(12);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    KillCollector,
    StopCollector,
    ClosePipe,
    FreezeCollector,
    KillSender,
    FreezeSender,
    StopServerFast,
    StopServerAtOnce,
    EndSessions,
    CutAfterCommit,
    Cut,
    Stall,
    HalfOpen,
    ChangeClaimed,
    Unsuspend,
    CommitLate,
}

/// How often each is chosen.
const WEIGHTS: [(Fault, usize); 16] = [
    (Fault::KillCollector, 12),
    (Fault::StopCollector, 5),
    (Fault::ClosePipe, 4),
    (Fault::FreezeCollector, 3),
    (Fault::KillSender, 8),
    (Fault::FreezeSender, 3),
    (Fault::StopServerFast, 2),
    (Fault::StopServerAtOnce, 2),
    (Fault::EndSessions, 6),
    (Fault::CutAfterCommit, 10),
    (Fault::Cut, 6),
    (Fault::Stall, 2),
    (Fault::HalfOpen, 2),
    (Fault::ChangeClaimed, 12),
    (Fault::Unsuspend, 4),
    (Fault::CommitLate, 3),
];

impl Fault {
    pub(crate) fn choose(random: &mut fastrand::Rng) -> Self {
        let all: usize = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let mut number = random.usize(..all);
        for (fault, weight) in WEIGHTS {
            if number < weight {
                return fault;
            }
            number -= weight;
        }
        unreachable!("the number is below the sum of the weights")
    }

    /// As the counts at the end call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KillCollector => "kills of a collector",
            Self::StopCollector => "stops by SIGTERM",
            Self::ClosePipe => "closed pipes",
            Self::FreezeCollector => "frozen collectors",
            Self::KillSender => "kills of a sender",
            Self::FreezeSender => "frozen senders",
            Self::StopServerFast => "fast stops of the server",
            Self::StopServerAtOnce => "immediate stops of the server",
            Self::EndSessions => "terminations of all sessions",
            Self::CutAfterCommit => "cuts after COMMIT",
            Self::Cut => "cuts",
            Self::Stall => "stalls",
            Self::HalfOpen => "half-open connections",
            Self::ChangeClaimed => "changes of claimed tokens",
            Self::Unsuspend => "lifted suspensions",
            Self::CommitLate => "bursts of late commits",
        }
    }

    pub(crate) async fn inject(self, world: &mut World) -> Result<()> {
        world.trial.history.note(self.name());
        let place = world.trial.random.usize(..world.places.len());
        match self {
            Self::KillCollector => {
                let member = world.take(place)?;
                member.kill()?;
                put_at_risk(world).await?;
                world.fill(place)
            }
            Self::StopCollector => {
                // What it cannot settle in time, because its way to the server is disturbed, goes out again.
                watch(world, Duration::ZERO);
                world.take(place)?.stop(ENDS_WITHIN)?;
                world.fill(place)
            }
            Self::ClosePipe => close_pipe(world).await,
            Self::FreezeCollector => freeze(world, place, Frozen::Collector),
            Self::FreezeSender => freeze(world, SENDER, Frozen::Sender),
            Self::KillSender => {
                // Stopped first: it gets nothing after it was looked up what it may have.
                world.signal(SENDER, Frozen::Sender, Signal::STOP)?;
                put_at_risk(world).await?;
                world.signal(SENDER, Frozen::Sender, Signal::KILL)
            }
            Self::StopServerFast => restart(world, Shutdown::Fast).await,
            Self::StopServerAtOnce => restart(world, Shutdown::Immediate).await,
            Self::EndSessions => {
                watch(world, Duration::ZERO);
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()";
                world.trial.client.execute(end, &[]).await?;
                Ok(())
            }
            Self::CutAfterCommit => {
                watch(world, Duration::from_secs(2));
                world.proxy.cut_after(&["mailroom_exchange(", "mailroom_tend("], 1);
                Ok(())
            }
            Self::Cut => {
                watch(world, Duration::ZERO);
                world.proxy.cut();
                Ok(())
            }
            Self::Stall | Self::HalfOpen => {
                let time = world.trial.up_to(STALL);
                watch(world, time);
                let mend = if self == Self::Stall {
                    world.proxy.stall();
                    Mend::Resume
                } else {
                    world.proxy.half_open();
                    Mend::Restore
                };
                world.mend_after(time, mend);
                Ok(())
            }
            Self::ChangeClaimed => change(world).await,
            Self::Unsuspend => unsuspend_all(&world.trial.client).await.map(drop),
            Self::CommitLate => {
                let writers = LateWriters {
                    writers: 10,
                    transactions: 3,
                    accounts: 5,
                    delay: Duration::from_millis(200),
                    seed: world.trial.random.u64(..),
                };
                writers.write(&world.trial.database).await.map(drop)
            }
        }
    }
}

async fn put_at_risk(world: &mut World) -> Result<()> {
    let claimed = claimed(&world.trial.client).await?;
    world.trial.history.put_at_risk(claimed);
    Ok(())
}

/// Whatever is claimed during a fault, and shortly after it, may go out again because of it.
fn watch(world: &mut World, time: Duration) {
    let watch = Watch::start(&world.trial.database);
    world.mend_after(time + Duration::from_secs(1), Mend::Forget(watch));
}

fn freeze(world: &mut World, place: usize, what: Frozen) -> Result<()> {
    let time = world.trial.up_to(STALL);
    watch(world, time);
    world.signal(place, what, Signal::STOP)?;
    world.mend_after(time, Mend::Continue { collector: place, what });
    Ok(())
}

async fn restart(world: &mut World, how: Shutdown) -> Result<()> {
    let away = world.trial.up_to(Duration::from_secs(2));
    watch(world, away);
    world.cluster.stop(how)?;
    sleep(away).await;
    world.cluster.start_again()?;
    world.trial.connect_again().await
}

/// A reader that goes away: the collector notices, ends with an error, and is started again.
async fn close_pipe(world: &mut World) -> Result<()> {
    let place = 0;
    world.take(place)?.stop(ENDS_WITHIN)?;
    let lines = world.trial.random.usize(1..50);
    world.fill_with(place, Pace { lines: Some(lines), ..Pace::default() })?;
    let watch = Watch::start(&world.trial.database);
    let (status, log) = world.take(place)?.wait()?;
    world.trial.history.put_at_risk(watch.end().await?);
    ensure!(!status.success(), "the collector ended with {status} when its reader went away:\n{log}");
    world.fill(place)
}

async fn change(world: &mut World) -> Result<()> {
    let mut tokens: Vec<i64> = claimed(&world.trial.client).await?.into_iter().collect();
    tokens.sort_unstable();
    let random = &mut world.trial.random;
    tokens.retain(|_| random.u8(0..8) == 0);
    let change = Change::ALL[random.usize(..Change::ALL.len())];
    world.trial.history.learn(&world.trial.client).await?;
    change.apply(&world.trial.client, &tokens).await?;
    Ok(())
}
