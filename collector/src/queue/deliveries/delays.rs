//! How long tokens wait: from when they are due until they are claimed and until they are sent.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::metrics::Metrics;
use crate::queue::{Batch, BatchId, Settlement};

/// The claimed batches, with how long each token had been due then.
#[derive(Debug, Default)]
pub(super) struct Delays(BTreeMap<BatchId, Claimed>);

#[derive(Debug)]
struct Claimed {
    at: Instant,
    /// By the id of the token.
    due_for: Vec<(i64, Duration)>,
}

impl Delays {
    /// Batches were claimed, whose tokens had been due for these times; in the same order.
    pub(super) fn claimed(
        &mut self,
        batches: &[Batch],
        delays: Vec<(BatchId, Vec<Duration>)>,
        metrics: &Metrics,
    ) {
        let at = Instant::now();
        for (batch, (id, delays)) in batches.iter().zip(delays) {
            let tokens = || batch.tokens.iter().zip(&delays);
            let first = tokens().filter(|(token, _)| token.attempt == 1);
            metrics.claimed(batch.tokens.len(), first.map(|(_, delay)| *delay));
            let due_for = tokens().map(|(token, delay)| (token.id, *delay)).collect();
            self.0.insert(id, Claimed { at, due_for });
        }
    }

    /// A batch was settled.
    pub(super) fn settled(&mut self, settlement: &Settlement, metrics: &Metrics) {
        let Some(Claimed { at, due_for }) = self.0.remove(&settlement.batch) else { return };
        let since = at.elapsed();
        for (token, due_for) in due_for {
            if settlement.nacks.iter().all(|(id, _)| *id != token) {
                metrics.sent_after(due_for + since);
            }
        }
    }

    /// Forgets the batches that are not held any more, however they went.
    pub(super) fn keep(&mut self, is_held: impl Fn(BatchId) -> bool) {
        self.0.retain(|id, _| is_held(*id));
    }
}
