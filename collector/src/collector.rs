//! The loop: wake, claim, sign, send, and settle what the reader has.
//!
//! # Where a kill leaves tokens
//! - Claimed, not sent: the claim lapses, or was never recorded; claimed again.
//! - Sent, not taken by the reader: the same. What is still in the pipe may reach the reader, and goes out again.
//! - Taken, not settled: goes out again. Of a reader of standard output this is the only doubling without its fault, and it
//!   is at most what was taken within [`SETTLE_PAUSE`](crate::outbox::SETTLE_PAUSE) and the time of a commit.
//! - Sent to a sender that has not answered: goes out again, with a higher attempt. The sender learns of the kill because
//!   its standard input ends; it can finish what it has, and nobody hears its answers.
//! - Answered in part: the verdicts were in memory; the batch goes out again whole.
//! - Answered, not settled: goes out again. With a sender this is the only doubling without its fault.
//! - Settled: the database has it, and the reader had it before.
//! - Given back (taken back, returned by a sender that ended, lost by the sink) and the queue not told yet: the claim lapses.
//!
//! A sender's own end is no loss either: what it has not answered is given back or settled as unanswered by
//! [`Sink::taken`] and [`Sink::returned`], and a kill between the two is one of the above.

mod finishing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mailroom_verifier_core::Signer;
use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::batcher::Batcher;
use crate::complaints::{ids, listed};
use crate::config::{CollectSettings, MissingSchema};
use crate::connection::Connection;
use crate::line::{Line, LineFormat};
use crate::outbox::{Attended, Outbox, STALE};
use crate::prefetch::Prefetch;
use crate::queue::{BatchId, Claim, Queue, QueueError, Want};
use crate::shutdown::{Stop, stopped};
use crate::signer::Unfit;
use crate::sink::{Sink, SinkError};
use crate::sleeper::{Outcome, Sleeper};

