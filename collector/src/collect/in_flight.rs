//! The in-flight window: lines on their way to the reader,
//! and acks that the queue has not settled yet.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mailroom_pace::{Adaptive, Prefetch};
use mailroom_verifier_core::Version;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use super::CollectError;
use super::spans::Spans;
use crate::config::LineFormat;
use crate::keys::SigningKey;
use crate::line::Line;
use crate::metrics::Metrics;
use crate::queue::{Batch, BatchId, ClaimRequest, Nack, QueueError, Settlement};
use crate::sink::{Ack, Readiness, Sink, SinkError};
use crate::timer::{self, sleep_until_opt};

/// How long an ack waits for others, since each settlement is a commit,
/// unless it goes out beside a claim.
pub(super) const SETTLE_PAUSE: Duration = Duration::from_millis(20);

/// A line that is unsent for this long is cancelled, so that its tokens are checked again.
pub(super) const STALE: Duration = Duration::from_secs(1);

/// How many tokens are signed before anything else gets its turn, at least.
const SIGNED_AT_ONCE: usize = 250;

/// The sink, which holds the lines, and what else is known of their batches.
pub(super) struct InFlight<S> {
    pub(super) sink: S,
    /// The key that signs, replaced when the keys are read again.
    signing_key: watch::Receiver<Arc<SigningKey>>,
    /// The format in which the queue's tokens are signed.
    token_format: Version,
    format: LineFormat,
    /// Claimed, and not signed yet: [`changed`](Self::changed) does that, also while the database
    /// works on the next claim.
    unsigned: VecDeque<Batch>,
    prefetch: Prefetch,
    pub(super) adaptive: Adaptive,
    /// The tokens of batches in flight that their lines do not contain.
    rejected: HashMap<BatchId, Vec<(i64, Nack)>>,
    /// Of acknowledged batches, in the order of the acks.
    unsettled: Vec<Settlement>,
    settled_at: Option<Instant>,
    /// Batches that the reader will never read, not released yet.
    unsent: Vec<BatchId>,
    /// When a call was first found to delay a stop.
    pub(super) stop_noticed: Option<Instant>,
    /// Whether the collector only finishes what is in flight, and claims nothing more.
    pub(super) is_ending: bool,
    metrics: Arc<Metrics>,
    pub(super) spans: Spans,
}

impl<S: Sink> InFlight<S> {
    pub(super) fn new(
        sink: S,
        prefetch: Prefetch,
        adaptive: Adaptive,
        signing_key: watch::Receiver<Arc<SigningKey>>,
        format: LineFormat,
        metrics: Arc<Metrics>,
        spans: Spans,
    ) -> Self {
        Self {
            sink,
            signing_key,
            token_format: Version::V1,
            format,
            unsigned: VecDeque::new(),
            prefetch,
            adaptive,
            rejected: HashMap::new(),
            unsettled: Vec::new(),
            settled_at: None,
            unsent: Vec::new(),
            stop_noticed: None,
            is_ending: false,
            metrics,
            spans,
        }
    }

    /// How many batches are in flight and keep others waiting.
    pub(super) fn count(&self) -> usize {
        self.unsigned.len() + self.sink.occupied()
    }

    /// Whether nothing is on its way, and nothing that came back waits to be recorded.
    pub(super) fn is_empty(&self) -> bool {
        self.unsigned.is_empty()
            && self.sink.in_flight() == 0
            && self.unsettled.is_empty()
            && self.unsent.is_empty()
    }

    /// What can be claimed now.
    pub(super) fn capacity(&self) -> Option<ClaimRequest> {
        let in_flight = self.count();
        let one = usize::from(in_flight == 0);
        // A trial, which shows whether the sender works, does not wait until a batch is full.
        let (batches, limit, partial) = match self.sink.readiness() {
            Readiness::Down => return None,
            Readiness::OneToken => (one, 1, true),
            Readiness::OneBatch => (one, self.adaptive.limit, true),
            Readiness::Ready => (self.prefetch.wanted(in_flight), self.adaptive.limit, false),
        };
        let spares_doubtful = self.sink.spares_doubtful();
        let request = ClaimRequest { batches, limit, partial, rescan: false, spares_doubtful };
        (batches > 0 && !self.is_ending).then_some(request)
    }

    /// Takes claimed batches, which [`changed`](Self::changed) signs in `token_format` and sends.
    pub(super) fn take(&mut self, batches: Vec<Batch>, token_format: Version) {
        self.token_format = token_format;
        self.unsigned.extend(batches);
    }

    /// Signs some batches and sends their lines.
    pub(super) fn sign(&mut self) {
        let key = Arc::clone(&self.signing_key.borrow());
        let signer = key.signer(self.token_format);
        let mut tokens = 0;
        while tokens < SIGNED_AT_ONCE
            && let Some(batch) = self.unsigned.pop_front()
        {
            tokens += batch.tokens.len();
            let began = SystemTime::now();
            let line = Line::of(&batch, signer, self.format, self.sink.announces());
            self.spans.signed(&line, began);
            self.send(line);
        }
    }

