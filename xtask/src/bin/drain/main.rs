//! How fast `mailroom collect` drains waiting tokens. Started by `cargo xtask bench drain`.
//!
//! Each round is a new collector on a queue that was set back, from its start to the last line that its reader gets. The
//! batch limits take turns, so that whatever else the machine does meets all of them. Every round is checked: each token
//! came out once, and its signature is genuine.

mod check;
mod queue;
mod report;
mod round;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;

use crate::check::Expected;
use crate::queue::Queue;
use crate::report::{Figures, Report};
use crate::round::Round;

/// The batch limits that take turns.
const LIMITS: [usize; 3] = [10, 100, 1_000];

#[derive(Parser)]
struct Options {
    /// How many tokens wait; a multiple of the largest batch, so that none waits for a batch to fill
    #[arg(long)]
    tokens: usize,

    /// How many rounds each batch limit gets
    #[arg(long)]
    rounds: usize,

    /// Print one line of JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match measure(&Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0, "--rounds: at least one is needed");
    let multiple = LIMITS[LIMITS.len() - 1];
    ensure!(
        options.tokens > 0 && options.tokens.is_multiple_of(multiple),
        "--tokens: a multiple of {multiple} is needed"
    );
    eprintln!("starting a throwaway PostgreSQL and making {} tokens ...", options.tokens);
    let queue = Queue::start(options.tokens).await?;
    let expected = Expected::of(queue.secrets().await?)?;
    let mut figures = LIMITS.map(Figures::of);
    for number in 1..=options.rounds {
        for figures in &mut figures {
            queue.set_back().await?;
            let round = Round::run(queue.url(), figures.limit(), options.tokens)?;
            expected.check(&round.output)?;
            ensure!(queue.is_drained().await?, "the cursor does not stand behind the last token");
            let rate = figures.add(&round, options.tokens);
            eprintln!(
                "round {number} of {}, batches of {}: {rate} tokens/s, all genuine, each once",
                options.rounds,
                figures.limit()
            );
        }
    }
    let report =
        Report { server: queue.version(), tokens: options.tokens, rounds: options.rounds, figures: &figures };
    println!("{}", if options.json { report.as_json() } else { report.as_table() });
    Ok(())
}