/// How long what is under way may go on when the collector is to stop. A database that answers nothing must not hold up the
/// end; one that is at work should not be told the same twice.
const LAST_WORD: Duration = Duration::from_secs(1);

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
    line_format: LineFormat,
    poll_interval: Duration,
    missing_schema: MissingSchema,
    batcher: Batcher,
    connection: Connection,
    /// Whether the last claim brought all that was wanted, or none could be made for lack of room.
    more: bool,
    hints_seen: u64,
    polled: Instant,
    /// No claim before this time.
    paused_until: Option<Instant>,
    /// Whether the reader took nothing at all when that was last looked at.
    was_away: bool,
    /// Whether it was told to stop, and finishes what it has.
    is_ending: bool,
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
            line_format: settings.line_format,
            poll_interval: settings.poll_interval,
            missing_schema: settings.missing_schema,
            batcher: Batcher::new(settings.batch_limit, settings.batch_timeout, sleeper.sleeps()),
            sleeper,
            connection: Connection::new(now),
            more: false,
            hints_seen: 0,
            polled: now,
            paused_until: None,
            was_away: true,
            is_ending: false,
        }
    }

    /// Collects until it is told to stop.
    ///
    /// # Errors
    /// The reader is gone, another queue has taken the place of this one or, if the settings say so, the database lacks what
    /// it needs when it is opened for the first time. A database that is away is waited for.
    pub async fn run(mut self) -> Result<(), CollectError> {
        let outcome = self.collect().await;
        self.finish(outcome.is_ok()).await;
        outcome
    }

    async fn collect(&mut self) -> Result<(), CollectError> {
        loop {
            let returned = self.outbox.take_returned();
            self.release(&returned);
            // What has come due while the reader was away was not looked for.
            let is_away = self.outbox.is_away();
            self.more |= self.was_away && !is_away;
            self.was_away = is_away;
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
        self.outbox.room(self.limit)?;
        let poll = self.polled + self.poll_interval;
        let look = if self.more { now } else { self.batcher.next_look().map_or(poll, |look| look.min(poll)) };
        Some(self.paused_until.map_or(look, |until| look.max(until)))
    }

    /// Whether only a token, or time, gives a reason to look.
    fn has_nothing_to_do(&self, now: Instant) -> bool {
        self.connection.is_open()
            && self.outbox.room(self.limit).is_some()
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
        let recalls = is_due(self.outbox.stale_at());
        if recalls {
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
        // What was taken back is another collector's at once, also if there is no room here for a look.
        if (settles || recalls) && self.connection.is_open() {
            self.settle().await?;
        }
        Ok(true)
    }

    async fn open(&mut self) -> Result<bool, CollectError> {
        match self.outbox.attend(Some(&mut self.stop), self.queue.open()).await? {
            Attended::Stopped => return Ok(false),
            Attended::Done(Ok(())) => {
                self.connection.opened(Instant::now());
                self.more = true;
                self.paused_until = None;
            }
            Attended::Done(Err(QueueError::Unusable(reason)))
                if self.missing_schema == MissingSchema::Exit && !self.connection.was_open() =>
            {
                return Err(CollectError::Queue(reason));
            }
            Attended::Done(Err(QueueError::Superseded(reason))) => return Err(CollectError::Queue(reason)),
            Attended::Done(Err(error)) => self.lost(&error),
        }
        Ok(true)
    }

    async fn settle(&mut self) -> Result<(), CollectError> {
        let settlements = self.outbox.take_settlements(Instant::now());
        // Not broken off by a stop unless it takes long: what it records need not go out again. If it fails, the queue itself
        // keeps them.
        let stop = (!self.is_ending).then_some(&mut self.stop);
        let exchange = self.queue.exchange(settlements, None);
        let attended = self.outbox.attend_to_the_end(stop, LAST_WORD, exchange);
        if let Attended::Done(Err(error)) = attended.await? {
            self.lost(&error);
        }
        Ok(())
    }

    async fn tend(&mut self) -> Result<(), CollectError> {
        let stop = (!self.is_ending).then_some(&mut self.stop);
        match self.outbox.attend_to_the_end(stop, LAST_WORD, self.queue.tend()).await? {
            Attended::Done(Err(error)) => self.lost(&error),
            Attended::Done(Ok(lost)) if !lost.is_empty() => {
                tracing::warn!(
                    event = "batches_lost",
                    count = lost.len(),
                    "batches took so long that somebody else has their tokens now; what the reader says of them is \
                     ignored"
                );
                self.outbox.forget(&lost);
                // What else was not begun is as old, and is better judged again.
                self.recall();
            }
            Attended::Done(Ok(_)) | Attended::Stopped => {}
        }
        Ok(())
    }

    /// Claims what there is room for, and sends it; answers whether to go on. Settles on the same way what the reader
    /// has, if that is due as well.
    async fn look(&mut self, settles: bool) -> Result<bool, CollectError> {
        let now = Instant::now();
        let Some(room) = self.outbox.room(self.limit) else { return Ok(true) };
        let again = now >= self.polled + self.poll_interval;
        let want = Want {
            batches: room.batches,
            limit: room.limit,
            partial: room.is_trial || self.batcher.is_due(now),
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
            Attended::Done(Err(QueueError::Superseded(reason))) => return Err(CollectError::Queue(reason)),
            Attended::Done(Err(error)) => self.lost(&error),
            Attended::Done(Ok(claim)) => {
                self.connection.worked(Instant::now());
                self.more = claim.batches.len() == want.batches;
                self.batcher.looked(claim.waiting, claim.batches.len(), claim.put_off, Instant::now());
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
            let line = Line::of(&batch, &signer, self.line_format);
            self.tell_of_passed(&line.passed);
            self.outbox.send(batch.id, batch.name, line);
        }
    }

    fn tell_of_passed(&mut self, passed: &[(i64, Unfit)]) {
        // Where the queue can give tokens up, it tells so itself.
        if passed.is_empty() || self.queue.keeps_reasons() {
            return;
        }
        tracing::warn!(
            event = "tokens_passed",
            reason = %listed(passed, usize::MAX),
            count = passed.len(),
            ids = ?ids(passed, usize::MAX),
            attempts = 0,
            put_back = "mend the rows and have other mails asked for",
            "tokens are passed and get no mail"
        );
    }

    /// Takes back what was sent and not begun, so that it is judged again or left to another collector.
    fn recall(&mut self) {
        let batches = self.outbox.recall();
        self.release(&batches);
    }

    fn release(&mut self, batches: &[BatchId]) {
        if !batches.is_empty() {
            tracing::debug!(
                event = "lines_taken_back",
                count = batches.len(),
                "lines were taken back before the reader read them"
            );
            self.queue.release(batches);
            self.more = true;
        }
    }

    fn lost(&mut self, error: &QueueError) {
        self.recall();
        self.connection.lost(error, Instant::now());
    }

    fn note_hints(&mut self) {
        let hints = *self.hints.borrow_and_update();
        let new = usize::try_from(hints - self.hints_seen).unwrap_or(usize::MAX);
        self.hints_seen = hints;
        self.batcher.hint(new, Instant::now());
    }
}

/// Without the millisecond by which a timer is late.
async fn wait_until(time: Instant) {
    if time > Instant::now() {
        sleep_until(time.into()).await;
    }
}

#[cfg(test)]
mod tests;
