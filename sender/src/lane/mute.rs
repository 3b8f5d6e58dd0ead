//! Domains over whose recipients the server takes its time: their mails leave places to others.
//!
//! Pure policy: the caller passes the times in. A domain that holds places for long gets no more
//! than all but one. If mails of others are answered at once meanwhile, it is certain that the
//! domain is slow and not the server: further mails to it are given back at once, each until its
//! turn, because the collector has only so many batches under way, which they would fill. Before
//! that is known, they are given back for a moment now and then, so that others can show it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mailroom_mail::address::domain_of;

use super::news::News;
use crate::queue::Queued;

/// How long a domain is remembered over which the server was silent for long, and one that only
/// held all places.
const REMEMBERED: Duration = Duration::from_secs(600);
const SUSPECTED: Duration = Duration::from_secs(60);

/// The most domains that are remembered.
const MAX_DOMAINS: usize = 10_000;

/// How long mails are given back to see whether there are others, how often, and for how long.
const LOOK: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_secs(8);
const LOOK_PAUSE: Duration = Duration::from_secs(4);

/// A domain whose mail was accepted within this time is no longer slow.
const QUICK: Duration = Duration::from_secs(2);

/// The most that turns are apart, as if a mail took so long: one that took longer may have been the
/// only one.
const MAX_TURN: Duration = Duration::from_secs(4);

/// The pauses of mails that are given back until their turn.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Mute {
    domains: HashMap<String, Slow>,
    /// How many mails to them may be on their way at once.
    pub(super) most: usize,
    /// When it was last begun to look for others.
    looked_at: Option<Instant>,
    /// When the next mail has its turn.
    next_turn: Option<Instant>,
    /// What is to be said of them.
    pub(super) news: News,
}

#[derive(Debug)]
struct Slow {
    until: Instant,
    /// How long a mail to it waited.
    waited: Duration,
    /// Whether others were answered at once meanwhile.
    is_shown: bool,
}

