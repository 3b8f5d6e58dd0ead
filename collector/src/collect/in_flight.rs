//! The in-flight window: lines on their way to the reader, and acks that the queue has not settled yet.

use std::collections::HashMap;
use std::future::{Future, pending};
use std::mem;
use std::pin::pin;
use std::time::{Duration, Instant};

use super::Ended;
use super::prefetch::Prefetch;
use crate::line::Line;
use crate::queue::{BatchId, Nack, Settlement};
use crate::signals::{Stop, stopped};
use crate::sink::{OutgoingBatch, Readiness, Sink, SinkError};
use crate::timer::sleep_until_opt;

/// The shortest time between two settlements, each of which is a commit.
pub(super) const SETTLE_PAUSE: Duration = Duration::from_millis(20);

/// A line that is unsent for this long is cancelled, so that its tokens are checked again.
pub(super) const STALE: Duration = Duration::from_secs(1);

/// The sink, which holds the lines, and what it does not know of their batches.
#[derive(Debug)]
pub(super) struct InFlight<S> {
    pub(super) sink: S,
    prefetch: Prefetch,
    /// The tokens of batches in flight that their lines do not contain.
    rejected: HashMap<BatchId, Vec<(i64, Nack)>>,
    /// Of acknowledged batches, in the order of the acks.
    unsettled: Vec<Settlement>,
    settled_at: Option<Instant>,
    /// Batches that the reader will never read, not released yet.
    unsent: Vec<BatchId>,
    /// When work was first found to delay a stop.
    pub(super) stop_noticed: Option<Instant>,
}

/// What can be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    pub(super) batches: usize,
    /// The most tokens of each.
    pub(super) limit: usize,
    /// Whether they are to show that the reader works, which does not wait until a batch is full.
    pub(super) is_probe: bool,
}

impl<S: Sink> InFlight<S> {
    pub(super) fn new(sink: S, prefetch: Prefetch) -> Self {
        Self {
            sink,
            prefetch,
            rejected: HashMap::new(),
            unsettled: Vec::new(),
            settled_at: None,
            unsent: Vec::new(),
            stop_noticed: None,
        }
    }

    /// What can be claimed now, in batches of at most `limit` tokens.
    pub(super) fn capacity(&self, limit: usize) -> Option<Capacity> {
        let in_flight = self.sink.in_flight();
        let probe = |limit| Capacity { batches: usize::from(in_flight == 0), limit, is_probe: true };
        let capacity = match self.sink.readiness() {
            Readiness::Down => return None,
            Readiness::OneToken => probe(1),
            Readiness::OneBatch => probe(limit),
            Readiness::Ready => Capacity { batches: self.prefetch.wanted(in_flight), limit, is_probe: false },
        };
        (capacity.batches > 0).then_some(capacity)
    }

    /// Sends the line of a batch. One without tokens is settled without an ack.
    pub(super) fn send(&mut self, batch: BatchId, line: Line) {
        let rejected = line.rejected.iter().map(|(id, row)| (*id, Nack::Dead { reason: row.to_string() }));
        let rejected: Vec<_> = rejected.collect();
        if line.ids.is_empty() {
            self.unsettled.push(Settlement { batch, nacks: rejected });
            return;
        }
        if !rejected.is_empty() {
            self.rejected.insert(batch, rejected);
        }
        self.sink.send(OutgoingBatch { batch, ids: line.ids, line: line.bytes });
    }

    /// Waits until the state of lines changes. Returns whether there are new acks. Can be dropped at any point.
    ///
    /// # Errors
    /// The sink will take nothing more.
    pub(super) async fn changed(&mut self) -> Result<bool, SinkError> {
        let changed = self.sink.changed().await;
        let is_acked = self.note_acks();
        self.unsent.extend(self.sink.unsent());
        changed.map(|()| is_acked)
    }

    /// Serves the sink until `work` on the queue is done; `grace` is how long the work may go on after a stop.
    ///
    /// # Errors
    /// The collector is to stop, or the sink will take nothing more; the work is cancelled.
    pub(super) async fn attend<T>(
        &mut self,
        stop: Option<&mut Stop>,
        grace: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, Ended> {
        let stop = async {
            match stop {
                Some(stop) => stopped(stop).await,
                None => pending().await,
            }
        };
        let (mut work, mut stop) = (pin!(work), pin!(stop));
        let mut end = None;
        loop {
            tokio::select! {
                biased;
                // Before the stop: the queue gets the settlements passed to it only when the work is polled.
                done = &mut work => return Ok(done),
                () = &mut stop, if end.is_none() => {
                    let now = *self.stop_noticed.get_or_insert_with(Instant::now);
                    end = Some(now + grace);
                }
                () = sleep_until_opt(end) => return Err(Ended::Stopped),
                changed = self.changed() => {
                    changed?;
                }
            }
        }
    }

    /// When to settle, if there are acks.
    pub(super) fn settle_at(&self, now: Instant) -> Option<Instant> {
        let next = self.settled_at.map_or(now, |settled| settled + SETTLE_PAUSE);
        (!self.unsettled.is_empty()).then_some(next)
    }

    /// What is to be settled at `now`.
    pub(super) fn take_settlements(&mut self, now: Instant) -> Vec<Settlement> {
        self.settled_at = Some(now);
        mem::take(&mut self.unsettled)
    }

    /// When unsent lines are to be cancelled, if there are any.
    pub(super) fn stale_at(&self) -> Option<Instant> {
        self.sink.waiting_since().map(|since| since + STALE)
    }

    /// Cancels unsent lines. Returns all batches that are to be released.
    pub(super) fn cancel_unsent(&mut self) -> Vec<BatchId> {
        self.unsent.extend(self.sink.unsent());
        self.unsent.extend(self.sink.cancel_unsent());
        self.take_unsent()
    }

    /// [`cancel_unsent`](Self::cancel_unsent) because the reader is slow: less is sent until it goes on.
    pub(super) fn cancel_stale(&mut self) -> Vec<BatchId> {
        let batches = self.cancel_unsent();
        self.prefetch.cancelled(self.sink.in_flight());
        batches
    }

    /// Batches that are to be released: the reader will never read their lines.
    pub(super) fn take_unsent(&mut self) -> Vec<BatchId> {
        let batches = mem::take(&mut self.unsent);
        for batch in &batches {
            self.rejected.remove(batch);
        }
        batches
    }

    /// Another collector sends these batches now.
    pub(super) fn drop_lost(&mut self, batches: &[BatchId]) {
        self.sink.drop_lost(batches);
        for batch in batches {
            self.rejected.remove(batch);
        }
    }

    /// Abandons what is still in flight. Returns how many lines that is.
    pub(super) fn abandon(&mut self) -> usize {
        self.note_acks();
        let left = self.sink.in_flight();
        self.sink.abandon();
        self.note_acks();
        left
    }

    fn note_acks(&mut self) -> bool {
        let before = self.unsettled.len();
        for ack in self.sink.acks() {
            self.prefetch.acked(ack.after);
            let mut nacks = ack.nacks;
            nacks.extend(self.rejected.remove(&ack.batch).unwrap_or_default());
            self.unsettled.push(Settlement { batch: ack.batch, nacks });
        }
        self.unsettled.len() > before
    }
}
