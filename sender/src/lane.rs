//! The mails that wait for a provider and those on their way to it,
//! shared by the threads that send by it.

mod patience;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::address::domain_of;
use crate::breaker::{self, Breaker};
use crate::guard::Guard;
use crate::protocol::Key;
use crate::provider::{About, Sealed, Verdict};
use crate::queue::{Queue, Queued};
use crate::rate::{Domains, LONGEST_WAIT, Pace, Rate};
use patience::{Pulse, SHORT, SHORT_FINAL};

/// How long a mail may wait for the answer to its content until another one gets its place.
const LONGEST_HOLD: Duration = Duration::from_secs(30);

/// How long a server may say nothing about a recipient until another mail gets the place.
const LONGEST_MUTE: Duration = Duration::from_secs(4);

/// How long a mail waits behind others that only wait for answers, until it is given back.
const LONGEST_QUEUE: Duration = Duration::from_secs(1);

/// An attempt that takes longer than this waits for an answer of the provider.
const LINGERING: Duration = Duration::from_secs(1);

/// How long mails to a domain leave a connection to others, after the server said nothing about one
/// of its recipients.
const MUTE: Duration = Duration::from_secs(600);

/// The most domains that are remembered for that.
const MOST_MUTE: usize = 10_000;

/// So many mails may wait without a place, for each connection that is configured.
const ASIDE_PER_CONNECTION: usize = 3;

/// The queue of a provider, with its limits.
#[derive(Debug)]
pub(crate) struct Lane {
    state: Mutex<State>,
    changed: Condvar,
    guard: Mutex<Guard>,
    domains: Arc<Domains>,
    has_other: bool,
    connections: usize,
    /// How many mails may wait for answers without a place.
    most_aside: usize,
    /// How many of them may wait for an answer about their recipients.
    most_mute_aside: usize,
}

#[derive(Debug)]
struct State {
    waiting: Queue,
    pace: Option<Pace>,
    breaker: Breaker,
    /// What is on its way, by the numbers of the attempts.
    on_their_way: BTreeMap<u64, OnItsWay>,
    /// How many attempts have begun.
    begun: u64,
    /// Whether there was a step forward.
    has_moved: bool,
    is_closed: bool,
    /// Domains about whose recipients the server said nothing, each until it is forgotten.
    mute: HashMap<String, Instant>,
    /// How many attempts to them there may be at once.
    most_mute: usize,
    pulse: Pulse,
}

#[derive(Debug)]
struct OnItsWay {
    /// The token; none if the provider is only tried.
    key: Option<Key>,
    attempt: breaker::Attempt,
    begun_at: Instant,
    /// The recipient's domain.
    domain: String,
    /// Since when the server is asked about the recipient.
    in_envelope_since: Option<Instant>,
    /// Whether the server may take its time for that.
    is_patient: bool,
    /// Since when it waits for the answer to its content.
    in_doubt_since: Option<Instant>,
    /// Whether another one has its place.
    is_aside: bool,
}

/// Why a mail was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The provider failed and is left alone, for this time where it is known.
    Failing(Option<Duration>),
    /// The provider's rate is reached.
    Rate(Duration),
    /// The rate of the recipient's domain is reached.
    DomainRate(Duration),
    /// The mail is in doubt, and nothing shows yet that the provider works again.
    Unproven(Duration),
}

/// What a thread has to do next.
#[derive(Debug)]
pub(crate) enum Job {
    /// Send this.
    Send(Queued, Ticket),
    /// Find out without a mail whether the provider works again.
    Probe(Ticket),
    /// Nothing has come for some time.
    Nothing,
    /// Nothing will come any more.
    End,
}

/// An attempt that is on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

/// What follows from the end of an attempt.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The mails that nobody has begun to send and that must not wait any longer for this provider.
    pub(crate) withdrawn: Vec<Queued>,
    /// Whether the thread goes on; otherwise another one has its place.
    pub(crate) has_place: bool,
}