impl Mute {
    pub(super) fn new(connections: usize) -> Self {
        Self {
            domains: HashMap::new(),
            most: connections.saturating_sub(1).max(1),
            looked_at: None,
            next_turn: None,
            news: News::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    pub(super) fn has(&self, domain: &str, now: Instant) -> bool {
        self.domains.get(domain).is_some_and(|slow| now < slow.until)
    }

    /// The domain of a mail that may be given back, if it is one of these.
    pub(super) fn domain_of(&self, mail: &Queued, now: Instant) -> Option<String> {
        let domain = domain_of(&mail.prepared.to);
        (mail.returnable_since.is_some() && self.has(&domain, now)).then_some(domain)
    }

    /// A mail to this domain waited for long.
    pub(super) fn note(&mut self, domain: &str, waited: Duration, now: Instant) {
        self.add(domain, waited, REMEMBERED, now);
        self.news.begin(domain);
    }

    /// Mails to this domain hold places that others may need.
    pub(super) fn suspect(&mut self, domain: &str, waited: Duration, now: Instant) {
        self.add(domain, waited, SUSPECTED, now);
    }

    /// Remembers a domain for longer.
    pub(super) fn keep(&mut self, domain: &str, now: Instant) {
        if let Some(slow) = self.domains.get_mut(domain).filter(|slow| now < slow.until) {
            slow.until = slow.until.max(now + REMEMBERED);
        }
    }

    fn add(&mut self, domain: &str, waited: Duration, time: Duration, now: Instant) {
        self.domains.retain(|_, slow| now < slow.until);
        if self.domains.len() >= MAX_DOMAINS && !self.domains.contains_key(domain) {
            return;
        }
        let new = || Slow { until: now, waited, is_shown: false };
        let slow = self.domains.entry(domain.to_owned()).or_insert_with(new);
        slow.until = slow.until.max(now + time);
        slow.waited = waited;
    }

    /// Others were answered at once while a mail to this domain waited.
    pub(super) fn show(&mut self, domain: &str, now: Instant) {
        if let Some(slow) = self.domains.get_mut(domain) {
            slow.is_shown = true;
            self.news.begin(domain);
            slow.until = now + REMEMBERED;
        }
    }

    /// A mail to this domain was accepted after this time.
    pub(super) fn accept(&mut self, domain: &str, took: Duration) {
        if took < QUICK {
            self.domains.remove(domain);
            self.news.end(domain);
        } else if let Some(slow) = self.domains.get_mut(domain) {
            slow.waited = took;
        }
        if self.domains.is_empty() {
            self.next_turn = None;
        }
    }

    /// Looks for others from time to time, unless it is known that they are answered at once.
    pub(super) fn look(&mut self, now: Instant) {
        let is_due =
            self.looked_at.is_none_or(|at| now.saturating_duration_since(at) >= LOOK_AGAIN);
        let is_unknown = self.domains.values().any(|slow| now < slow.until && !slow.is_shown);
        if is_due && is_unknown {
            self.looked_at = Some(now);
        }
    }

    /// For how long a mail to this domain is given back while others to such domains have the
    /// places; not at all if it may wait here.
    pub(super) fn pause(&mut self, domain: &str, now: Instant) -> Option<Duration> {
        let slow = self.domains.get(domain).filter(|slow| now < slow.until)?;
        if !slow.is_shown {
            let is_looking =
                self.looked_at.is_some_and(|at| now.saturating_duration_since(at) < LOOK);
            return is_looking.then_some(LOOK_PAUSE);
        }
        let soonest = now + SHORTEST_PAUSE;
        let turn = self.next_turn.map_or(soonest, |turn| turn.max(soonest));
        let pause = turn.saturating_duration_since(now);
        if pause < MAX_PAUSE {
            let places = u32::try_from(self.most).unwrap_or(u32::MAX);
            self.next_turn = Some(turn + slow.waited.min(MAX_TURN) / places);
        }
        Some(pause.min(MAX_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mails_to_a_slow_domain_are_given_back_until_their_turns() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut mute = Mute::new(4);
        mute.note("a.test", Duration::from_secs(6), at(0));
        mute.show("a.test", at(0));
        let pauses: Vec<_> =
            (0..50).map(|_| mute.pause("a.test", at(0)).unwrap().as_secs()).collect();
        assert_eq!((&pauses[..3], &pauses[42..46]), (&[1, 2, 3][..], &[56, 58, 59, 60][..]));
        assert_eq!(mute.pause("a.test", at(70)), Some(SHORTEST_PAUSE));
        assert_eq!(mute.pause("b.test", at(70)), None);
        assert!(mute.has("a.test", at(599)) && !mute.has("a.test", at(600)));
        // A mail that is accepted, but slowly, says how far turns are apart from now on.
        mute.accept("a.test", Duration::from_secs(3));
        assert!(mute.has("a.test", at(599)));
        let turns = [(); 2].map(|()| mute.pause("a.test", at(80)).unwrap().as_secs());
        assert_eq!(turns, [1, 2]);
        mute.accept("a.test", Duration::from_millis(1_900));
        assert!(mute.is_empty());
        mute.note("a.test", Duration::from_secs(6), at(80));
        mute.show("a.test", at(80));
        assert_eq!(mute.pause("a.test", at(80)), Some(SHORTEST_PAUSE));
    }

    #[test]
    fn it_is_looked_for_others_now_and_then_until_they_show_that_the_domain_is_slow() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut mute = Mute::new(4);
        mute.look(at(0));
        mute.suspect("a.test", Duration::from_secs(1), at(0));
        assert_eq!(mute.pause("a.test", at(0)), None);
        for second in 0..20 {
            mute.suspect("a.test", Duration::from_secs(1), at(second));
            mute.look(at(second));
            let expected = (second % 8 < 3).then_some(LOOK_PAUSE);
            assert_eq!(mute.pause("a.test", at(second)), expected, "{second}");
        }
        mute.show("a.test", at(20));
        assert_eq!(mute.pause("a.test", at(20)), Some(SHORTEST_PAUSE));
        let mut mute = Mute::new(1);
        mute.suspect("b.test", Duration::from_secs(1), at(0));
        assert!(mute.most == 1 && mute.has("b.test", at(59)) && !mute.has("b.test", at(60)));
    }
}
