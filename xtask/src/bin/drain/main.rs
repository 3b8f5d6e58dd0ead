//! How fast `mailroom collect` drains waiting tokens, beside other queues. Started by `cargo xtask bench drain` and `pinned`.
//!
//! Each round is a new collector on a queue that was set back, from its start to the last line that its reader gets. The
//! contestants take turns, so that whatever else the machine does meets all of them. Every round is checked: each token
//! came out once, and its signature is genuine; each job of another queue ran once.

mod check;
mod contestant;
mod memory;
mod peers;
mod pinned;
mod queue;
mod report;
mod round;
mod textbook;

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use mailroom_tests::postgres::Cluster;

use crate::check::Expected;
use crate::contestant::{Contestant, Kind, Peer};
use crate::peers::Peers;
use crate::queue::Queue;
use crate::report::{Figures, Report};
use crate::round::{Round, tokens_per_second};

/// The batch limits that take turns.
const LIMITS: [usize; 3] = [10, 100, 1_000];

#[derive(Parser)]
struct Options {
    /// How many tokens wait; a multiple of the largest batch, so that none waits for a batch to fill
    #[arg(long)]
    tokens: usize,

    /// How many rounds each contestant gets
    #[arg(long)]
    rounds: usize,

    /// What is measured
    #[arg(long, value_enum, default_value_t = What::Others)]
    what: What,

    /// Print one line of JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// All queues
    Others,
    /// The queues of this project
    Alone,
    /// The queue of deliveries, with and without a snapshot that is held open elsewhere
    Pinned,
    /// How much memory the collector of the queue of deliveries has at the most
    Memory,
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
    // It writes as safely as one in service.
    let cluster = Cluster::builder().tcp().durable().start()?;
    match options.what {
        What::Others | What::Alone => compare(options, &cluster).await,
        What::Pinned => pinned::measure(&cluster, options.tokens, options.rounds, options.json).await,
        What::Memory => memory::measure(&cluster, options.tokens, options.rounds, options.json).await,
    }
}

async fn compare(options: &Options, cluster: &Cluster) -> Result<()> {
    let tokens = options.tokens;
    let peers = if options.what == What::Alone { None } else { Some(Peers::create(cluster)?) };
    let mut queues = Vec::new();
    for kind in Kind::ALL {
        let queue = Queue::create(cluster, kind, tokens).await?;
        let expected = Expected::of(queue.secrets().await?)?;
        queues.push((queue, expected));
    }
    let server = queues[0].0.server_version().await?;
    let ours = Kind::ALL.into_iter().flat_map(|kind| LIMITS.map(|limit| Contestant::Mailroom(kind, limit)));
    let others = Peer::ALL.into_iter().map(Contestant::Other).filter(|_| peers.is_some());
    let mut figures: Vec<Figures> = ours.chain(others).map(Figures::of).collect();
    for number in 1..=options.rounds {
        for figures in &mut figures {
            let rate = match (figures.contestant(), &peers) {
                (Contestant::Mailroom(kind, limit), _) => {
                    let queue = queues.iter().find(|(queue, _)| queue.kind() == kind);
                    let (queue, expected) = queue.context("every kind has a queue")?;
                    figures.add_round(&drain(queue, expected, limit, tokens).await?, tokens)
                }
                (Contestant::Other(peer), Some(peers)) => {
                    let jobs = peer.jobs(tokens);
                    let elapsed = peers.drain(peer, jobs).await?;
                    figures.add_rate(tokens_per_second(jobs, elapsed))
                }
                (Contestant::Other(_), None) => continue,
            };
            eprintln!("round {number} of {}, {}: {rate}/s, each once", options.rounds, figures.contestant());
        }
    }
    let report = Report { server: &server, tokens, rounds: options.rounds, figures: &figures };
    println!("{}", if options.json { report.as_json() } else { report.as_table() });
    Ok(())
}

/// One round, checked.
async fn drain(queue: &Queue, expected: &Expected, limit: usize, tokens: usize) -> Result<Round> {
    queue.set_back().await?;
    let round = Round::run(queue, limit, tokens)?;
    expected.check(queue.kind(), &round.output)?;
    ensure!(queue.is_drained().await?, "something is left in the queue, or not recorded");
    Ok(round)
}
