//! The loop: wake, claim, sign, send, and settle what the reader has.
//!
//! # Where a kill leaves tokens
//! - Claimed, not sent: nothing is recorded; claimed again.
//! - Sent, not taken by the reader: not recorded; what is still in the pipe may reach the reader, and goes out again.
//! - Taken, not settled: not recorded; goes out again. This is the only doubling without a fault of the reader, and
//!   it is at most what was taken within [`SETTLE_PAUSE`] and the time of a commit.
//! - Settled: the database has it, and the reader had it before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mailroom_verifier_core::Signer;
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout, timeout_at};

use crate::batcher::Batcher;
use crate::config::CollectSettings;
use crate::connection::Connection;
use crate::line::Line;
use crate::outbox::{Attended, Outbox, SETTLE_PAUSE, STALE};
use crate::prefetch::Prefetch;
use crate::queue::{BatchId, Claim, Queue, QueueError, Want};
use crate::shutdown::{Stop, stopped};
use crate::sink::{Sink, SinkError};
use crate::sleeper::{Outcome, Sleeper};

/// At the end, how long the reader gets to take what is on its way, and the database to record it. Together they stay
/// below the ten seconds after which container runtimes kill.
const GRACE: Duration = Duration::from_secs(6);
const LAST_SETTLEMENT: Duration = Duration::from_secs(3);

/// Why the collector ended without having been told to.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The reader is gone or the output cannot be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The queue cannot be used without somebody's help.
    #[error("{0}")]
    Queue(String),
}

/// A collector of one queue to one sink.
#[derive(Debug)]
pub struct Collector<Q, S> {
    queue: Q,
    outbox: Outbox<S>,
    signer: watch::Receiver<Arc<Signer>>,
    hints: watch::Receiver<u64>,
    sleeper: Sleeper,
    stop: Stop,
    limit: usize,
    poll_interval: Duration,
    batcher: Batcher,
    connection: Connection,
    /// Whether the last claim brought all that was wanted, or none could be made for lack of room.
    more: bool,
    hints_seen: u64,
    polled: Instant,
    /// No claim before this time.
    paused_until: Option<Instant>,
}

impl<Q: Queue, S: Sink> Collector<Q, S> {
    /// Puts the parts together. `hints` counts reasons to look, `sleeper` tells whether there
    /// are any, `signer` is watched for a newer one.
    pub fn new(
        queue: Q,
        sink: S,
        settings: &CollectSettings,
        signer: watch::Receiver<Arc<Signer>>,
        hints: watch::Receiver<u64>,
        sleeper: Sleeper,
        stop: Stop,
    ) -> Self {
        let now = Instant::now();
        Self {
            queue,
            outbox: Outbox::new(sink, Prefetch::new(settings.prefetch, settings.batch_limit)),
            signer,
            hints,
            stop,
            limit: settings.batch_limit,
            poll_interval: settings.poll_interval,
            batcher: Batcher::new(settings.batch_limit, settings.batch_timeout, sleeper.sleeps()),
            sleeper,
            connection: Connection::new(now),
            more: false,
            hints_seen: 0,
            polled: now,
            paused_until: None,
        }
    }

    /// Collects until it is told to stop.
    ///
    /// # Errors
    /// The reader is gone, or the database lacks what the queue needs when it is opened for the first time. A database
    /// that is away is waited for.
    pub async fn run(mut self) -> Result<(), CollectError> {
        let outcome = self.collect().await;
        self.finish(outcome.is_ok()).await;
        outcome
    }

