//! Faults of every kind at random, on a queue that is collected from by three collectors, for as
//! long as is wanted. Started by `cargo xtask test --chaos 30m`.
//!
//! A world of three collectors: one writes to a pipe, one to a pipe through a proxy to the server,
//! one through the proxy to a sender that answers oddly all the time. What `fault` lists is
//! injected into it by `inject`. Every minute or so everything is mended, the queue drained, the
//! collectors ended, and the whole history checked.

mod brokers;
mod fault;
mod inject;
mod load;
mod weights;
mod world;

use std::env;
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use fault::Fault;
use world::World;

/// How long faults are injected between two checks of the history.
const STRETCH: Duration = Duration::from_secs(60);

/// How often it is said how far it is.
const REFRESH: Duration = Duration::from_secs(10);

// Some faults are waited for by blocking, and the applications go on meanwhile.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let Some(options) = Options::read() else {
        eprintln!("usage: chaos SECONDS SEED [--broker NAMES] [--until-input-ends]");
        return ExitCode::from(2);
    };
    let ended = tokio::select! {
        ended = run(&options) => ended,
        // The world is dropped, and with it all that runs in it.
        () = input_ends(options.until_input_ends) => Err(anyhow!("whoever started this has ended")),
        ended = signal_comes() => Err(ended.err().unwrap_or_else(|| anyhow!("ended by a signal"))),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    duration: Duration,
    seed: u64,
    /// Whether to end when standard input does: the other end of that is held by somebody who
    /// cannot end this otherwise, if killed alone.
    until_input_ends: bool,
    /// The brokers, with commas between them, if they are what fails.
    brokers: Option<String>,
}

impl Options {
    fn read() -> Option<Self> {
        let mut arguments = env::args().skip(1);
        let duration = Duration::from_secs(arguments.next()?.parse().ok()?);
        let seed = arguments.next()?.parse().ok()?;
        let (mut until_input_ends, mut brokers) = (false, None);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--until-input-ends" => until_input_ends = true,
                "--broker" => brokers = Some(arguments.next()?),
                _ => return None,
            }
        }
        Some(Self { duration, seed, until_input_ends, brokers })
    }
}

async fn input_ends(is_waited_for: bool) {
    let (sender, ended) = oneshot::channel();
    if is_waited_for {
        // A thread of its own, which nobody waits for: the read may last for ever.
        thread::spawn(move || {
            io::copy(&mut io::stdin(), &mut io::sink()).ok();
            sender.send(()).ok();
        });
        ended.await.ok();
    } else {
        std::future::pending::<()>().await;
    }
}

/// Collectors take a hang-up for something else, and those that write to a sender would not hear
/// that this has ended.
async fn signal_comes() -> Result<()> {
    let mut signals =
        [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [Ok(hangup), Ok(interrupt), Ok(terminate)] = &mut signals else {
        bail!("this system has no signals");
    };
    tokio::select! {
        _ = hangup.recv() => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn run(options: &Options) -> Result<()> {
    let &Options { duration, seed, .. } = options;
    if let Some(brokers) = &options.brokers {
        return brokers::run(brokers, duration, seed).await;
    }
    println!("chaos for {duration:?}; `--seed {seed}` repeats it");
    let started = Instant::now();
    let mut world = World::create(seed, duration).await?;
    let mut shown = Instant::now();
    while started.elapsed() < duration {
        world.begin().await?;
        let stretch = Instant::now() + STRETCH.min(duration.saturating_sub(started.elapsed()));
        while Instant::now() < stretch {
            let fault = Fault::choose(&mut world.trial.random);
            if fault == Fault::FillDisk && !world.has_disk {
                continue;
            }
            fault
                .inject(&mut world)
                .await
                .with_context(|| format!("at the fault `{}`", fault.name()))?;
            world.pause().await?;
            if shown.elapsed() >= REFRESH {
                shown = Instant::now();
                println!("  {:>5} s: {}", started.elapsed().as_secs(), world.progress());
            }
        }
        let tally = world.settle().await.context(format!("`--seed {seed}` repeats this"))?;
        println!("  {:>5} s: all invariants hold: {tally}", started.elapsed().as_secs());
    }
    let tally = world.trial.history.check(&world.trial.client).await?;
    println!("\nseed {seed}, {} s: {tally}", started.elapsed().as_secs());
    Ok(())
}
