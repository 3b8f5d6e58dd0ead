//! How much memory a collector has at the most while it drains.

use std::fs;

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::Cluster;

use crate::LIMITS;
use crate::check::Expected;
use crate::contestant::Kind;
use crate::queue::Queue;
use crate::report::median;
use crate::round::{Round, tokens_per_second};

/// Measures the queue of deliveries with each batch limit, in turns.
pub(crate) async fn measure(cluster: &Cluster, tokens: usize, rounds: usize, json: bool) -> Result<()> {
    let queue = Queue::create(cluster, Kind::Deliveries, tokens).await?;
    let expected = Expected::of(queue.secrets().await?)?;
    let mut figures = LIMITS.map(|limit| (limit, Vec::new(), Vec::new()));
    for number in 1..=rounds {
        for (limit, peaks, rates) in &mut figures {
            queue.set_back().await?;
            let round = Round::run(&queue, *limit, tokens)?;
            expected.check(queue.kind(), &round.output)?;
            ensure!(queue.is_drained().await?, "something is left in the queue, or not recorded");
            peaks.push(round.peak);
            rates.push(tokens_per_second(tokens, round.elapsed));
            eprintln!("round {number} of {rounds}, batches of {limit}: {} kB", round.peak);
        }
    }
    let rows = figures.map(|(limit, peaks, rates)| {
        let (peak, largest) = (median(&peaks), peaks.iter().max().copied().unwrap_or_default());
        (limit, peak, largest, median(&rates))
    });
    if json {
        let rows = rows.map(|(limit, peak, largest, rate)| {
            format!(r#""{limit}":{{"peak_kb":{peak},"largest_kb":{largest},"tokens_per_s":{rate}}}"#)
        });
        println!("{{{}}}", rows.join(","));
    } else {
        println!("{tokens} tokens drained, most resident memory of the collector, {rounds} rounds");
        println!("  batches of   median kB   largest kB   tokens/s");
        for (limit, peak, largest, rate) in rows {
            println!("  {limit:>10} {peak:>11} {largest:>12} {rate:>10}");
        }
    }
    Ok(())
}

/// The most memory that a process had in RAM so far, in units of 1024 bytes.
pub(crate) fn peak(process: u32) -> Result<u64> {
    let status =
        fs::read_to_string(format!("/proc/{process}/status")).context("only Linux tells the peak")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    Ok(peak.context("the kernel does not tell the peak")?.parse()?)
}
