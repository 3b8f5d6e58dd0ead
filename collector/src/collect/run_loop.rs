//! The loop: waits for the next event or deadline, and does what is due.

use std::convert::Infallible;
use std::time::{Duration, Instant, SystemTime};

use super::in_flight::STALE;
use super::{CollectError, Collector};
use crate::config::MissingSchema;
use crate::metrics::Trouble;
use crate::queue::{Queue, QueueError};
use crate::sink::{Readiness, Sink};
use crate::timer::{self, sleep_until_opt};
use crate::wake::idle_lock::IdleReply;

/// How long a running settlement or heartbeat may take after a stop: long enough to finish, or its
/// tokens go out again; short enough that a dead database does not hold up the end.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(1);

impl<Q: Queue, S: Sink> Collector<Q, S> {
    pub(super) async fn collect(&mut self) -> Result<Infallible, CollectError> {
        loop {
            self.release_unsent();
            // What has come due while the reader was down was not polled for.
            let is_down = self.in_flight.sink.readiness() == Readiness::Down;
            self.poll_now |= self.was_down && !is_down;
            self.was_down = is_down;
            self.show_sender();
            if self.is_done_once()? {
                return Err(CollectError::Stopped);
            }
            self.batcher.adapt(&self.in_flight.adaptive, self.in_flight.count());
            let now = timer::now();
            let next = self.next_action(now);
            let is_idle = self.is_idle(now);
            self.inputs.idle_lock.set_idle(is_idle);
            tokio::select! {
                biased;
                () = self.inputs.stop.cancelled() => return Err(CollectError::Stopped),
                // Before the sink, which a fast reader keeps changing:
                // acks must be settled meanwhile.
                () = sleep_until_opt(Some(next)) => self.act(None).await?,
                acked = self.in_flight.changed() => if acked? { self.paused_until = None },
                Ok(()) = self.inputs.wakeups.changed() => self.note_wakeups(),
                reply = self.inputs.idle_lock.reply() => self.act(Some(reply)).await?,
            }
        }
    }

    /// When there is something to do next without a wake-up.
    pub(super) fn next_action(&self, now: Instant) -> Instant {
        if !self.connection.is_open {
            return self.connection.next_attempt;
        }
        let next = [
            self.in_flight.settle_at(now),
            self.poll_at(now),
            self.in_flight.stale_at(),
            self.queue.heartbeat_at(),
            self.rest_at(now),
        ];
        next.into_iter().flatten().min().unwrap_or(now + self.settings.poll_interval)
    }

    pub(super) fn poll_at(&self, now: Instant) -> Option<Instant> {
        self.in_flight.capacity()?;
        let rescan = self.rescanned + self.settings.poll_interval;
        let next = self.batcher.next_poll().map_or(rescan, |poll| poll.min(rescan));
        let poll = if self.poll_now { now } else { next };
        // The latest of the three times: `None` is less than any time.
        Some(poll).max(self.paused_until).max(self.rate_wait_until)
    }

