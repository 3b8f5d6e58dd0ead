//! Which of the mails that wait goes out next while mails that take long have all places.
//!
//! Pure policy: the caller passes the times in. A stranger may have given many addresses, of as
//! many domains, over which the server takes its time, and nothing tells them from others before
//! they are tried. So mails that were given back because others had all places stand behind those
//! that come for the first time, and behind those to domains that were quick, at every other turn.
//! Of those that come for the first time the last one goes first: the stranger's have come before.
//! And only few wait here meanwhile: the others are given back soon, each until its turn or for
//! some seconds, because those that come later are behind them in the queue. Mails for something
//! else than those that take long, such as recoveries behind activations, are no part of that.
//!
//! Where the server is slow for everybody that costs nothing: the places stay taken, and the other
//! turns go by the order in which mails came.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mailroom_mail::address::domain_of;

use crate::key::Key;
use crate::queue::Queued;
use crate::registered::registered;

/// How long it is remembered that a mail was given back, and how a domain was.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The most mails and domains that are remembered.
const MAX_REMEMBERED: usize = 50_000;

/// There is a crowd after so many looks in a row at which mails that take long had the places, and
/// as long as that was so at one of the last ones.
const LOOKS_OF_CROWD: u8 = 2;
const MAX_LOOKS: u8 = 6;

/// The pauses of mails that are given back at once while there is a crowd.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Order {
    /// Mails that were given back, and until when that counts.
    passed_over: HashMap<Key, Instant>,
    /// Domains over which the server was quick or was not, and until when that counts; of one that
    /// was not also the registered one above it.
    domains: HashMap<String, (Pace, Instant)>,
    /// Whether the last turn was that of the mails that are preferred.
    was_preferred: bool,
    /// How often mails that take long had the places of late.
    looks: u8,
    is_crowded: bool,
    /// What those mails are for.
    action: String,
    /// How long such a mail takes.
    each: Duration,
    /// When the next mail has its turn.
    next_turn: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Quick,
    Slow,
}

impl Order {
    /// It was looked whether mails of an action that take long have the places, and how long the
    /// longest has taken.
    pub(super) fn look(&mut self, held_by: Option<(&str, Duration)>) {
        if let Some((action, longest)) = held_by {
            self.looks = (self.looks + 1).min(MAX_LOOKS);
            self.each = longest;
            action.clone_into(&mut self.action);
        } else {
            self.looks = self.looks.saturating_sub(1);
        }
        self.is_crowded = self.looks >= LOOKS_OF_CROWD || self.is_crowded && self.looks > 0;
        self.next_turn = self.next_turn.filter(|_| self.is_crowded);
    }

    /// Whether mails that take long have the places, and only few others may wait.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// Whether there is a crowd, of mails for something else.
    pub(super) fn is_beside_crowd(&self, mail: &Queued) -> bool {
        self.is_crowded && mail.action != self.action
    }

    /// Whether there is a crowd, and a mail has to wait elsewhere if many wait here.
    pub(super) fn is_of_crowd(&self, mail: &Queued) -> bool {
        self.is_crowded && mail.action == self.action && mail.returnable_since.is_some()
    }

    /// A mail is given back while there is a crowd. Returns for how long.
    pub(super) fn pause(&mut self, mail: &Queued, places: usize, now: Instant) -> Duration {
        self.pass_over(std::slice::from_ref(mail), now);
        let soonest = now + SHORTEST_PAUSE;
        if self.prefers(mail, now) {
            return SHORTEST_PAUSE;
        }
        let turn = self.next_turn.map_or(soonest, |turn| turn.max(soonest));
        let turn = turn.min(now + MAX_PAUSE);
        self.next_turn = Some(turn + self.each / u32::try_from(places).unwrap_or(u32::MAX));
        turn.saturating_duration_since(now)
    }

    /// Mails were given back because others had all places.
    pub(super) fn pass_over(&mut self, mails: &[Queued], now: Instant) {
        if self.passed_over.len() >= MAX_REMEMBERED {
            self.passed_over.retain(|_, until| now < *until);
        }
        let left = MAX_REMEMBERED.saturating_sub(self.passed_over.len());
        for mail in mails.iter().take(left) {
            self.passed_over.entry(mail.prepared.key).or_insert(now + REMEMBERED);
        }
    }

    /// What says which of two mails was given back first.
    pub(super) fn passed_over_at(&self, mail: &Queued) -> Option<(Instant, u128)> {
        let key = mail.prepared.key;
        self.passed_over.get(&key).map(|at| (*at, key.number()))
    }

    /// A mail is taken.
    pub(super) fn take(&mut self, mail: &Queued) {
        self.passed_over.remove(&mail.prepared.key);
    }

    /// A mail to this domain was accepted at once.
    pub(super) fn note_quick(&mut self, domain: &str, now: Instant) {
        self.note(domain, Pace::Quick, now);
        let above = registered(domain);
        if above != domain {
            self.domains.remove(above);
        }
    }

