//! Faults at random between a collector and senders on two machines that have a broker between
//! them. Started by `cargo xtask test --chaos 30m --broker nats,rabbitmq`.
//!
//! People of all kinds that `people` knows register all the time, `site` runs the programs, what
//! `fault` lists happens to them, and `mending` ends it. `draining` waits in the end until all
//! mails have theirs, recoveries have to overtake what waits, and `account` compares what the
//! database says of each mail with what the mail server saw.

mod account;
mod broker;
mod draining;
mod fault;
mod mending;
mod people;
mod site;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use account::Account;
use broker::Kind;
use fault::Fault;
use people::Load;
use site::Site;

/// How often it is said how far it is.
const REFRESH: Duration = Duration::from_secs(10);

/// For how long there may be no progress in the end. A mail that a killed NATS server would never
/// give out is published anew after twelve minutes, and sent twelve minutes after that.
const PATIENCE: Duration = Duration::from_secs(1_620);

/// Runs it for each broker of a list such as `nats,rabbitmq`, for so long each.
pub(crate) async fn run(names: &str, duration: Duration, seed: u64) -> Result<()> {
    let kinds = names.split(',').map(Kind::of).collect::<Result<Vec<_>>>()?;
    for kind in kinds {
        println!("chaos with {} for {duration:?}; `--seed {seed}` repeats it", kind.name());
        run_one(kind, duration, seed).await.context(format!("`--seed {seed}` repeats this"))?;
    }
    Ok(())
}

async fn run_one(kind: Kind, duration: Duration, seed: u64) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let Some(mut site) = Site::start(kind).await? else { return Ok(()) };
    let load = Load::start(site.client().await?, seed);
    let (started, mut shown) = (Instant::now(), Instant::now());
    while started.elapsed() < duration {
        let fault = Fault::choose(&mut random);
        let inflicted = fault.inflict(&mut site, &mut random);
        inflicted.with_context(|| format!("at the fault `{}`", fault.name()))?;
        let pause = Duration::from_millis(random.u64(0..6_000));
        site.pass(pause).await?;
        if shown.elapsed() >= REFRESH {
            shown = Instant::now();
            println!(
                "  {:>5} s: {}",
                started.elapsed().as_secs(),
                site.progress(load.registered())
            );
        }
    }
    let registered = load.end().await?;
    site.mend_all().await?;
    println!("  {:>5} s: all is mended, {registered} registered", started.elapsed().as_secs());
    site.drain(PATIENCE).await?;
    site.recoveries_overtake(PATIENCE).await?;
    let said = site.stop()?;
    let account = Account::of(&site).await?;
    println!(
        "\n{}, seed {seed}, {} s: {account}\n{said}",
        kind.name(),
        started.elapsed().as_secs()
    );
    account.check()
}