    /// Whether only a notification, or time, gives a reason to poll.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.connection.is_open
            && self.in_flight.capacity().is_some()
            && !self.poll_now
            && self.batcher.is_idle()
            && self.paused_until.is_none_or(|until| until <= now)
    }

    /// Handles a reply of the idle lock, or whatever is due. After an error that can pass, the
    /// queue is opened again; any other error is returned.
    pub(super) async fn act(&mut self, reply: Option<IdleReply>) -> Result<(), CollectError> {
        let done = match reply {
            Some(reply) => self.answer_idle_reply(reply).await,
            None => self.do_what_is_due(timer::now()).await,
        };
        let Err(CollectError::Queue(error)) = &done else { return done };
        let is_final = match error {
            // Who starts it once is told at once; what is in flight is never left for that.
            QueueError::Unavailable(_) | QueueError::Locked(_) => {
                self.settings.once && self.connection.opened_at.is_none()
            }
            QueueError::Unusable(_) => {
                (self.settings.once || self.settings.missing_schema == MissingSchema::Exit)
                    && self.connection.opened_at.is_none()
            }
            // At the end the reader keeps the time that it has.
            QueueError::Superseded(_) => !self.in_flight.is_ending,
        };
        if is_final {
            return done;
        }
        self.cancel_unsent();
        self.connection.lost(error, timer::now());
        self.inputs.metrics.health.has(match error {
            QueueError::Unavailable(_) => Trouble::Away,
            QueueError::Locked(_) => Trouble::Locked,
            QueueError::Unusable(_) => Trouble::WrongSchema,
            QueueError::Superseded(_) => Trouble::Draining,
        });
        Ok(())
    }

    async fn answer_idle_reply(&mut self, reply: IdleReply) -> Result<(), CollectError> {
        if reply == IdleReply::Refused {
            self.batcher.refused(timer::now());
            return Ok(());
        }
        let peek = self.queue.peek(self.settings.batch_limit);
        let peek = self.in_flight.attend(&self.inputs.stop, Duration::ZERO, peek).await?;
        self.batcher.peeked(peek.due, peek.next, timer::now());
        Ok(())
    }

    async fn do_what_is_due(&mut self, now: Instant) -> Result<(), CollectError> {
        if !self.connection.is_open {
            self.end_rest();
            self.queue.note_sender(self.in_flight.sink.state());
            self.in_flight.attend(&self.inputs.stop, Duration::ZERO, self.queue.open()).await?;
            self.in_flight.sink.expect(&self.queue.actions());
            self.connection.opened(timer::now());
            self.rest.worked(timer::now());
            self.inputs.metrics.opened();
            self.inputs.metrics.health.renewed(false);
            self.inputs.metrics.health.is_collecting();
            self.poll_now = true;
            self.paused_until = None;
            return Ok(());
        }
        let cancels = is_due(self.in_flight.stale_at(), now);
        if cancels {
            self.in_flight.cancel_stale();
            self.release_unsent();
            self.paused_until = Some(now + STALE);
        }
        if is_due(self.queue.heartbeat_at(), now) {
            self.heartbeat().await?;
        }
        let settles = is_due(self.in_flight.settle_at(now), now);
        if is_due(self.poll_at(now), now) {
            return self.poll(settles || self.queue.settles_beside()).await;
        }
        // What was cancelled goes to another collector at once,
        // also if there is no capacity for a poll here.
        if settles || cancels {
            return self.settle().await;
        }
        if is_due(self.rest_at(now), now) { self.rest().await } else { Ok(()) }
    }

    async fn settle(&mut self) -> Result<(), CollectError> {
        let settlements = self.in_flight.take_settlements(timer::now());
        self.rest.worked(timer::now());
        // A stop does not cancel this unless it takes long: what it records need not go out again.
        // If it fails, the queue keeps the settlements.
        let settling = self.in_flight.spans.begin_settling();
        let settle = self.queue.settle_and_claim(settlements, None);
        let settled = self.in_flight.attend(&self.inputs.stop, STOP_GRACE, settle).await;
        self.in_flight.spans.settled(settling, settled.is_ok());
        settled.map(drop)
    }

    async fn heartbeat(&mut self) -> Result<(), CollectError> {
        self.queue.note_sender(self.in_flight.sink.state());
        let heartbeat = self.queue.heartbeat();
        let lost = self.in_flight.attend(&self.inputs.stop, STOP_GRACE, heartbeat).await?;
        self.inputs.metrics.health.renewed(!lost.is_empty());
        if !lost.is_empty() {
            tracing::warn!(
                event = "batches_lost",
                count = lost.len(),
                "leases ended before their batches were acknowledged; another collector sends them \
                 now, and acks of them are ignored"
            );
            self.in_flight.drop_lost(&lost);
            // Unsent lines are as old, and their tokens are better checked again.
            self.cancel_unsent();
        }
        Ok(())
    }

    /// Claims what there is capacity for, and settles as well if that is due or costs no time.
    async fn poll(&mut self, settles: bool) -> Result<(), CollectError> {
        let now = timer::now();
        let Some(mut request) = self.in_flight.capacity() else { return Ok(()) };
        self.rest.worked(now);
        // What has waited for the rate does not wait for a batch.
        request.partial |= self.batcher.is_due(now) || self.rate_wait_until.is_some();
        request.rescan = now >= self.rescanned + self.settings.poll_interval;
        if self.settings.once {
            self.once.adapt(&mut request);
        }
        // What this poll leaves gives writers no reason to notify.
        self.inputs.idle_lock.set_idle(false);
        // Wake-ups from here on may concern tokens that this poll does not see.
        self.wakeups_seen = *self.inputs.wakeups.borrow_and_update();
        let settlements = if settles { self.in_flight.take_settlements(now) } else { Vec::new() };
        let settling = settles.then(|| self.in_flight.spans.begin_settling());
        let began = SystemTime::now();
        let claim = self.queue.settle_and_claim(settlements, Some(request));
        let claim = self.in_flight.attend(&self.inputs.stop, Duration::ZERO, claim).await;
        if let Some(settling) = settling {
            self.in_flight.spans.settled(settling, claim.is_ok());
        }
        let claim = claim?;
        self.in_flight.spans.claimed(&claim.batches, began);
        self.connection.worked(timer::now());
        self.rate_wait_until = claim.wait.map(|wait| timer::now() + wait);
        self.poll_now = claim.batches.len() == request.batches || claim.wait.is_some();
        if self.settings.once {
            self.once.claimed(&request, &claim);
            if claim.is_budget_spent {
                let peek = self.queue.peek(1);
                let peek = self.in_flight.attend(&self.inputs.stop, Duration::ZERO, peek).await?;
                self.once.found_due(peek.due > 0);
            }
            // Until a claim finds nothing there may be more, and nobody wants to wait for the poll.
            self.poll_now = !self.once.is_done();
        }
        self.batcher.polled(claim.waiting, claim.batches.len(), claim.deferred, timer::now());
        self.in_flight
            .adaptive
            .polled(claim.batches.iter().map(|batch| batch.tokens.len()).sum(), now);
        if request.rescan {
            self.rescanned = now;
        }
        self.in_flight.take(claim.batches, self.queue.token_format());
        if !self.poll_now {
            // Before the next statement is sent, also that for the idle lock.
            self.in_flight.sign();
        }
        Ok(())
    }

    /// Cancels unsent lines, so that their tokens are checked again or left to another collector.
    pub(super) fn cancel_unsent(&mut self) {
        self.in_flight.cancel_unsent();
        self.release_unsent();
    }

    fn release_unsent(&mut self) {
        let batches = self.in_flight.take_unsent();
        if !batches.is_empty() {
            tracing::debug!(
                event = "lines_cancelled",
                count = batches.len(),
                "lines were cancelled before the reader read them"
            );
            self.queue.release(&batches);
            self.poll_now = true;
        }
    }

    /// Metrics get the sender's state when it changes.
    fn show_sender(&mut self) {
        let state = self.in_flight.sink.state();
        if let Some(state) = state.filter(|state| state.name != self.shown_state) {
            self.shown_state = state.name;
            self.inputs.metrics.sender(&state);
        }
    }

    fn note_wakeups(&mut self) {
        let wakeups = *self.inputs.wakeups.borrow_and_update();
        let new = usize::try_from(wakeups - self.wakeups_seen).unwrap_or(usize::MAX);
        self.wakeups_seen = wakeups;
        let now = timer::now();
        self.batcher.woken(new, now);
        if self.rest.is_resting {
            self.connection.next_attempt = now;
        }
    }
}

fn is_due(time: Option<Instant>, now: Instant) -> bool {
    time.is_some_and(|time| time <= now)
}
