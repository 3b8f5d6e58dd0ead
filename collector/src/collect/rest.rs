//! `MAILROOM_WAKE=call`: without anything to do, the collector closes the queue, so that a database
//! that is suspended without sessions can be. It opens it again when it is called, or when the
//! next token falls due, or when the poll interval is over.
//!
//! # Why no mail is lost
//! - Whoever calls has committed before, and a call is counted before it is answered. A claim takes
//!   over the count before it begins: a call is either in it, and the claim sees its tokens, or
//!   leaves a count that has changed, which ends a rest, also one that is just beginning.
//! - Before a rest the queue says when it has something next: what was put off, is to be sent
//!   later, or is leased by a collector that may have been killed.
//! - What nobody calls for is found when the poll interval is over.
//!
//! Nothing is in flight in a rest, so no lease needs a heartbeat.

use std::time::{Duration, Instant};

use super::run_loop::STOP_GRACE;
use super::{CollectError, Collector};
use crate::config::Wake;
use crate::queue::Queue;
use crate::sink::Sink;
use crate::timer;

/// How long there has been nothing to do before the queue is closed: who registers one person often
/// registers another, and to connect again takes longer than a claim.
const LINGER: Duration = Duration::from_secs(5);

/// The shortest rest.
const SHORTEST: Duration = Duration::from_secs(10);

/// Whether the collector rests, and whether it can.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) is_resting: bool,
    /// Whether the queue was asked for what comes next since anything was claimed or settled.
    has_peeked: bool,
    worked_at: Instant,
}

impl Rest {
    pub(super) fn new(now: Instant) -> Self {
        Self { is_resting: false, has_peeked: false, worked_at: now }
    }

    /// Something is claimed or settled, after which other tokens can be next.
    pub(super) fn worked(&mut self, now: Instant) {
        self.has_peeked = false;
        self.worked_at = now;
    }
}

impl<Q: Queue, S: Sink> Collector<Q, S> {
    /// When the next step towards a rest is due: to ask the queue for what comes next, then to
    /// close it. `None` while there is something to do, or soon will be.
    pub(super) fn rest_at(&self, now: Instant) -> Option<Instant> {
        if self.settings.wake != Wake::Call || self.settings.once || self.in_flight.is_ending {
            return None;
        }
        let soon = now + SHORTEST;
        let is_bounded = self.rate_wait_until.is_some_and(|until| until > soon);
        if !is_bounded {
            if !self.is_idle(now) {
                return None;
            }
            if !self.rest.has_peeked {
                return Some(now);
            }
        }
        let at = self.rest.worked_at + LINGER;
        let is_long = self.poll_at(now).is_some_and(|until| until > at.max(now) + SHORTEST);
        (is_long && self.in_flight.is_empty()).then_some(at)
    }

    /// Takes the step that is due.
    pub(super) async fn rest(&mut self) -> Result<(), CollectError> {
        let now = timer::now();
        if !self.rest.has_peeked {
            let peek = self.queue.peek(self.settings.batch_limit);
            let peek = self.in_flight.attend(&self.inputs.stop, Duration::ZERO, peek).await?;
            self.rest.has_peeked = true;
            self.batcher.peeked(peek.due, peek.next, timer::now());
            return Ok(());
        }
        let Some(until) = self.poll_at(now) else { return Ok(()) };
        let rest = self.queue.rest();
        if !self.in_flight.attend(&self.inputs.stop, STOP_GRACE, rest).await? {
            self.rest.worked(timer::now());
            return Ok(());
        }
        self.connection.closed(until);
        self.rest.is_resting = true;
        self.inputs.metrics.health.rest(true);
        tracing::debug!(
            event = "resting",
            seconds = until.saturating_duration_since(now).as_secs(),
            "nothing is due: the sessions with the database are ended until a call comes, or for \
             so long at most"
        );
        Ok(())
    }

    /// The queue is to be opened.
    pub(super) fn end_rest(&mut self) {
        if std::mem::take(&mut self.rest.is_resting) {
            self.inputs.metrics.health.rest(false);
        }
    }
}
