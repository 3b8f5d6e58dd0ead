//! Registrations while a collector collects: with one that is woken when it sleeps, with one that nobody ever wakes, and
//! where every registration announces itself.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom_tests::collector::{Collector, command};

use crate::reader::Reader;
use crate::report::{Rates, WakeFigures};
use crate::server::Server;
use crate::writers::register;

/// How many registrations run at once.
pub(crate) const WRITERS: [u32; 2] = [1, 16];

/// Who collects meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    /// Nobody wakes the collector, which looks once a second.
    PollOnly,
    /// As installed: announced while the collector sleeps.
    Hinted,
    /// Every registration is announced, as on the base schema.
    NotifyEach,
}

pub(crate) const CONTESTANTS: [Contestant; 3] =
    [Contestant::PollOnly, Contestant::Hinted, Contestant::NotifyEach];

impl Contestant {
    fn collector(self, url: &str) -> Result<Command> {
        let mut command = command(url)?;
        if self == Self::PollOnly {
            command.args(["--wake", "poll", "--poll-interval", "1s"]);
        }
        Ok(command)
    }
}

/// Lets the contestants take turns; each round is checked: what was registered came out, once.
pub(crate) async fn measure(rounds: usize, duration: Duration) -> Result<WakeFigures> {
    ensure!(rounds > 0 && !duration.is_zero(), "at least one round of a second is needed");
    let server = Server::start().await?;
    let mut figures = WakeFigures::new(server.version(), rounds);
    // The first one warms the server up.
    run(&server, Contestant::Hinted, 16, Duration::from_secs(1)).await?;
    for number in 1..=rounds {
        for (writers, rates) in WRITERS.into_iter().zip(&mut figures.rates) {
            for contestant in CONTESTANTS {
                let rate = run(&server, contestant, writers, duration).await?;
                note(rates, contestant).push(rate);
                eprintln!(
                    "round {number} of {rounds}, {writers} writers, {contestant:?}: {rate:.0} registrations/s"
                );
            }
        }
    }
    Ok(figures)
}

fn note(rates: &mut Rates, contestant: Contestant) -> &mut Vec<f64> {
    match contestant {
        Contestant::PollOnly => &mut rates.poll_only,
        Contestant::Hinted => &mut rates.hinted,
        Contestant::NotifyEach => &mut rates.notify_each,
    }
}

async fn run(server: &Server, contestant: Contestant, writers: u32, duration: Duration) -> Result<f64> {
    server.empty().await?;
    // Where somebody has the lock of a sleeping collector all the time, everything is announced.
    let sleeper = server.connect().await?;
    if contestant == Contestant::NotifyEach {
        let lock = "SELECT pg_advisory_lock(1835100524, 'pending'::regclass::oid::integer)";
        sleeper.batch_execute(lock).await?;
    }
    let mut collector = Collector::start(&mut contestant.collector(server.url())?)?;
    let reader = Reader::of(&mut collector)?;
    collector.wait_until_it_collects()?;
    let registered = register(server, writers, duration).await?;
    reader.wait_for(registered.accounts, &collector)?;
    collector.stop()?;
    Ok(registered.per_second)
}
