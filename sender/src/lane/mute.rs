//! Domains over whose recipients the server takes its time: their mails leave places to others.
//!
//! Pure policy: the caller passes the times in. A domain that holds places for long gets no more
//! than all but one. If mails of others are answered at once meanwhile, it is certain that the
//! domain is slow and not the server: further mails to it are given back at once, each until its
//! turn, because the collector has only so many batches under way, which they would fill. Before
//! that is known, they are given back as well, each for a few seconds at first, so that others can
//! show it; but as many as have places wait here, so that none is idle if the server is slow for
//! everybody.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mailroom_mail::address::domain_of;

use super::news::News;
use crate::key::Key;
use crate::queue::Queued;

/// How long a domain is remembered over which the server was silent for long, and one that only
/// held all places.
const REMEMBERED: Duration = Duration::from_secs(600);
const SUSPECTED: Duration = Duration::from_secs(60);

/// The most domains that are remembered.
const MAX_DOMAINS: usize = 10_000;

/// The most mails of which it is remembered that they were given back.
const MAX_MAILS: usize = 50_000;

/// A domain whose mail was accepted within this time is no longer slow.
const QUICK: Duration = Duration::from_secs(2);

/// The most that turns are apart, as if a mail took so long: one that took longer may have been the
/// only one.
const MAX_TURN: Duration = Duration::from_secs(4);

