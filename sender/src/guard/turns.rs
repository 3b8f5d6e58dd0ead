//! Recipients over which it was said that no mail can go out, and who may be the reason alone.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::DISARMED;
use super::disarmed::MAX_REFUSED;

/// Who may show again that no mail can go out, and who may not.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Recipients over which that was said since the last acceptance, by a hash, and whether the
    /// last time counted.
    said: HashMap<u64, bool>,
    /// Those of them over which a limit was told.
    limited: HashSet<u64>,
    /// Until when a limit is believed to be a recipient's own.
    own: HashMap<u64, Instant>,
}

impl Turns {
    /// Whether what is said over this recipient counts now. Every other time it does not, so that
    /// the next trial is another mail: one that always comes first would keep all others waiting.
    pub(super) fn counts(&mut self, recipient: u64) -> bool {
        if self.said.len() >= MAX_REFUSED && !self.said.contains_key(&recipient) {
            return true;
        }
        let counts = self.said.entry(recipient).or_insert(false);
        *counts = !*counts;
        *counts
    }

    /// A limit was told over this recipient.
    pub(super) fn note_limit(&mut self, recipient: u64) {
        if self.limited.len() < MAX_REFUSED {
            self.limited.insert(recipient);
        }
    }

    /// Whether a mail was accepted since a limit was told over this recipient.
    pub(super) fn is_own_limit(&self, recipient: u64, now: Instant) -> bool {
        self.own.get(&recipient).is_some_and(|until| now < *until)
    }

    /// A mail was accepted: no limit was everybody's.
    pub(super) fn accept(&mut self, now: Instant) {
        self.said.clear();
        if self.limited.is_empty() {
            return;
        }
        self.own.retain(|_, until| now < *until);
        let left = MAX_REFUSED.saturating_sub(self.own.len());
        self.own
            .extend(self.limited.drain().take(left).map(|recipient| (recipient, now + DISARMED)));
    }
}
