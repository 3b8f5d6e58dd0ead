//! How fast `mailroom collect` drains waiting tokens, and with how much memory,
//! beside other queues.
//!
//! Each round is a new collector on a refilled queue, from its start to the last line. The
//! contestants take turns, so that other load on the machine slows all of them. Every round is
//! checked: each token was printed once with a genuine signature;
//! each job of another queue ran once.

use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::command;
use mailroom_tests::postgres::Cluster;
use serde_json::{Map, Value, json};

use crate::peers::{Peer, Peers};
use crate::queue::{Kind, Queue};
use crate::report::{Report, Table, median, per_second, rounded};
use crate::run::{Run, peak_memory};

const LIMITS: [u32; 3] = [10, 100, 1_000];

/// How many tokens the first and the last part of a round have.
const PART: u32 = 10_000;

#[derive(clap::Args)]
pub(crate) struct Drain {
    /// How many tokens wait; a multiple of 1,000. The slowest of the other queues get a fifth of it
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    tokens: u32,

    /// How many rounds each queue and batch limit gets; they take turns
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,

    /// Leave the other queues out, which are installed from npm
    #[arg(long)]
    alone: bool,
}

#[derive(clap::Args)]
pub(crate) struct Alone {
    /// How many tokens wait; a multiple of 1,000
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    tokens: u32,

    /// How many rounds there are of each sort; they take turns
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contestant {
    Mailroom { kind: Kind, limit: u32, is_pinned: bool },
    Other(Peer),
}

impl fmt::Display for Contestant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mailroom { kind, limit, is_pinned } => {
                let pinned = if *is_pinned { ", snapshot held" } else { "" };
                write!(formatter, "{}, batches of {limit}{pinned}", kind.name())
            }
            Self::Other(peer) => formatter.write_str(&peer.name().replace('_', " ")),
        }
    }
}

/// The rounds of one contestant.
struct Figures {
    contestant: Contestant,
    /// Tokens, or jobs, per second: of whole rounds, and of their first and last [`PART`] if they
    /// have as many.
    rates: Vec<u32>,
    first: Vec<u32>,
    last: Vec<u32>,
    /// The most memory of the collector, in units of 1024 bytes.
    peaks: Vec<u32>,
}

pub(crate) async fn drain(
    server: &Cluster,
    &Drain { tokens, rounds, alone }: &Drain,
) -> Result<Report> {
    let kinds = [Kind::Deliveries, Kind::Cursor];
    let ours = kinds.iter().flat_map(|kind| {
        LIMITS.map(|limit| Contestant::Mailroom { kind: *kind, limit, is_pinned: false })
    });
    let others = Peer::ALL.into_iter().filter(|_| !alone).map(Contestant::Other);
    let figures = measure(server, ours.chain(others).collect(), tokens, rounds).await?;

    let version = server.installation().major;
    let title = format!(
        "{tokens} tokens drained on PostgreSQL {version}, tokens/s, median of {rounds} rounds"
    );
    let (has_parts, columns) = if tokens < 2 * PART { (false, 1) } else { (true, 3) };
    let (first, last) = (format!("first {PART}"), format!("last {PART}"));
    let mut table = Table::new(&title, &[&"all" as &dyn fmt::Display, &first, &last][..columns]);
    let mut json = json!({ "postgres": version, "tokens": tokens, "rounds": rounds });
    for Figures { contestant, rates, first, last, .. } in &figures {
        let [all, first, last] = [rates, first, last].map(|rates| median(rates));
        match contestant {
            Contestant::Mailroom { kind, limit, .. } => {
                let parts = [("first", first), ("last", last)]
                    .map(|(name, rate)| (format!("{name}_{PART}"), rate));
                json["tokens_per_s"][kind.name()][limit.to_string()] = all.into();
                for (name, rate) in parts.into_iter().filter(|_| has_parts) {
                    json[name][kind.name()][limit.to_string()] = rate.into();
                }
                table.row(
                    &contestant.to_string(),
                    &[&all as &dyn fmt::Display, &first, &last][..columns],
                );
            }
            Contestant::Other(peer) => {
                json["peers"][peer.name()] = all.into();
                table.row(&contestant.to_string(), &[&all]);
            }
        }
    }
    Ok(Report { table, json })
}

/// Whether the queue of deliveries stays fast while vacuum cannot remove what it deletes.
pub(crate) async fn pinned(server: &Cluster, &Alone { tokens, rounds }: &Alone) -> Result<Report> {
    let limit = LIMITS[0];
    let contestant = |is_pinned| Contestant::Mailroom { kind: Kind::Deliveries, limit, is_pinned };
    let figures = measure(server, [false, true].map(contestant).to_vec(), tokens, rounds).await?;
    let version = server.installation().major;
    let [free, pinned] = [0, 1].map(|index: usize| median(&figures[index].rates));
    let share = rounded(f64::from(pinned) / f64::from(free), 3);
    let title = format!(
        "{tokens} tokens drained in batches of {limit} on PostgreSQL {version}, \
         median of {rounds} rounds"
    );
    let mut table = Table::new(&title, &[&"tokens/s"]);
    table.row("no snapshot held", &[&free]);
    table.row("snapshot held elsewhere", &[&pinned]);
    table.row("share", &[&share]);
    Ok(Report { table, json: json!({ "free": free, "pinned": pinned, "share": share }) })
}

