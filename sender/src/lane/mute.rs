//! Domains about whose recipients the server said nothing: their mails leave places to others.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long mails to a domain leave a connection to others, after the server said nothing about one
/// of its recipients.
const MUTE: Duration = Duration::from_secs(600);

/// The most domains that are remembered for that.
const MOST_MUTE: usize = 10_000;

/// The domains, each until it is forgotten. The caller passes the times in.
#[derive(Debug)]
pub(super) struct Mute {
    until: HashMap<String, Instant>,
    /// How many attempts to them there may be at once.
    most: usize,
}

impl Mute {
    /// Leaves one of so many connections to others, if there are several.
    pub(super) fn beside_others(connections: usize) -> Self {
        Self { until: HashMap::new(), most: connections.saturating_sub(1).max(1) }
    }

    /// The server has said nothing about a recipient of this domain.
    pub(super) fn note(&mut self, domain: &str, now: Instant) {
        if self.until.len() < MOST_MUTE {
            self.until.insert(domain.to_owned(), now + MUTE);
        }
    }

    /// A mail to this domain was accepted.
    pub(super) fn forget(&mut self, domain: &str) {
        self.until.remove(domain);
    }

    /// Forgets what was noted long ago.
    pub(super) fn tidy(&mut self, now: Instant) {
        self.until.retain(|_, until| *until > now);
    }

    pub(super) fn is_mute(&self, domain: &str, now: Instant) -> bool {
        self.until.get(domain).is_some_and(|until| now < *until)
    }

    /// Whether a mail to such a domain may go out beside those that are on their way.
    pub(super) fn has_place<'a>(
        &self,
        on_their_way: impl Iterator<Item = &'a str>,
        now: Instant,
    ) -> bool {
        self.until.is_empty()
            || on_their_way.filter(|domain| self.is_mute(domain, now)).count() < self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_domains_leave_a_connection_to_others_until_they_are_forgotten() {
        let now = Instant::now();
        let mut mute = Mute::beside_others(3);
        mute.note("dead.test", now);
        assert!(mute.is_mute("dead.test", now) && !mute.is_mute("x.test", now));
        assert!(mute.has_place(["dead.test", "x.test", "y.test"].into_iter(), now));
        assert!(!mute.has_place(["dead.test", "dead.test"].into_iter(), now));
        assert!(mute.has_place(["dead.test", "dead.test"].into_iter(), now + MUTE));
        mute.forget("dead.test");
        assert!(mute.has_place(["dead.test", "dead.test"].into_iter(), now));
        mute.note("dead.test", now);
        mute.tidy(now + MUTE);
        assert!(mute.until.is_empty());
        // A single connection is not taken from them.
        let mut mute = Mute::beside_others(1);
        mute.note("dead.test", now);
        assert!(mute.has_place(std::iter::empty(), now));
    }
}
