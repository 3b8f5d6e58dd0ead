//! Whether the queue of deliveries stays fast while vacuum cannot remove what it deletes.

use anyhow::{Result, ensure};
use mailroom_tests::postgres::Cluster;

use crate::check::Expected;
use crate::contestant::Kind;
use crate::queue::Queue;
use crate::report::median;
use crate::round::{Round, tokens_per_second};

/// The batch limit that collectors have by default.
const LIMIT: usize = 10;

/// Measures rounds with and without a snapshot that is held open elsewhere, in turns.
pub(crate) async fn measure(cluster: &Cluster, tokens: usize, rounds: usize, json: bool) -> Result<()> {
    let queue = Queue::create(cluster, Kind::Deliveries, tokens).await?;
    let expected = Expected::of(queue.secrets().await?)?;
    let (mut free, mut pinned) = (Vec::new(), Vec::new());
    for number in 1..=rounds {
        for (is_pinned, rates) in [(false, &mut free), (true, &mut pinned)] {
            queue.set_back().await?;
            let snapshot = if is_pinned { Some(queue.pin().await?) } else { None };
            let round = Round::run(&queue, LIMIT, tokens)?;
            drop(snapshot);
            expected.check(queue.kind(), &round.output)?;
            ensure!(queue.is_drained().await?, "something is left in the queue, or not recorded");
            let rate = tokens_per_second(tokens, round.elapsed);
            rates.push(rate);
            eprintln!("round {number} of {rounds}, {}: {rate}/s", if is_pinned { "pinned" } else { "free" });
        }
    }
    let (free, pinned) = (median(&free), median(&pinned));
    // In thousandths, of numbers that a mantissa holds.
    let share = (pinned * 1_000).checked_div(free).unwrap_or_default();
    let share = format!("{}.{:03}", share / 1_000, share % 1_000);
    if json {
        println!(r#"{{"free":{free},"pinned":{pinned},"share":{share}}}"#);
    } else {
        println!(
            "{tokens} tokens drained in batches of {LIMIT}, tokens/s, median of {rounds} rounds\n  \
             free            {free:>9}\n  pinned snapshot {pinned:>9}\n  share           {share:>9}"
        );
    }
    Ok(())
}
