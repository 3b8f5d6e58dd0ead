//! How each fault is brought about.

use std::fs::File;
use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom_tests::collector::Collector;
use mailroom_tests::history::{Watch, claimed};
use mailroom_tests::postgres::{Shutdown, disk};
use mailroom_tests::recorder::Pace;
use mailroom_tests::workload::{Change, LateWriters, unsuspend_all};
use rustix::process::Signal;
use tokio::time::sleep;
use tokio_postgres::Client;

use crate::fault::Fault;
use crate::load::SHORTEST_LIFE;
use crate::world::{Frozen, Mend, World};

/// The longest stall, longer than a lease.
const STALL: Duration = Duration::from_secs(12);

/// Longer than a lease of these collectors.
const LEASE: Duration = Duration::from_secs(6);

/// How long a disk stays full, at most; longer than a lease, too.
const FULL: Duration = Duration::from_secs(6);

/// Longer than a lease.
const SMALLEST_JUMP: Duration = Duration::from_secs(10);

/// Longer than anything that has to be waited for otherwise, so that it would be noticed if that
/// were made up for.
const LARGEST_JUMP: Duration = Duration::from_secs(600);

const HOUR: i64 = 3_600;

/// Where the collector with a sender is.
const SENDER: usize = 2;

/// How long a collector may take to end when it is asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

impl Fault {
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
                // What it cannot settle in time, because its way
                // to the server is disturbed, goes out again.
                watch(world, Duration::ZERO);
                world.take(place)?.stop(ENDS_WITHIN)?;
                world.fill(place)
            }
            Self::ClosePipe => close_pipe(world).await,
            Self::FreezeCollector => freeze(world, place, Frozen::Collector),
            Self::FreezeSender => freeze(world, SENDER, Frozen::Sender),
            Self::AnswerTooLate => {
                // Its sender goes on and answers; it hears it when others have what it had.
                let time = LEASE + world.trial.up_to(STALL.saturating_sub(LEASE));
                freeze_for(world, time, SENDER, Frozen::Collector)
            }
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
                world.proxy.cut_after(&["mailroom.claim(", "mailroom.heartbeat("], 1);
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
            Self::FillDisk => fill_disk(world).await,
            Self::FillOutput => fill_output(world),
            Self::TurnHostClock => {
                watch(world, Duration::ZERO);
                world.take(place)?.stop(ENDS_WITHIN)?;
                let ahead = if world.trial.random.bool() { HOUR } else { -HOUR };
                let readers = world.pace();
                world.fill_with(place, readers, ahead)
            }
            Self::TurnQueueClock => turn_queue_clock(world).await,
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
    freeze_for(world, time, place, what)
}

fn freeze_for(world: &mut World, time: Duration, place: usize, what: Frozen) -> Result<()> {
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
    world.fill_with(place, Pace { lines: Some(lines), ..Pace::default() }, 0)?;
    let watch = Watch::start(&world.trial.database);
    let (status, log) = world.take(place)?.wait()?;
    world.trial.history.put_at_risk(watch.end().await?);
    ensure!(
        !status.success(),
        "the collector ended with {status} when its reader went away:\n{log}"
    );
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

/// The tables that every exchange writes cannot grow for a while.
async fn fill_disk(world: &mut World) -> Result<()> {
    let watch = Watch::start(&world.trial.database);
    disk::fill(&world.trial.client, &world.cluster.disk()).await?;
    sleep(world.trial.up_to(FULL)).await;
    disk::free(&world.trial.client, &world.cluster.disk()).await?;
    world.mend_after(Duration::from_secs(1), Mend::Forget(watch));
    Ok(())
}

/// A collector whose lines find no room: it ends with an error, and since nothing of them came out,
/// nothing may go out twice.
fn fill_output(world: &mut World) -> Result<()> {
    let place = 0;
    world.take(place)?.stop(ENDS_WITHIN)?;
    let mut command = world.command(place)?;
    let full = File::options().write(true).open("/dev/full")?;
    let (status, log) = Collector::start_writing_to(&mut command, full)?.wait()?;
    ensure!(
        !status.success(),
        "the collector ended with {status} when its lines found no room:\n{log}"
    );
    world.fill(place)
}

/// The server's clock jumps, and is put right a little later. Ahead, every lease lapses at once;
/// back, new ones have lapsed as soon as it is right again.
async fn turn_queue_clock(world: &mut World) -> Result<()> {
    let seconds = world.trial.random.u64(SMALLEST_JUMP.as_secs()..=LARGEST_JUMP.as_secs());
    let sign = if world.trial.random.bool() { '+' } else { '-' };
    let watch = Watch::start(&world.trial.database);
    set_clock(&world.trial.client, &format!("clock_timestamp() {sign} interval '{seconds} s'"))
        .await?;
    sleep(world.trial.up_to(Duration::from_secs(3))).await;
    set_clock(&world.trial.client, "clock_timestamp()").await?;
    // What was found expired by the wrong clock is so by the right one before anything is checked.
    sleep(SHORTEST_LIFE).await;
    world.mend_after(Duration::from_secs(1), Mend::Forget(watch));
    world.clock_was_wrong();
    Ok(())
}

/// Only the owner of the schema can put another clock in the place of the queue's own.
async fn set_clock(client: &Client, now: &str) -> Result<()> {
    let replace = format!(
        "CREATE OR REPLACE FUNCTION mailroom.clock() RETURNS timestamptz \
         LANGUAGE sql VOLATILE RETURN {now}"
    );
    Ok(client.batch_execute(&replace).await?)
}
