//! Faults of every kind at random, on a queue that is collected from by three collectors, for as long as is wanted. Started by
//! `cargo xtask test --chaos 30m`.
//!
//! Every minute or so everything is mended, the queue drained, the collectors ended, and the whole history checked.

mod fault;
mod load;
mod world;

use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use fault::Fault;
use world::World;

/// How long faults are injected between two checks of the history.
const STRETCH: Duration = Duration::from_secs(60);

/// How often it is said how far it is.
const REFRESH: Duration = Duration::from_secs(10);

// Some faults are waited for by blocking, and the applications go on meanwhile.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let mut arguments = env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut next =
        || arguments.next().context("usage: chaos SECONDS SEED")?.context("usage: chaos SECONDS SEED");
    let (duration, seed) = (Duration::from_secs(next()?), next()?);
    println!("chaos for {duration:?}; `--seed {seed}` repeats it");
    let started = Instant::now();
    let mut world = World::create(seed).await?;
    let mut shown = Instant::now();
    while started.elapsed() < duration {
        world.begin().await?;
        let stretch = Instant::now() + STRETCH.min(duration.saturating_sub(started.elapsed()));
        while Instant::now() < stretch {
            let fault = Fault::choose(&mut world.trial.random);
            fault.inject(&mut world).await.with_context(|| format!("at the fault `{}`", fault.name()))?;
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