    async fn collect(&mut self) -> Result<(), CollectError> {
        loop {
            let now = Instant::now();
            let next = self.next_action(now);
            let sleeps = self.has_nothing_to_do(now);
            self.sleeper.wish(sleeps);
            tokio::select! {
                biased;
                () = stopped(&mut self.stop) => return Ok(()),
                // Before the sink, which a fast reader keeps changing: what was taken must be settled meanwhile.
                () = wait_until(next) => {
                    if !self.act(Instant::now()).await? {
                        return Ok(());
                    }
                }
                taken = self.outbox.changed() => if taken? {
                    self.paused_until = None;
                },
                Ok(()) = self.hints.changed() => self.note_hints(),
                news = self.sleeper.news() => {
                    if !self.rest(news).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// When there is something to do next without having been woken.
    fn next_action(&self, now: Instant) -> Instant {
        if !self.connection.is_open() {
            return self.connection.next_attempt();
        }
        let next =
            [self.outbox.settle_at(now), self.look_at(now), self.outbox.stale_at(), self.queue.tend_at()]
                .into_iter()
                .flatten()
                .min();
        next.unwrap_or(now + self.poll_interval)
    }

    fn look_at(&self, now: Instant) -> Option<Instant> {
        if self.outbox.wanted() == 0 {
            return None;
        }
        let poll = self.polled + self.poll_interval;
        let look = if self.more { now } else { self.batcher.next_look().map_or(poll, |look| look.min(poll)) };
        Some(self.paused_until.map_or(look, |until| look.max(until)))
    }

    /// Whether only a token, or time, gives a reason to look.
    fn has_nothing_to_do(&self, now: Instant) -> bool {
        self.connection.is_open()
            && self.outbox.wanted() > 0
            && !self.more
            && self.batcher.is_idle()
            && self.paused_until.is_none_or(|until| until <= now)
    }

    /// Asks the queue what there is before sleeping; answers whether to go on.
    async fn rest(&mut self, news: Outcome) -> Result<bool, CollectError> {
        if news == Outcome::Refused {
            self.batcher.refused(Instant::now());
            return Ok(true);
        }
        match self.outbox.attend(Some(&mut self.stop), self.queue.prospect(self.limit)).await? {
            Attended::Stopped => return Ok(false),
            Attended::Done(Err(error)) => self.lost(&error),
            Attended::Done(Ok(prospect)) => self.batcher.prospected(prospect, Instant::now()),
        }
        Ok(true)
    }

    /// Does what is due; answers whether to go on.
    async fn act(&mut self, now: Instant) -> Result<bool, CollectError> {
        let is_due = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        if !self.connection.is_open() {
            return self.open().await;
        }
        if is_due(self.outbox.stale_at()) {
            let batches = self.outbox.recall_from_slow_reader();
            self.release(&batches);
            self.paused_until = Some(now + STALE);
        }
        if is_due(self.queue.tend_at()) {
            self.tend().await?;
        }
        let settles = is_due(self.outbox.settle_at(now));
        if self.connection.is_open() && is_due(self.look_at(now)) {
            return self.look(settles).await;
        }
        if settles {
            self.settle().await?;
        }
        Ok(true)
    }

    async fn open(&mut self) -> Result<bool, CollectError> {
        match self.outbox.attend(Some(&mut self.stop), self.queue.open()).await? {
            Attended::Stopped => return Ok(false),
            Attended::Done(Ok(())) => {
                self.connection.opened();
                self.more = true;
                self.paused_until = None;
            }
            Attended::Done(Err(QueueError::Unusable(reason))) if !self.connection.was_open() => {
                return Err(CollectError::Queue(reason));
            }
            Attended::Done(Err(error)) => self.lost(&error),
        }
        Ok(true)
    }

    async fn settle(&mut self) -> Result<(), CollectError> {
        let settlements = self.outbox.take_settlements(Instant::now());
        // Not broken off by a stop: it is short, and what it records need not go out again. If it fails, the queue
        // itself keeps them.
        let attended = self.outbox.attend(None, self.queue.exchange(settlements, None));
        if let Attended::Done(Err(error)) = attended.await? {
            self.lost(&error);
        }
        Ok(())
    }

    async fn tend(&mut self) -> Result<(), CollectError> {
        match self.outbox.attend(None, self.queue.tend()).await? {
            Attended::Done(Err(error)) => self.lost(&error),
            Attended::Done(Ok(lost)) if !lost.is_empty() => {
                tracing::warn!("{} batches took too long and may go out again", lost.len());
            }
            Attended::Done(Ok(_)) | Attended::Stopped => {}
        }
        Ok(())
    }

    /// Claims what there is room for, and sends it; answers whether to go on. Settles on the same way what the reader
    /// has, if that is due as well.
    async fn look(&mut self, settles: bool) -> Result<bool, CollectError> {
        let now = Instant::now();
        let again = now >= self.polled + self.poll_interval;
        let want = Want {
            batches: self.outbox.wanted(),
            limit: self.limit,
            partial: self.batcher.is_due(now),
            again,
        };
        // What this look leaves is no reason for anybody to announce more.
        self.sleeper.wish(false);
        // Hints from here on may tell of tokens that this look does not see.
        self.hints_seen = *self.hints.borrow_and_update();
        let settlements = if settles { self.outbox.take_settlements(now) } else { Vec::new() };
        let exchange = self.queue.exchange(settlements, Some(want));
        match self.outbox.attend(Some(&mut self.stop), exchange).await? {
            Attended::Stopped => return Ok(false),
            Attended::Done(Err(error)) => self.lost(&error),
            Attended::Done(Ok(claim)) => {
                if let Some(sentence) = self.connection.worked(Instant::now()) {
                    tracing::info!("{sentence}");
                }
                self.more = claim.batches.len() == want.batches;
                self.batcher.looked(claim.waiting, claim.batches.len(), Instant::now());
                if again {
                    self.polled = now;
                }
                self.send(claim);
            }
        }
        Ok(true)
    }

    fn send(&mut self, claim: Claim) {
        let signer = Arc::clone(&self.signer.borrow());
        for batch in claim.batches {
            let line = Line::of(&batch, &signer);
            for (id, reason) in &line.passed {
                tracing::warn!(token = id, "this token is passed and gets no mail: {reason}");
            }
            self.outbox.send(batch.id, batch.name, line);
        }
    }

    /// Takes back what was sent and not begun, so that it is judged again or left to another collector.
    fn recall(&mut self) {
        let batches = self.outbox.recall();
        self.release(&batches);
    }

    fn release(&mut self, batches: &[BatchId]) {
        if !batches.is_empty() {
            tracing::debug!("{} lines were taken back before they were written", batches.len());
            self.queue.release(batches);
            self.more = true;
        }
    }

    fn lost(&mut self, error: &QueueError) {
        self.recall();
        if let Some(sentence) = self.connection.lost(error, Instant::now()) {
            tracing::warn!("{sentence}");
        }
    }

    fn note_hints(&mut self) {
        let hints = *self.hints.borrow_and_update();
        let new = usize::try_from(hints - self.hints_seen).unwrap_or(usize::MAX);
        self.hints_seen = hints;
        self.batcher.hint(new, Instant::now());
    }

    /// Lets the reader take what is on its way, and records it.
    async fn finish(&mut self, sink_works: bool) {
        self.recall();
        let end = Instant::now() + GRACE;
        while sink_works && self.outbox.in_flight() > 0 {
            let changed = timeout_at(end.into(), self.outbox.changed()).await;
            if !matches!(changed, Ok(Ok(_))) {
                break;
            }
        }
        self.outbox.note_taken();
        if self.connection.was_open() {
            let recorded = timeout(LAST_SETTLEMENT, self.settle_finally()).await.is_ok_and(|settled| settled);
            if !recorded {
                tracing::warn!(
                    "the database could not be told what the reader took last; that goes out again"
                );
            }
        }
        let left = self.outbox.in_flight();
        if left > 0 {
            tracing::warn!("the reader has not taken {left} lines; their tokens go out again");
        }
    }

    /// Settles what the reader has, over a new connection if need be.
    async fn settle_finally(&mut self) -> bool {
        loop {
            let settlements = self.outbox.take_settlements(Instant::now());
            match self.queue.exchange(settlements, None).await {
                Ok(_) => return true,
                Err(QueueError::Unavailable(_)) => sleep(SETTLE_PAUSE).await,
                Err(_) => return false,
            }
            match self.queue.open().await {
                // It has recorded what was settled.
                Ok(()) => return true,
                Err(QueueError::Unavailable(_)) => sleep(SETTLE_PAUSE).await,
                Err(_) => return false,
            }
        }
    }
}

/// Without the millisecond by which a timer is late.
async fn wait_until(time: Instant) {
    if time > Instant::now() {
        sleep_until(time.into()).await;
    }
}