impl Lane {
    /// An empty queue for a provider with this many connections,
    /// beside another provider's queue or alone.
    pub(crate) fn new(
        rate: Option<Rate>,
        connections: usize,
        domains: Arc<Domains>,
        has_other: bool,
    ) -> Self {
        let state = State {
            waiting: Queue::default(),
            pace: rate.map(Pace::new),
            breaker: Breaker::new(has_other),
            on_their_way: BTreeMap::new(),
            begun: 0,
            has_moved: false,
            is_closed: false,
            mute: HashMap::new(),
            most_mute: connections.saturating_sub(1).max(1),
            pulse: Pulse::default(),
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            guard: Mutex::default(),
            domains,
            has_other,
            connections,
            most_aside: ASIDE_PER_CONNECTION * connections,
            most_mute_aside: connections,
        }
    }

    /// Checks whether the provider may be given `mails` more. Where there is another provider, one
    /// that fails takes a single mail.
    ///
    /// # Errors
    /// The provider fails: how long to wait, if that is known.
    pub(crate) fn place_for(&self, mails: usize) -> Result<(), Option<Duration>> {
        self.lock().place_for(mails, self.has_other, Instant::now())
    }

    /// Adds a mail.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn push(&self, mail: Queued) -> Result<(), Refusal> {
        let mut state = self.lock();
        let now = Instant::now();
        state.place_for(1, self.has_other, now).map_err(Refusal::Failing)?;
        if let Some(left) = state.breaker.mistrust_left(now).filter(|_| mail.is_doubtful) {
            return Err(Refusal::Unproven(left));
        }
        let domain = self.domains.limited(&mail.sealed.to);
        if let Some(domain) = &domain {
            let wait = self.domains.wait(domain, state.waiting.len_of(domain), now);
            if wait > LONGEST_WAIT {
                return Err(Refusal::DomainRate(wait));
            }
        }
        if let Some(pace) = state.pace.as_ref().filter(|pace| pace.is_rare()) {
            let wait = pace.wait(state.waiting.len(), now);
            if wait > LONGEST_WAIT {
                return Err(Refusal::Rate(wait));
            }
        }
        state.waiting.push(mail, domain);
        self.changed.notify_one();
        Ok(())
    }

    /// Takes the next mail, or waits for one.
    pub(crate) fn next(&self, patience: Duration) -> Job {
        let end = Instant::now() + patience;
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            if state.is_closed && state.waiting.is_empty() {
                return Job::End;
            }
            if state.has_to_probe() {
                return Job::Probe(state.begin_probe());
            }
            let wait = match state.take(&self.domains, now) {
                Ok(mail) => {
                    // This thread waited for the turn of the next one, too,
                    // perhaps as the only one.
                    if !state.waiting.is_empty() {
                        self.changed.notify_one();
                    }
                    let ticket = state.begin(&mail.sealed);
                    return Job::Send(mail, ticket);
                }
                Err(wait) => wait.unwrap_or(patience).min(end.saturating_duration_since(now)),
            };
            if wait.is_zero() {
                return Job::Nothing;
            }
            (state, _) =
                self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// From now on an attempt waits for the answer to its content. Returns for how long, if as many
    /// wait as may without a place, while the server answers others at once.
    pub(crate) fn enter_doubt(&self, ticket: Ticket, now: Instant) -> Option<Duration> {
        let mut state = self.lock();
        state.has_moved = true;
        let doubts = state.on_their_way.values().filter_map(|attempt| attempt.in_doubt_since);
        let is_full = doubts.clone().count() >= self.most_aside;
        let first = doubts.min().filter(|_| is_full);
        if let Some(attempt) = state.on_their_way.get_mut(&ticket.0) {
            attempt.in_doubt_since = Some(now);
        }
        let may_leave =
            first.is_some_and(|first| state.pulse.may_leave(first, self.connections, now));
        may_leave.then_some(SHORT_FINAL)
    }

    /// From now on the server is asked about the recipient. Returns for how long, if it may not
    /// take its time for this one, too.
    pub(crate) fn enter_envelope(&self, ticket: Ticket, now: Instant) -> Option<Duration> {
        let mut state = self.lock();
        let is_asked =
            |attempt: &&OnItsWay| attempt.in_envelope_since.is_some() && attempt.is_patient;
        let asked = state.on_their_way.values().filter(is_asked);
        let patient = asked.filter(|attempt| attempt.in_doubt_since.is_none()).count();
        let is_patient = patient < self.most_mute_aside || !state.pulse.is_quick(now);
        if let Some(attempt) = state.on_their_way.get_mut(&ticket.0) {
            (attempt.in_envelope_since, attempt.is_patient) = (Some(now), is_patient);
        }
        (!is_patient).then_some(SHORT)
    }

    /// Takes the mails that wait for a place while all places are taken by such that wait for
    /// answers, but for those that get the next places.
    pub(crate) fn give_way(&self, now: Instant) -> Vec<Queued> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let places = || state.on_their_way.values().filter(|attempt| !attempt.is_aside);
        let is_full = places().count() >= self.connections;
        let is_held_up = is_full && places().any(|attempt| attempt.is_lingering(now));
        let before = now.checked_sub(LONGEST_QUEUE).filter(|_| is_held_up);
        before.map_or_else(Vec::new, |before| {
            state.waiting.drain_waiting_since(before, self.connections)
        })
    }

    /// The tokens whose mails wait for answers of the provider.
    pub(crate) fn waiting_for_answers(&self, now: Instant) -> Vec<Key> {
        let state = self.lock();
        let waiting = state.on_their_way.values().filter(|attempt| attempt.is_lingering(now));
        waiting.filter_map(|attempt| attempt.key).collect()
    }

    /// The verdict on a mail to this recipient, in the light of the earlier ones; and what it says
    /// of the provider, with which the attempt is to be ended.
    pub(crate) fn weigh(&self, recipient: &str, answer: Verdict) -> (Verdict, Verdict) {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = guard.weigh(recipient, answer, Instant::now());
        // Whose fault a refusal is was decided: one of a mail alone slows no other down.
        let is_of_mail = matches!(verdict, Verdict::Retry { .. });
        let of_provider =
            if is_of_mail { Verdict::dead("", About::Unplaced) } else { verdict.clone() };
        (verdict, of_provider)
    }

    /// Ends an attempt.
    pub(crate) fn finish(&self, ticket: Ticket, verdict: &Verdict) -> Finished {
        let mut state = self.lock();
        state.has_moved = true;
        let Some(ended) = state.on_their_way.remove(&ticket.0) else {
            return Finished { withdrawn: Vec::new(), has_place: true };
        };
        if ended.is_aside {
            state.breaker.take_back();
        }
        state.note_end(&ended, matches!(verdict, Verdict::Sent(_)), Instant::now());
        // Wakes no thread: the caller comes for the next mail,
        // and wakes another one if there are more.
        state.breaker.end(ended.attempt, verdict, Instant::now());
        let is_over = match verdict {
            Verdict::Suspected { .. } | Verdict::Unavailable { .. } => true,
            Verdict::InDoubt { .. } => self.has_other,
            Verdict::Overloaded { .. } => {
                self.has_other || state.breaker.pause_left(Instant::now()).is_some()
            }
            Verdict::Sent(_) | Verdict::Dead(_) | Verdict::Retry { .. } => false,
        };
        if ended.is_aside {
            // It wakes nobody by coming for more.
            self.changed.notify_one();
        }
        let withdrawn = if is_over {
            state.waiting.drain()
        } else if state.breaker.mistrust_left(Instant::now()).is_some() {
            state.waiting.drain_doubtful()
        } else {
            Vec::new()
        };
        Finished { withdrawn, has_place: !ended.is_aside }
    }

    /// Ends what a thread did to find out whether the provider works. Returns the mails that must
    /// not wait any longer if it does not.
    pub(crate) fn finish_probe(&self, ticket: Ticket, is_answered: bool) -> Vec<Queued> {
        let mut state = self.lock();
        state.has_moved = true;
        let Some(ended) = state.on_their_way.remove(&ticket.0) else { return Vec::new() };
        let goes_on = state.breaker.end_asking(ended.attempt, is_answered, Instant::now());
        if goes_on { Vec::new() } else { state.waiting.drain() }
    }

    /// Gives up the places of mails that wait for their answers for long, as far as there may be so
    /// many. Returns how many mails wait like that for the answers to their contents, and how many
    /// have just lost their places, for which there are to be other threads.
    pub(crate) fn set_aside(&self, now: Instant) -> (usize, usize) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let before = state.on_their_way.values().filter(|attempt| attempt.is_aside).count();
        // Where others are answered at once, the recipient is the reason.
        let (longest_mute, longest_hold) =
            if state.pulse.is_quick(now) { (SHORT, SHORT) } else { (LONGEST_MUTE, LONGEST_HOLD) };
        let is_slow = |attempt: &&mut OnItsWay| {
            !attempt.is_aside
                && (attempt.is_unanswered(longest_hold, now)
                    || attempt.is_patient && attempt.is_mute(longest_mute, now))
        };
        let is_mute_aside =
            |attempt: &&OnItsWay| attempt.is_aside && attempt.in_doubt_since.is_none();
        let mut mute = state.on_their_way.values().filter(is_mute_aside).count();
        let mut new = 0;
        for attempt in state.on_their_way.values_mut().filter(is_slow) {
            if before + new >= self.most_aside {
                break;
            }
            if attempt.is_mute(longest_mute, now) {
                if mute >= self.most_mute_aside {
                    continue;
                }
                mute += 1;
                if state.mute.len() < MOST_MUTE {
                    state.mute.insert(attempt.domain.clone(), now + MUTE);
                }
            }
            attempt.is_aside = true;
            new += 1;
        }
        for _ in 0..new {
            state.breaker.set_aside();
        }
        let of_content = state
            .on_their_way
            .values()
            .filter(|attempt| attempt.is_aside && attempt.is_unanswered(LONGEST_HOLD, now));
        (of_content.count(), new)
    }

    /// The tokens whose mails wait for the answers to their contents.
    pub(crate) fn in_doubt(&self) -> Vec<Key> {
        let state = self.lock();
        let waiting =
            state.on_their_way.values().filter(|attempt| attempt.in_doubt_since.is_some());
        waiting.filter_map(|attempt| attempt.key).collect()
    }

    /// Whether something waits for the answer to its content, or there was a step forward since
    /// this was last asked.
    pub(crate) fn is_moving(&self) -> bool {
        let mut state = self.lock();
        let is_waiting =
            state.on_their_way.values().any(|attempt| attempt.in_doubt_since.is_some());
        std::mem::take(&mut state.has_moved) || is_waiting
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().on_their_way.is_empty()
    }

    /// Whether the provider did not fail, as far as anybody knows.
    pub(crate) fn is_working(&self) -> bool {
        !self.lock().breaker.is_failing()
    }

    /// Lets every thread end, and returns the mails that nobody has begun to send.
    pub(crate) fn close(&self) -> Vec<Queued> {
        let mut state = self.lock();
        state.is_closed = true;
        self.changed.notify_all();
        state.waiting.drain()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OnItsWay {
    /// Whether the server has said nothing about the recipient for this time.
    fn is_mute(&self, longest: Duration, now: Instant) -> bool {
        let since = self.in_envelope_since.filter(|_| self.in_doubt_since.is_none());
        since.is_some_and(|since| now.saturating_duration_since(since) >= longest)
    }

    /// Whether the answer to the content has not come for this time.
    fn is_unanswered(&self, longest: Duration, now: Instant) -> bool {
        let since = self.in_doubt_since;
        since.is_some_and(|since| now.saturating_duration_since(since) >= longest)
    }

    /// Whether it waits for an answer of the provider.
    fn is_lingering(&self, now: Instant) -> bool {
        let since = self.in_envelope_since.or(self.in_doubt_since);
        since.is_some_and(|since| now.saturating_duration_since(since) >= LINGERING)
    }
}

impl State {
    fn begin(&mut self, sealed: &Sealed) -> Ticket {
        let attempt = self.breaker.begin();
        self.start(Some(sealed.key), domain_of(&sealed.to), attempt)
    }

    /// Remembers about whose recipients the server says nothing.
    fn note_end(&mut self, ended: &OnItsWay, is_accepted: bool, now: Instant) {
        if is_accepted {
            self.pulse.accept(ended.begun_at, now);
            self.mute.remove(&ended.domain);
        } else if ended.is_mute(if ended.is_patient { LONGEST_MUTE } else { SHORT }, now) {
            self.mute.retain(|_, until| *until > now);
            if self.mute.len() < MOST_MUTE {
                self.mute.insert(ended.domain.clone(), now + MUTE);
            }
        }
    }

    fn begin_probe(&mut self) -> Ticket {
        let attempt = self.breaker.begin_asking();
        self.start(None, String::new(), attempt)
    }

    fn start(&mut self, key: Option<Key>, domain: String, attempt: breaker::Attempt) -> Ticket {
        self.begun += 1;
        self.has_moved = true;
        let on_its_way = OnItsWay {
            key,
            attempt,
            begun_at: Instant::now(),
            domain,
            in_envelope_since: None,
            is_patient: true,
            in_doubt_since: None,
            is_aside: false,
        };
        self.on_their_way.insert(self.begun, on_its_way);
        Ticket(self.begun)
    }

    /// Whether a failing provider is to be asked before it gets one of the mails that wait.
    fn has_to_probe(&self) -> bool {
        !self.waiting.is_empty() && self.breaker.is_to_be_asked(self.waiting.is_all_doubtful())
    }

    /// Takes a mail that may go out now.
    ///
    /// # Errors
    /// How long to wait for one, if that is known.
    fn take(&mut self, domains: &Domains, now: Instant) -> Result<Queued, Option<Duration>> {
        if self.waiting.is_empty() || !self.breaker.has_place() {
            return Err(None);
        }
        let wait = self.pace.as_ref().map_or(Duration::ZERO, |pace| pace.wait(0, now));
        if !wait.is_zero() {
            return Err(Some(wait));
        }
        let takes_doubtful = self.breaker.takes_doubtful(self.waiting.is_all_doubtful());
        let is_newest = self.breaker.takes_newest();
        // Mails about which the server may say nothing for long leave a place to others.
        let is_mute = |domain: &str| self.mute.get(domain).is_some_and(|until| now < *until);
        let mute = self
            .on_their_way
            .values()
            .filter(|attempt| attempt.in_doubt_since.is_none() && is_mute(&attempt.domain));
        let takes_mute = self.mute.is_empty() || mute.count() < self.most_mute;
        let may_go = |mail: &Queued| {
            (takes_doubtful || !mail.is_doubtful)
                && (takes_mute || !is_mute(&domain_of(&mail.sealed.to)))
        };
        let mail = self.waiting.pop(domains, &may_go, is_newest, now)?;
        if let Some(pace) = &mut self.pace {
            pace.take(now);
        }
        Ok(mail)
    }

    fn place_for(
        &self,
        mails: usize,
        has_other: bool,
        now: Instant,
    ) -> Result<(), Option<Duration>> {
        if let Some(left) = self.breaker.pause_left(now) {
            return Err(Some(left));
        }
        let is_trial = has_other && self.breaker.is_failing();
        if is_trial && (mails > 1 || !self.waiting.is_empty() || !self.breaker.takes_trial()) {
            return Err(None);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Receipt;

    fn lane(connections: usize) -> Lane {
        Lane::new(None, connections, Arc::default(), false)
    }

    fn mail(number: u128, is_doubtful: bool) -> Queued {
        let sealed = Sealed {
            key: Key::of_number(number),
            provider: "smtp".to_owned(),
            fixed_at: 0,
            envelope_sender: String::new(),
            to: "ada@x.test".to_owned(),
            payload: String::new(),
            other: None,
        };
        Queued {
            sealed: Arc::new(sealed),
            known: u32::from(is_doubtful),
            is_doubtful,
            returnable_since: Some(Instant::now()),
        }
    }

    fn begin(lane: &Lane, number: u128) -> Ticket {
        lane.push(mail(number, false)).unwrap();
        match lane.next(Duration::ZERO) {
            Job::Send(mail, ticket) if mail.sealed.key == Key::of_number(number) => ticket,
            other => panic!("{other:?} instead of mail {number}"),
        }
    }

    fn unavailable() -> Verdict {
        Verdict::Unavailable { after: None, reason: String::new() }
    }

    #[test]
    fn mails_that_wait_long_for_their_answers_lose_their_places_once_and_not_without_bound() {
        let (lane, start) = (lane(2), Instant::now());
        let tickets: Vec<_> = (0..9).map(|number| begin(&lane, number)).collect();
        for ticket in &tickets[..8] {
            lane.enter_doubt(*ticket, start);
        }
        let soon = start + Duration::from_secs(29);
        assert_eq!(lane.set_aside(soon), (0, 0));
        let later = start + Duration::from_secs(31);
        assert_eq!(lane.set_aside(later), (6, 6));
        assert_eq!(lane.set_aside(later), (6, 0));
        assert_eq!(lane.in_doubt().len(), 8);
        // The mail whose place was given away has no place any more, and the others go on.
        let sent = Verdict::Sent(Receipt::default());
        let places: Vec<_> =
            tickets.iter().map(|ticket| lane.finish(*ticket, &sent).has_place).collect();
        assert_eq!(places.iter().filter(|has_place| **has_place).count(), 3);
        assert!(lane.is_idle() && lane.in_doubt().is_empty());
        assert_eq!(lane.set_aside(later), (0, 0));
    }

    #[test]
    fn a_mail_in_doubt_is_never_what_shows_that_the_provider_works_again() {
        let lane = lane(4);
        let ticket = begin(&lane, 1);
        assert_eq!(lane.finish(ticket, &unavailable()).withdrawn.len(), 0);
        lane.push(mail(2, true)).unwrap();
        // Without a mail.
        let Job::Probe(ticket) = lane.next(Duration::ZERO) else { panic!("it is tried") };
        assert!(matches!(lane.next(Duration::ZERO), Job::Nothing));
        assert_eq!(lane.finish_probe(ticket, false).len(), 1);
        // Or with another one, which came later.
        lane.push(mail(2, true)).unwrap();
        let ticket = begin(&lane, 3);
        assert!(matches!(lane.next(Duration::ZERO), Job::Nothing));
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        let Job::Send(mail, _) = lane.next(Duration::ZERO) else { panic!("it is not sent") };
        assert_eq!(mail.sealed.key, Key::of_number(2));
    }

    fn overloaded(after: Option<u64>) -> Verdict {
        Verdict::Overloaded { after: after.map(Duration::from_secs), reason: String::new() }
    }

    /// Asks the provider without a mail. Returns how many mails are given back.
    fn ask(lane: &Lane, is_answered: bool) -> usize {
        let Job::Probe(ticket) = lane.next(Duration::ZERO) else { panic!("it is not asked") };
        assert!(matches!(lane.next(Duration::ZERO), Job::Nothing));
        lane.finish_probe(ticket, is_answered).len()
    }

    #[test]
    fn an_outage_that_leaves_mails_in_doubt_costs_only_those_that_were_on_their_way() {
        let lane = lane(2);
        let ticket = begin(&lane, 0);
        lane.finish(ticket, &overloaded(None));
        lane.push(mail(0, false)).unwrap();
        assert_eq!(ask(&lane, true), 0);
        let Job::Send(_, ticket) = lane.next(Duration::ZERO) else { panic!("it is not sent") };
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        let tickets = [begin(&lane, 1), begin(&lane, 2)];
        for number in 3..100 {
            lane.push(mail(number, false)).unwrap();
        }
        for ticket in tickets {
            assert!(lane.finish(ticket, &overloaded(None)).withdrawn.is_empty());
        }
        assert_eq!(ask(&lane, false), 97);
        for number in 3..100 {
            lane.push(mail(number, number % 2 > 0)).unwrap();
            assert_eq!(ask(&lane, false), 1);
        }
        // A pause that was asked for is granted at once.
        let other = self::lane(1);
        let ticket = begin(&other, 1);
        other.push(mail(2, false)).unwrap();
        assert_eq!(other.finish(ticket, &overloaded(Some(60))).withdrawn.len(), 1);
        assert!(matches!(other.push(mail(2, false)), Err(Refusal::Failing(Some(_)))));
    }

    #[test]
    fn a_mail_that_is_left_in_doubt_alone_holds_up_no_other() {
        let lane = lane(1);
        for number in 1..=6 {
            let ticket = begin(&lane, 2 * number);
            lane.push(mail(2 * number + 1, false)).unwrap();
            assert!(lane.finish(ticket, &overloaded(None)).withdrawn.is_empty());
            assert_eq!(ask(&lane, true), 0);
            let Job::Send(_, ticket) = lane.next(Duration::ZERO) else {
                panic!("the other is not sent")
            };
            lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        }
    }

    #[test]
    fn mails_in_doubt_wait_for_an_acceptance_where_the_provider_answers_well_only_without_a_mail() {
        let lane = lane(1);
        let ticket = begin(&lane, 1);
        lane.finish(ticket, &overloaded(None));
        lane.push(mail(1, true)).unwrap();
        lane.push(mail(2, false)).unwrap();
        ask(&lane, true);
        let Job::Send(fresh, ticket) = lane.next(Duration::ZERO) else { panic!("none is sent") };
        assert_eq!(fresh.sealed.key, Key::of_number(2));
        let withdrawn = lane.finish(ticket, &overloaded(None)).withdrawn;
        assert!(withdrawn.iter().all(|mail| mail.is_doubtful) && withdrawn.len() == 1);
        for number in [1, 2] {
            assert!(matches!(lane.push(mail(number, true)), Err(Refusal::Unproven(_))));
        }
        lane.push(mail(3, false)).unwrap();
        ask(&lane, true);
        let Job::Send(_, ticket) = lane.next(Duration::ZERO) else { panic!("none is sent") };
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        lane.push(mail(1, true)).unwrap();
        assert!(matches!(lane.next(Duration::ZERO), Job::Send(..)));
    }

    #[test]
    fn mails_that_are_left_in_doubt_do_not_stand_before_one_that_came_later_or_sooner() {
        for place in [0, 59] {
            let lane = lane(1);
            let ticket = begin(&lane, 100);
            lane.finish(ticket, &overloaded(None));
            for number in 0..60 {
                lane.push(mail(number, false)).unwrap();
            }
            for trial in 0.. {
                assert_eq!(ask(&lane, true), 0);
                let Job::Send(mail, ticket) = lane.next(Duration::ZERO) else { panic!("no trial") };
                if mail.sealed.key == Key::of_number(place) {
                    break;
                }
                assert!(trial < 2, "the others come first");
                assert!(lane.finish(ticket, &overloaded(None)).withdrawn.is_empty());
            }
        }
    }

    #[test]
    fn recipients_about_whom_a_server_says_nothing_leave_places_to_others() {
        let to = |number, to: &str| {
            let mut mail = mail(number, false);
            Arc::get_mut(&mut mail.sealed).unwrap().to = to.to_owned();
            mail
        };
        let sent = |lane: &Lane| match lane.next(Duration::ZERO) {
            Job::Send(mail, ticket) => Some((mail.sealed.to.clone(), ticket)),
            _ => None,
        };
        let (lane, start) = (lane(3), Instant::now());
        for number in 0..9 {
            lane.push(to(number, "a@dead.test")).unwrap();
        }
        lane.push(to(9, "ada@x.test")).unwrap();
        let tickets = [(); 3].map(|()| sent(&lane).unwrap().1);
        for ticket in tickets {
            lane.enter_envelope(ticket, start);
        }
        assert_eq!(lane.set_aside(start + Duration::from_secs(3)), (0, 0));
        // None of them is one whose content has no answer.
        assert_eq!(lane.set_aside(start + Duration::from_secs(5)), (0, 3));
        let (next, good) = sent(&lane).unwrap();
        assert_eq!(next, "ada@x.test");
        lane.finish(good, &Verdict::Sent(Receipt::default()));
        assert!(sent(&lane).is_none());
        // Later, too, a place is left.
        for ticket in tickets {
            lane.finish(ticket, &Verdict::dead("", About::Unplaced));
        }
        let again = [(); 2].map(|()| sent(&lane).unwrap());
        assert!(again.iter().all(|(to, _)| to == "a@dead.test") && sent(&lane).is_none());
        lane.push(to(10, "ada@x.test")).unwrap();
        assert_eq!(sent(&lane).unwrap().0, "ada@x.test");
        // Until the server accepts a mail to one of them.
        lane.finish(again[0].1, &Verdict::Sent(Receipt::default()));
        assert!(sent(&lane).is_some() && sent(&lane).is_some());
    }

    /// Mails to recipients of domains of their own begin and are asked about.
    fn ask_about(
        lane: &Lane,
        numbers: std::ops::Range<u128>,
        now: Instant,
    ) -> Vec<Option<Duration>> {
        let ask = |number| {
            let mut mail = mail(number, false);
            Arc::get_mut(&mut mail.sealed).unwrap().to = format!("a@{number}.test");
            lane.push(mail).unwrap();
            let Job::Send(_, ticket) = lane.next(Duration::ZERO) else { panic!("no place") };
            lane.enter_envelope(ticket, now)
        };
        numbers.map(ask).collect()
    }

    #[test]
    fn a_server_that_answers_others_at_once_is_not_waited_for_long_about_many_recipients() {
        for is_quick in [false, true] {
            let (lane, start) = (lane(2), Instant::now());
            if is_quick {
                let ticket = begin(&lane, 0);
                lane.finish(ticket, &Verdict::Sent(Receipt::default()));
            }
            let limit = is_quick.then_some(SHORT);
            assert_eq!(ask_about(&lane, 1..4, start), [None, None, limit]);
            let soon = start + SHORT;
            assert_eq!(lane.set_aside(soon), (0, if is_quick { 2 } else { 0 }));
            assert_eq!(lane.set_aside(start + LONGEST_MUTE), (0, if is_quick { 0 } else { 2 }));
            // The third one ends by itself.
            assert_eq!(lane.waiting_for_answers(soon).len(), 3);
        }
    }

    #[test]
    fn contents_without_an_answer_leave_places_to_others_soon_where_these_are_answered_at_once() {
        let lane = lane(1);
        let ticket = begin(&lane, 0);
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        let start = Instant::now();
        let doubt = |number| lane.enter_doubt(begin(&lane, number), start);
        assert_eq!([1, 2, 3].map(doubt), [None; 3]);
        assert_eq!(lane.set_aside(start + SHORT), (0, 3));
        // As many wait as may: few more, unless a mail was accepted at once meanwhile.
        assert_eq!([4, 5].map(doubt), [Some(SHORT_FINAL), None]);
        let ticket = begin(&lane, 6);
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        assert_eq!([7, 8].map(doubt), [Some(SHORT_FINAL); 2]);
    }

    #[test]
    fn mails_behind_such_that_wait_for_answers_are_given_back_but_for_the_next_ones() {
        let (lane, start) = (lane(2), Instant::now());
        ask_about(&lane, 0..2, start);
        for number in 2..7 {
            lane.push(mail(number, false)).unwrap();
        }
        let later = Instant::now() + LONGEST_QUEUE;
        assert!(lane.give_way(start).is_empty());
        let numbers: Vec<_> =
            lane.give_way(later).iter().map(|mail| mail.sealed.key.number()).collect();
        assert_eq!(numbers, [4, 5, 6]);
        assert!(lane.give_way(later).is_empty());
        // A place that is free is enough.
        let lane = self::lane(3);
        ask_about(&lane, 0..2, start);
        for number in 2..9 {
            lane.push(mail(number, false)).unwrap();
        }
        assert!(lane.give_way(later).is_empty());
    }

    #[test]
    fn a_lane_moves_while_something_waits_for_an_answer_or_goes_on() {
        let lane = lane(1);
        assert!(!lane.is_moving());
        let ticket = begin(&lane, 1);
        assert!(lane.is_moving() && !lane.is_moving());
        lane.enter_doubt(ticket, Instant::now());
        assert!(lane.is_moving() && lane.is_moving());
        lane.finish(ticket, &unavailable());
        assert!(lane.is_moving() && !lane.is_moving());
    }
}