/// How much memory the collector of the queue of deliveries has at the most.
pub(crate) async fn memory(server: &Cluster, &Alone { tokens, rounds }: &Alone) -> Result<Report> {
    let contestants = LIMITS.map(|limit| Contestant::Mailroom {
        kind: Kind::Deliveries,
        limit,
        is_pinned: false,
    });
    let figures = measure(server, contestants.to_vec(), tokens, rounds).await?;
    let version = server.installation().major;
    let title = format!(
        "{tokens} tokens drained on PostgreSQL {version}, most resident memory of the collector, \
         {rounds} rounds"
    );
    let mut table = Table::new(&title, &[&"median kB", &"largest kB", &"tokens/s"]);
    let mut json = Map::new();
    for (Figures { contestant, rates, peaks, .. }, limit) in figures.iter().zip(LIMITS) {
        let (peak, largest, rate) =
            (median(peaks), peaks.iter().max().copied().unwrap_or_default(), median(rates));
        table.row(&contestant.to_string(), &[&peak, &largest, &rate]);
        let figures = json!({ "peak_kb": peak, "largest_kb": largest, "tokens_per_s": rate });
        json.insert(limit.to_string(), figures);
    }
    Ok(Report { table, json: Value::Object(json) })
}

/// Lets the contestants take turns.
async fn measure(
    server: &Cluster,
    contestants: Vec<Contestant>,
    tokens: u32,
    rounds: u32,
) -> Result<Vec<Figures>> {
    ensure!(rounds > 0, "--rounds: at least one is needed");
    // None waits for a batch to fill.
    let multiple = LIMITS[LIMITS.len() - 1];
    ensure!(
        tokens > 0 && tokens.is_multiple_of(multiple),
        "--tokens: a multiple of {multiple} is needed"
    );
    eprintln!("making {tokens} tokens ...");
    let mut queues = Vec::new();
    for kind in [Kind::Deliveries, Kind::Cursor] {
        if contestants
            .iter()
            .any(|one| matches!(one, Contestant::Mailroom { kind: other, .. } if *other == kind))
        {
            queues.push(Queue::create(server, kind, tokens).await?);
        }
    }
    let has_peers = contestants.iter().any(|one| matches!(one, Contestant::Other(_)));
    let peers = if has_peers { Some(Peers::create(server)?) } else { None };
    let empty = |contestant| Figures {
        contestant,
        rates: Vec::new(),
        first: Vec::new(),
        last: Vec::new(),
        peaks: Vec::new(),
    };
    let mut all: Vec<Figures> = contestants.into_iter().map(empty).collect();
    for round in 1..=rounds {
        for figures in &mut all {
            match figures.contestant {
                Contestant::Mailroom { kind, limit, is_pinned } => {
                    let queue = queues.iter().find(|queue| queue.kind == kind);
                    figures
                        .run(queue.context("every kind has a queue")?, tokens, limit, is_pinned)
                        .await?;
                }
                Contestant::Other(peer) => {
                    let jobs = peer.jobs(tokens);
                    let peers = peers.as_ref().context("there are databases for peers")?;
                    figures.rates.push(per_second(jobs, peers.drain(peer, jobs).await?));
                }
            }
            let rate = figures.rates.last().copied().unwrap_or_default();
            eprintln!("round {round} of {rounds}, {}: {rate}/s, each once", figures.contestant);
        }
    }
    Ok(all)
}

impl Figures {
    /// Drains a queue with all settings but the batch limit as they are by default.
    async fn run(&mut self, queue: &Queue, tokens: u32, limit: u32, is_pinned: bool) -> Result<()> {
        queue.refill().await?;
        let snapshot = if is_pinned { Some(queue.hold_snapshot().await?) } else { None };
        let mut command = command(queue.url())?;
        command.args(["--queue-kind", queue.kind.name(), "--batch-limit", &limit.to_string()]);
        let mut run = Run::start(&mut command)?;
        let ended = run.wait_for(tokens)?;
        self.rates.push(per_second(tokens, ended - run.started));
        if let Some([first, last]) = parts(&run.arrivals, tokens) {
            self.first.push(first);
            self.last.push(last);
        }
        self.peaks.push(peak_memory(run.collector.process())?);
        let output = run.stop()?;
        drop(snapshot);
        queue.check(&output).await
    }
}

/// The rates of the first and the last [`PART`] of a round, from the first line's arrival on.
fn parts(arrivals: &[(Instant, u32)], tokens: u32) -> Option<[u32; 2]> {
    let reached = |count: u32| arrivals.iter().find(|(_, came)| *came >= count);
    let rate = |from: u32, to: u32| {
        let ((start, before), (end, after)) = (reached(from)?, reached(to)?);
        Some(per_second(after - before, *end - *start))
    };
    if tokens < 2 * PART {
        return None;
    }
    Some([rate(1, PART)?, rate(tokens - PART, tokens)?])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn large_rounds_have_rates_of_their_first_and_last_tokens() {
        let start = Instant::now();
        let at = |seconds, tokens| (start + Duration::from_secs(seconds), tokens);
        let arrivals = [at(1, 0), at(2, 1_000), at(4, 11_000), at(5, 20_000), at(15, 30_000)];
        assert_eq!(parts(&arrivals, 30_000), Some([5_000, 1_000]));
        assert_eq!(parts(&arrivals, 19_999), None);
    }
}
