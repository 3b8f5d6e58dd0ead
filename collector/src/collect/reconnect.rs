//! Whether the queue is open, and when it is opened again. The caller passes the times in.

use std::time::{Duration, Instant};

use crate::log::outage::OutageLog;
use crate::queue::QueueError;
use mailroom_pace::{Backoff, MAX_CONNECT_PAUSE};

/// How often a queue that another collector has locked is tried again.
const LOCKED_PAUSE: Duration = Duration::from_secs(1);

/// A connection that lasted this long was a success. One through a pooler may work for a few
/// statements each time.
const LASTED: Duration = Duration::from_secs(5);

pub(super) struct ConnectionState {
    pub(super) is_open: bool,
    pub(super) next_attempt: Instant,
    pub(super) opened_at: Option<Instant>,
    /// Whether the connection before this one did not last.
    is_failing: bool,
    backoff: Backoff,
    outage: OutageLog,
}

impl ConnectionState {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            is_open: false,
            next_attempt: now,
            opened_at: None,
            is_failing: false,
            backoff: Backoff::up_to(MAX_CONNECT_PAUSE),
            outage: OutageLog::of("collecting"),
        }
    }

    /// The queue was opened. That alone does not end an outage; a successful claim does.
    pub(super) fn opened(&mut self, now: Instant) {
        self.is_open = true;
        self.opened_at = Some(now);
    }

    /// A claim succeeded. That ends an outage at once,
    /// unless the connection before this one did not last.
    pub(super) fn worked(&mut self, now: Instant) {
        if !self.is_failing || self.has_lasted(now) {
            self.outage.over(now);
        }
    }

    pub(super) fn lost(&mut self, error: &QueueError, now: Instant) {
        if std::mem::replace(&mut self.is_open, false) {
            self.is_failing = !self.has_lasted(now);
            if !self.is_failing {
                self.backoff.reset();
            }
        }
        let is_locked = matches!(error, QueueError::Locked(_));
        let pause = if is_locked { LOCKED_PAUSE } else { self.backoff.pause() };
        self.next_attempt = now + pause;
        self.outage.failed(&error.to_string(), now);
    }

    /// The queue was closed in order, and is opened again at that time.
    pub(super) fn closed(&mut self, until: Instant) {
        self.is_open = false;
        self.is_failing = false;
        self.backoff.reset();
        self.next_attempt = until;
    }

    fn has_lasted(&self, now: Instant) -> bool {
        self.opened_at.is_some_and(|opened| now - opened >= LASTED)
    }
}
