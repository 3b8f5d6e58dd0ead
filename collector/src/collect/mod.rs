//! Collecting: claim, sign, send, and settle what the reader has acknowledged.
//!
//! # Where a kill leaves tokens
//! - Claimed, no ack: the claim lapses, or was never recorded; claimed again. What is still in the
//!   pipe may reach the reader. A sender can finish what it has; its answers, also those for a part
//!   of a batch, are lost.
//! - Ack, not settled: goes out again. This is the only duplicate that is not the fault of the
//!   reader or sender: at most what was acknowledged within `SETTLE_PAUSE`
//!   and the time of a commit.
//! - Settled: the database has recorded it, and the reader had it before.
//!
//! What a sender has not answered when it ends comes back by [`Sink::ended`],
//! as abandoned or as not sent.

mod drain;
mod in_flight;
mod once;
mod reconnect;
mod rest;
mod run_loop;
mod spans;

use std::sync::Arc;
use std::time::Instant;

use mailroom_pace::{Adaptive, Batcher, Prefetch};
use mailroom_traces::Recorder;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::in_flight::InFlight;
use self::once::Once;
use self::reconnect::ConnectionState;
use self::rest::Rest;
use self::spans::Spans;
use crate::config::CollectSettings;
use crate::keys::SigningKey;
use crate::metrics::Metrics;
use crate::queue::{Queue, QueueError};
use crate::sink::{Sink, SinkError};
use crate::timer;
use crate::wake::idle_lock::IdleLock;

/// Why the collector ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    /// For [`Collector::run`] this is no error.
    #[error("a stop was requested")]
    Stopped,
    #[error(transparent)]
    Sink(#[from] SinkError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Only with `--once`: without it the sender is waited for.
    #[error("the sender does not work, and what is due waits: {0}")]
    SenderFails(String),
    /// Only with `--once`: without it the next month is waited for.
    #[error(
        "nothing is left of the month's budget of MAILROOM_RATE, and what is due waits until the \
         next month begins (UTC), or the budget is raised"
    )]
    BudgetSpent,
}

/// What a collector follows while it runs.
pub(crate) struct Inputs {
    /// Counts reasons to poll.
    pub(crate) wakeups: watch::Receiver<u64>,
    pub(crate) idle_lock: IdleLock,
    pub(crate) stop: CancellationToken,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Recorder,
}

pub(crate) struct Collector<Q, S> {
    queue: Q,
    in_flight: InFlight<S>,
    inputs: Inputs,
    settings: CollectSettings,
    batcher: Batcher,
    connection: ConnectionState,
    rest: Rest,
    /// Whether to poll without waiting for the batcher: there may be more to claim.
    poll_now: bool,
    wakeups_seen: u64,
    rescanned: Instant,
    /// No claim before this time, because stale lines were just cancelled.
    paused_until: Option<Instant>,
    /// No claim before this time, because the rate or the month's budget is spent until then.
    rate_wait_until: Option<Instant>,
    /// How far a run that ends by itself has come.
    once: Once,
    /// Whether the sink was down in the last iteration.
    was_down: bool,
    /// The sender's state, as metrics have it.
    shown_state: &'static str,
}

impl<Q: Queue, S: Sink> Collector<Q, S> {
    /// Signs with what `signing_key` has at the time,
    /// which is replaced when the keys are read again.
    pub(crate) fn new(
        mut queue: Q,
        sink: S,
        settings: &CollectSettings,
        signing_key: watch::Receiver<Arc<SigningKey>>,
        inputs: Inputs,
    ) -> Self {
        let now = timer::now();
        let limit = settings.batch_limit;
        let timeout = settings.timeouts.batch_timeout;
        let adaptive = Adaptive::new(settings.adaptive, limit, timeout);
        let prefetch = Prefetch::new(settings.prefetch, limit);
        queue.count_in(Arc::clone(&inputs.metrics));
        let metrics = Arc::clone(&inputs.metrics);
        let format = settings.line_format;
        let spans = Spans::new(inputs.traces.clone());
        Self {
            queue,
            in_flight: InFlight::new(sink, prefetch, adaptive, signing_key, format, metrics, spans),
            batcher: Batcher::new(limit, timeout, inputs.idle_lock.is_enabled),
            inputs,
            settings: settings.clone(),
            connection: ConnectionState::new(now),
            rest: Rest::new(now),
            poll_now: false,
            wakeups_seen: 0,
            rescanned: now,
            paused_until: None,
            rate_wait_until: None,
            once: Once::default(),
            was_down: true,
            shown_state: "",
        }
    }

    /// Collects until a stop is requested. A database that is down is waited for.
    pub(crate) async fn run(mut self) -> Result<(), CollectError> {
        let Err(ended) = self.collect().await;
        let outcome = match ended {
            CollectError::Stopped => Ok(()),
            error => Err(error),
        };
        let reason = match &outcome {
            Ok(()) => "it was told to".to_owned(),
            Err(error) => error.to_string(),
        };
        let sink_works = matches!(outcome, Ok(()) | Err(CollectError::BudgetSpent));
        self.finish(sink_works, &reason).await;
        outcome
    }
}

#[cfg(test)]
mod tests;
