//! How long a provider is left alone after failures. The caller passes the times in.

use std::time::{Duration, Instant};

use crate::provider::MAX_ASKED;

/// The first pause of a provider beside which there is another one, doubling up to the longest one.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Pauses {
    until: Option<Instant>,
    /// The pause after the next failure; none where mails have no other way.
    next: Option<Duration>,
}

impl Pauses {
    /// Where another provider takes the mails meanwhile, this one gets pauses of its own, and not
    /// only those that it asks for.
    pub(super) fn new(has_other: bool) -> Self {
        Self { until: None, next: has_other.then_some(FIRST_PAUSE) }
    }

    /// Whether mails have another way.
    pub(super) fn has_other(&self) -> bool {
        self.next.is_some()
    }

    /// How long nothing may be begun.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        self.until?.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// A failure asks for a pause; it is a new one if no other of the same mails came before.
    pub(super) fn begin(&mut self, asked: Duration, is_new: bool, now: Instant) {
        let mut pause = asked.min(MAX_ASKED);
        if is_new {
            pause = pause.max(self.next.unwrap_or_default());
            self.next = self.next.map(|pause| (pause * 2).min(MAX_PAUSE));
        }
        self.until = self.until.max(Some(now + pause));
    }

    /// The provider works again.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.has_other());
    }
}
