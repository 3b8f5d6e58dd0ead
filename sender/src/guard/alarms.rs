//! Openings of the circuit by words about us that an acceptance disproved soon.
//!
//! Where a server passes on what others said, each domain of a stranger can open the circuit once.
//! After a few such false alarms of several domains, words about us are not believed over domains
//! that accepted nothing yet, as long as mails of others are accepted. If it is our fault after
//! all, none is any more, and the words count again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::{DISARMED, MAX_DOMAINS};
use crate::registered::registered;

/// An opening is a false alarm if a mail was accepted within this time.
const MAX_UNTIL_ACCEPTED: Duration = Duration::from_secs(60);

/// After false alarms of so many domains others are doubted.
const ALARMED_DOMAINS: usize = 5;

/// For how long after an acceptance others are doubted.
const MAX_DOUBT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Alarms {
    /// Domains that opened the circuit since the last acceptance, and when first.
    opened: HashMap<String, Instant>,
    /// Domains whose openings were disproved, and until when that counts.
    disproved: HashMap<String, Instant>,
    /// The registered domains above them.
    above: HashMap<String, Instant>,
    /// Domains that accepted a mail, and until when that counts.
    accepted: HashMap<String, Instant>,
    last_accepted: Option<Instant>,
}

impl Alarms {
    /// Words over a recipient of this domain open the circuit.
    pub(super) fn open(&mut self, domain: &str, now: Instant) {
        if self.opened.len() < MAX_DOMAINS {
            self.opened.entry(domain.to_owned()).or_insert(now);
        }
    }

    /// A mail to this domain was accepted.
    pub(super) fn accept(&mut self, domain: &str, now: Instant) {
        self.last_accepted = Some(now);
        let until = now + DISARMED;
        for (opener, at) in std::mem::take(&mut self.opened) {
            if now.saturating_duration_since(at) <= MAX_UNTIL_ACCEPTED {
                remember(&mut self.above, registered(&opener), until, now);
                remember(&mut self.disproved, &opener, until, now);
            }
        }
        remember(&mut self.accepted, domain, until, now);
    }

    /// Whether words about us over this domain open no circuit now.
    pub(super) fn doubts(&self, domain: &str, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < MAX_DOUBT;
        let counts = |until: Option<&Instant>| until.is_some_and(|until| now < *until);
        let is_trusted =
            counts(self.accepted.get(domain)) && !counts(self.above.get(registered(domain)));
        let alarmed = self.disproved.values().filter(|until| now < **until).count();
        self.last_accepted.is_some_and(is_recent) && !is_trusted && alarmed >= ALARMED_DOMAINS
    }
}

/// Remembers a domain, if there is room.
fn remember(domains: &mut HashMap<String, Instant>, domain: &str, until: Instant, now: Instant) {
    if domains.len() >= MAX_DOMAINS {
        domains.retain(|_, until| now < *until);
    }
    if let Some(known) = domains.get_mut(domain) {
        *known = until;
    } else if domains.len() < MAX_DOMAINS {
        domains.insert(domain.to_owned(), until);
    }
}