    /// Sends the line of a batch. One without tokens is settled without an ack.
    fn send(&mut self, mut line: Line) {
        let rejected = mem::take(&mut line.rejected);
        if line.ids.is_empty() {
            let traces = line.traces;
            self.unsettled.push(Settlement { traces, ..Settlement::of(line.batch, rejected) });
            return;
        }
        if !rejected.is_empty() {
            self.rejected.insert(line.batch, rejected);
        }
        self.sink.send(line);
    }

    /// Waits until the state of lines changes, or signs what is not signed yet. Returns whether
    /// there are new acks. Can be dropped at any point.
    pub(super) async fn changed(&mut self) -> Result<bool, SinkError> {
        let changed = tokio::select! {
            biased;
            changed = self.sink.changed() => changed,
            // Others first: the statement of the next claim is on its way then.
            () = yield_now(), if !self.unsigned.is_empty() => Ok(()),
        };
        // Also while lines change all the time.
        self.sign();
        let is_acked = self.note_ended();
        changed.map(|()| is_acked)
    }

    /// Serves the sink until a call of the queue is done. `grace` is how long the call may go on
    /// after a stop. The call is cancelled then, unless the collector was ending already, and when
    /// the sink will take nothing more.
    pub(super) async fn attend<T>(
        &mut self,
        stop: &CancellationToken,
        grace: Duration,
        call: impl Future<Output = Result<T, QueueError>>,
    ) -> Result<T, CollectError> {
        let mut call = pin!(call);
        let mut end = None;
        loop {
            tokio::select! {
                biased;
                // Before the stop: the queue gets the settlements passed to it only
                // when the call is polled.
                done = &mut call => return Ok(done?),
                () = stop.cancelled(), if end.is_none() && !self.is_ending => {
                    let now = *self.stop_noticed.get_or_insert_with(timer::now);
                    end = Some(now + grace);
                }
                () = sleep_until_opt(end) => return Err(CollectError::Stopped),
                changed = self.changed() => changed.map(drop)?,
            }
        }
    }

    pub(super) fn settle_at(&self, now: Instant) -> Option<Instant> {
        let next = self.settled_at.map_or(now, |settled| settled + SETTLE_PAUSE);
        (!self.unsettled.is_empty()).then_some(next)
    }

    pub(super) fn take_settlements(&mut self, now: Instant) -> Vec<Settlement> {
        self.settled_at = Some(now);
        mem::take(&mut self.unsettled)
    }

    pub(super) fn stale_at(&self) -> Option<Instant> {
        self.sink.waiting_since().map(|since| since + STALE)
    }

    /// Cancels what the reader has not begun; [`take_unsent`](Self::take_unsent) returns it.
    pub(super) fn cancel_unsent(&mut self) {
        self.sink.cancel_unsent();
        self.unsent.extend(self.unsigned.drain(..).map(|batch| batch.id));
    }

    /// Cancels unsent lines because the reader is slow: less is sent until it goes on.
    pub(super) fn cancel_stale(&mut self) {
        self.cancel_unsent();
        self.prefetch.cancelled(self.sink.in_flight());
    }

    pub(super) fn take_unsent(&mut self) -> Vec<BatchId> {
        self.note_ended();
        self.rejected.retain(|batch, _| !self.unsent.contains(batch));
        self.spans.ended(&self.unsent);
        mem::take(&mut self.unsent)
    }

    pub(super) fn drop_lost(&mut self, batches: &[BatchId]) {
        self.sink.drop_lost(batches);
        self.unsigned.retain(|batch| !batches.contains(&batch.id));
        self.rejected.retain(|batch, _| !batches.contains(batch));
        self.spans.ended(batches);
    }

    /// Abandons the lines that are still in flight. Returns how many there were.
    pub(super) fn abandon(&mut self) -> usize {
        self.note_ended();
        let left = self.sink.in_flight();
        self.sink.abandon();
        self.note_ended();
        left
    }

    /// Returns whether there are new acks.
    fn note_ended(&mut self) -> bool {
        let before = self.unsettled.len();
        let (acks, unsent) = self.sink.ended();
        self.unsent.extend(unsent);
        for ack in acks {
            self.spans.answered(&ack);
            let Ack { batch, mut nacks, receipts, traces, after } = ack;
            self.prefetch.acked(after);
            self.adaptive.acked(after);
            self.metrics.answered(after);
            nacks.extend(self.rejected.remove(&batch).unwrap_or_default());
            self.unsettled.push(Settlement { batch, nacks, receipts, traces });
        }
        self.unsettled.len() > before
    }
}