    /// A mail to this domain took long.
    pub(super) fn note_slow(&mut self, domain: &str, now: Instant) {
        self.note(domain, Pace::Slow, now);
        let above = registered(domain);
        if above != domain {
            self.note(above, Pace::Slow, now);
        }
    }

    fn note(&mut self, domain: &str, pace: Pace, now: Instant) {
        if self.domains.len() >= MAX_REMEMBERED {
            self.domains.retain(|_, (_, until)| now < *until);
        }
        if self.domains.len() < MAX_REMEMBERED || self.domains.contains_key(domain) {
            self.domains.insert(domain.to_owned(), (pace, now + REMEMBERED));
        }
    }

    /// Whether a mail is to a domain that was quick.
    pub(super) fn is_to_quick(&self, mail: &Queued, now: Instant) -> bool {
        let known = self.domains.get(&domain_of(&mail.prepared.to));
        known.is_some_and(|(pace, until)| *pace == Pace::Quick && now < *until)
    }

    /// Whether the next mail is one of those that are preferred, if there is one. Nobody is while
    /// no mail was given back.
    pub(super) fn is_turn_of_preferred(&mut self) -> bool {
        if self.passed_over.is_empty() {
            return false;
        }
        self.was_preferred = !self.was_preferred;
        self.was_preferred
    }

    /// Whether a mail goes before others at every other turn.
    pub(super) fn prefers(&self, mail: &Queued, now: Instant) -> bool {
        let pace = |domain: &str| {
            let pace = self.domains.get(domain).filter(|(_, until)| now < *until);
            pace.map(|(pace, _)| *pace)
        };
        if self.is_beside_crowd(mail) {
            return true;
        }
        let domain = domain_of(&mail.prepared.to);
        match pace(&domain).or_else(|| pace(registered(&domain))) {
            Some(Pace::Slow) => false,
            Some(Pace::Quick) if pace(&domain).is_some() => true,
            _ => self.passed_over.get(&mail.prepared.key).is_none_or(|until| now >= *until),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::lane::tests::mail;

    fn mail_to(number: u128, to: &str) -> Queued {
        let mut mail = mail(number, false);
        Arc::get_mut(&mut mail.prepared).unwrap().to = to.to_owned();
        mail
    }

    #[test]
    fn mails_that_were_given_back_stand_behind_new_ones_and_those_to_quick_domains() {
        let start = Instant::now();
        let mut order = Order::default();
        let (old, new) = (mail_to(1, "a@a.x.test"), mail_to(2, "b@b.x.test"));
        assert!(order.prefers(&old, start) && !order.is_turn_of_preferred());
        order.pass_over(std::slice::from_ref(&old), start);
        assert!(!order.prefers(&old, start) && order.prefers(&new, start));
        assert!(order.prefers(&old, start + REMEMBERED));
        assert!(order.is_turn_of_preferred() && !order.is_turn_of_preferred());
        order.note_quick("a.x.test", start);
        assert!(order.prefers(&old, start));
        // Whoever has one name below a domain has all of them; one that was quick stands for
        // itself.
        order.note_slow("c.x.test", start);
        assert!(!order.prefers(&new, start) && order.prefers(&old, start));
        order.note_quick("c.x.test", start);
        assert!(order.prefers(&new, start));
        order.take(&old);
        assert!(!order.is_turn_of_preferred());
    }

    #[test]
    fn there_is_a_crowd_while_mails_that_take_long_have_the_places_more_often_than_once() {
        let mut order = Order::default();
        let mut look = |are_held: bool| {
            order.look(are_held.then_some(("activate", Duration::from_secs(1))));
            order.is_crowded()
        };
        let looks = [true, false, true, true, true, false, false, true, false, false, true];
        let expected = [false, false, false, true, true, true, true, true, true, false, false];
        assert_eq!(looks.map(&mut look), expected);
    }

    #[test]
    fn mails_that_are_given_back_in_a_crowd_have_turns_within_seconds() {
        let start = Instant::now();
        let mut order = Order::default();
        (0..2).for_each(|_| order.look(Some(("activate", Duration::from_secs(2)))));
        let mut pause = |number: u128| {
            order.pause(&mail_to(number, &format!("a@{number}.test")), 4, start).as_millis()
        };
        let pauses: Vec<_> = (0..1_000).map(&mut pause).collect();
        assert_eq!((&pauses[..3], pauses[999]), (&[1_000, 1_500, 2_000][..], 10_000));
        // One that may be quick comes again soon.
        order.note_quick("quick.test", start);
        assert_eq!(order.pause(&mail_to(1, "a@quick.test"), 4, start), SHORTEST_PAUSE);
        // The mails of another action are no part of it.
        let other = Queued { action: "recover".to_owned(), ..mail_to(7, "a@7.test") };
        assert!(!order.prefers(&mail_to(7, "a@7.test"), start) && order.prefers(&other, start));
    }
}
