//! Recipients whose refusals are believed to be their own.

use std::collections::HashSet;
use std::time::Instant;

use super::TRIALS;
use super::kind::DOMAINS;

/// So many others are believed of at once then, until the next mail is accepted.
pub(super) const BELIEVED_AT_ONCE: usize = 10;

/// The most recipients that are remembered of a text that is their own.
pub(super) const MAX_REFUSED: usize = 4 * TRIALS;

/// For how long, and of whom.
#[derive(Debug)]
pub(super) struct Disarmed {
    pub(super) until: Instant,
    /// Recipients that were refused before a mail was accepted, by a hash.
    pub(super) refused: HashSet<u64>,
    /// Those that were refused since.
    pub(super) others: HashSet<u64>,
}

impl Disarmed {
    pub(super) fn new(until: Instant) -> Self {
        Self { until, refused: HashSet::new(), others: HashSet::new() }
    }

    /// A mail was accepted: those of whom this was said before it are refused themselves.
    pub(super) fn add(&mut self, recipients: impl Iterator<Item = u64>) {
        let left = MAX_REFUSED.saturating_sub(self.refused.len());
        self.refused.extend(self.others.drain().chain(recipients).take(left));
    }

    /// Alike, of a domain: others than those themselves only if there were several of them, since
    /// most recipients of some sites are of one domain.
    pub(super) fn believes_again(&mut self, recipient: u64, now: Instant) -> bool {
        if self.refused.len() < DOMAINS && !self.refused.contains(&recipient) {
            return false;
        }
        self.believes(recipient, now)
    }

    pub(super) fn believes(&mut self, recipient: u64, now: Instant) -> bool {
        if now >= self.until {
            return false;
        }
        if self.others.len() < BELIEVED_AT_ONCE && !self.refused.contains(&recipient) {
            self.others.insert(recipient);
        }
        self.refused.contains(&recipient) || self.others.contains(&recipient)
    }
}
