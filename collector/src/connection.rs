//! Whether the queue is open, and when it is opened again.
//!
//! The caller passes the times in.

use std::time::{Duration, Instant};

use crate::backoff::Backoff;
use crate::outage::Outage;
use crate::queue::QueueError;

/// How often another collector's queue is asked for.
const TAKEN_PAUSE: Duration = Duration::from_secs(1);

/// The state of the queue's connection, and the attempts to open it.
#[derive(Debug)]
pub struct Connection {
    is_open: bool,
    was_open: bool,
    next_attempt: Instant,
    backoff: Backoff,
    outage: Outage,
}

impl Connection {
    /// Never opened, to be opened now.
    pub fn new(now: Instant) -> Self {
        Self {
            is_open: false,
            was_open: false,
            next_attempt: now,
            backoff: Backoff::default(),
            outage: Outage::of("collecting"),
        }
    }

    /// Whether the queue can be claimed from.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the queue was open at any time.
    pub fn was_open(&self) -> bool {
        self.was_open
    }

    /// When to open the queue if it is not open.
    pub fn next_attempt(&self) -> Instant {
        self.next_attempt
    }

    /// The queue was opened. That alone does not end an outage: a server can let everybody in and answer nothing.
    pub fn opened(&mut self) {
        (self.is_open, self.was_open) = (true, true);
    }

    /// A claim succeeded. Answers whether there was an outage.
    pub fn worked(&mut self, now: Instant) -> bool {
        self.backoff.reset();
        self.outage.over(now)
    }

    /// Opening or using the queue failed.
    pub fn lost(&mut self, error: &QueueError, now: Instant) {
        self.is_open = false;
        let pause = match error {
            QueueError::Taken(_) => TAKEN_PAUSE,
            QueueError::Unavailable(_) | QueueError::Unusable(_) | QueueError::Superseded(_) => {
                self.backoff.pause()
            }
        };
        self.next_attempt = now + pause;
        self.outage.failed(&error.to_string(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> QueueError {
        QueueError::Unavailable("out of memory".to_owned())
    }

    #[test]
    fn pauses_grow_while_opening_works_and_claiming_does_not() {
        let start = Instant::now();
        let mut connection = Connection::new(start);
        for _ in 0..6 {
            connection.opened();
            connection.lost(&error(), start);
        }
        assert!(connection.next_attempt() >= start + Duration::from_millis(2_500));
        assert!(!connection.is_open() && connection.was_open());
    }

    #[test]
    fn a_claim_ends_the_outage_and_the_pauses_begin_anew() {
        let start = Instant::now();
        let mut connection = Connection::new(start);
        for _ in 0..6 {
            connection.lost(&error(), start);
        }
        connection.opened();
        assert!(connection.worked(start));
        assert!(!connection.worked(start));
        connection.lost(&error(), start);
        assert!(connection.next_attempt() <= start + Duration::from_millis(200));
    }

    #[test]
    fn a_queue_that_another_collector_has_is_asked_for_once_a_second() {
        let start = Instant::now();
        let mut connection = Connection::new(start);
        for _ in 0..6 {
            connection.lost(&QueueError::Taken("another has it".to_owned()), start);
            assert_eq!(connection.next_attempt(), start + Duration::from_secs(1));
        }
    }
}