/// The pauses of mails that are given back until their turn.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause of a mail that is given back for the first time while it is not known whether
/// the server is slow for everybody.
const MAX_FIRST_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Mute {
    domains: HashMap<String, Slow>,
    /// How many mails to them may be on their way at once.
    pub(super) most: usize,
    /// Mails that were given back, and until when that counts.
    given_back: HashMap<Key, Instant>,
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
            given_back: HashMap::new(),
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

    /// The domain of a mail that may be given back, if it is one of these. Mails that were in doubt
    /// before have places of their own, until it is known that the domain is slow.
    pub(super) fn domain_of(&self, mail: &Queued, now: Instant) -> Option<String> {
        let domain = domain_of(&mail.prepared.to);
        let slow = self.domains.get(&domain).filter(|slow| now < slow.until)?;
        let is_returnable = mail.returnable_since.is_some();
        (is_returnable && (slow.is_shown || !mail.is_doubtful)).then_some(domain)
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

    /// How many mails to this domain may wait here beside so many to such domains on their way.
    pub(super) fn most_waiting(&self, domain: &str, on_their_way: usize) -> usize {
        let is_shown = self.domains.get(domain).is_some_and(|slow| slow.is_shown);
        self.most.saturating_sub(if is_shown { on_their_way } else { 0 })
    }

    /// For how long a mail to this domain is given back while others to such domains have the
    /// places; not at all if it may wait here.
    ///
    /// A turn comes when the mail would go out if it waited here. Until it is known that others are
    /// answered at once, the first pause is short: the domain may be innocent. The next ones are
    /// not, or a thousand such mails would keep the collector from all that come later.
    pub(super) fn pause(&mut self, domain: &str, key: Key, now: Instant) -> Option<Duration> {
        let slow = self.domains.get(domain).filter(|slow| now < slow.until)?;
        let apart = slow.waited.min(MAX_TURN) / u32::try_from(self.most).unwrap_or(u32::MAX);
        let is_shown = slow.is_shown;
        let is_first = self.is_given_back_first(key, now);
        let longest = if is_shown || !is_first { MAX_PAUSE } else { MAX_FIRST_PAUSE };
        let soonest = now + SHORTEST_PAUSE;
        let turn = self.next_turn.map_or(soonest, |turn| turn.max(soonest));
        let pause = turn.saturating_duration_since(now);
        if pause < longest {
            self.next_turn = Some(turn + apart);
        }
        Some(pause.min(longest))
    }

    /// A mail is given back. Returns whether it was not before.
    fn is_given_back_first(&mut self, key: Key, now: Instant) -> bool {
        if self.given_back.len() >= MAX_MAILS {
            // They get short pauses again.
            self.given_back.clear();
        }
        let until = self.given_back.insert(key, now + REMEMBERED);
        until.is_none_or(|until| now >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one and the same mail.
    fn pause(mute: &mut Mute, domain: &str, now: Instant) -> Option<Duration> {
        mute.pause(domain, Key::of_number(0), now)
    }

    #[test]
    fn mails_to_a_slow_domain_are_given_back_until_their_turns() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut mute = Mute::new(4);
        mute.note("a.test", Duration::from_secs(6), at(0));
        mute.show("a.test", at(0));
        let pauses: Vec<_> =
            (0..50).map(|_| pause(&mut mute, "a.test", at(0)).unwrap().as_secs()).collect();
        assert_eq!((&pauses[..3], &pauses[42..46]), (&[1, 2, 3][..], &[56, 58, 59, 60][..]));
        assert_eq!(pause(&mut mute, "a.test", at(70)), Some(SHORTEST_PAUSE));
        assert_eq!(pause(&mut mute, "b.test", at(70)), None);
        assert!(mute.has("a.test", at(599)) && !mute.has("a.test", at(600)));
        // A mail that is accepted, but slowly, says how far turns are apart from now on.
        mute.accept("a.test", Duration::from_secs(3));
        assert!(mute.has("a.test", at(599)));
        let turns = [(); 2].map(|()| pause(&mut mute, "a.test", at(80)).unwrap().as_secs());
        assert_eq!(turns, [1, 2]);
        mute.accept("a.test", Duration::from_millis(1_900));
        assert!(mute.is_empty());
        mute.note("a.test", Duration::from_secs(6), at(80));
        mute.show("a.test", at(80));
        assert_eq!(pause(&mut mute, "a.test", at(80)), Some(SHORTEST_PAUSE));
    }

    #[test]
    fn the_first_pause_is_short_until_others_show_that_the_domain_is_slow() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut mute = Mute::new(4);
        mute.suspect("a.test", Duration::from_secs(6), at(0));
        let mut pauses = |numbers: std::ops::Range<u128>, now| {
            let mut pause = |number| mute.pause("a.test", Key::of_number(number), now).unwrap();
            numbers.map(|number| pause(number).as_secs()).collect::<Vec<_>>()
        };
        let first = pauses(0..100, at(0));
        assert_eq!((&first[..4], first[9], first[99]), (&[1, 2, 3, 4][..], 10, 10));
        let second = pauses(0..100, at(10));
        assert_eq!((second[0], second[99]), (1, 60));
        // One that comes for the first time is not behind those.
        assert_eq!(pauses(100..101, at(10)), [10]);
        mute.show("a.test", at(20));
        let pause = mute.pause("a.test", Key::of_number(101), at(20)).unwrap();
        assert_eq!(pause.as_secs(), 50);
    }

    /// The collector gives a sender fifty mails a second, which is few.
    #[test]
    fn a_mail_to_another_domain_waits_for_one_pass_of_a_thousand_at_most() {
        use std::collections::BTreeSet;
        let start = Instant::now();
        let mut mute = Mute::new(4);
        let second = Duration::from_secs(1);
        mute.suspect("a.test", second, start);
        let mut due: BTreeSet<(Instant, u128)> = (0..1_000).map(|mail| (start, mail)).collect();
        // One after another, numbered from 10,000; each is taken after so many seconds.
        let mut delays = Vec::new();
        for beat in 0..120_u32 {
            let now = start + second * beat;
            mute.suspect("a.test", second, now);
            due.insert((now, 10_000 + u128::from(beat)));
            for _ in 0..50 {
                let Some(first) = due.first().copied().filter(|(at, _)| *at <= now) else { break };
                due.remove(&first);
                match first.1 {
                    10_000.. => delays.push(now.saturating_duration_since(first.0).as_secs()),
                    mail => {
                        let pause = mute.pause("a.test", Key::of_number(mail), now).unwrap();
                        due.insert((now + pause, mail));
                    }
                }
            }
        }
        let latest = delays.iter().copied().max();
        assert!(delays.len() >= 115 && latest <= Some(20), "{delays:?}");
        assert!(delays[40..].iter().all(|delay| *delay <= 2), "{delays:?}");
    }

    #[test]
    fn a_suspicion_ends_and_the_mails_that_are_remembered_are_bounded() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut mute = Mute::new(1);
        mute.suspect("b.test", Duration::from_secs(1), at(0));
        assert!(mute.most == 1 && mute.has("b.test", at(59)) && !mute.has("b.test", at(60)));
        for number in 0..120_000 {
            mute.pause("b.test", Key::of_number(number), at(1));
        }
        assert!((1..=MAX_MAILS).contains(&mute.given_back.len()));
    }
}
