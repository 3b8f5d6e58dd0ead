//! The mails that wait for a provider and those on their way to it,
//! shared by the threads that send by it.

mod answers;
mod aside;
mod crowd;
mod doubtful;
mod figures;
mod mute;
mod news;
mod on_its_way;
mod order;
mod patience;
mod share;
mod slow_domains;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mailroom_mail::address::domain_of;

use crate::breaker::{self, Breaker};
use crate::guard::Guard;
use crate::key::Key;
use crate::provider::{About, Verdict};
use crate::queue::{Queue, Queued};
use crate::rate::{Domains, MAX_WAIT, Pace, Rate};
pub(crate) use figures::Figures;
use mute::Mute;
pub(crate) use news::Sentences;
use on_its_way::OnItsWay;
use order::Order;
use patience::Pulse;
use share::Share;

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
    /// How many mails that were in doubt before may be on their way at once. They may all wait
    /// without a place, and are waited for as long as it takes.
    most_doubtful: usize,
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
    mute: Mute,
    order: Order,
    share: Share,
    pulse: Pulse,
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
    /// Others to domains over which the server takes its time have the places.
    Mute(Duration),
    /// Mails that take long have the places, and as many wait as may.
    Behind(Duration),
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
            mute: Mute::new(connections),
            order: Order::default(),
            share: Share::default(),
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
            most_doubtful: connections.max(2),
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
        if let Some(pause) = state.pause_of_mute(&mail, now) {
            return Err(Refusal::Mute(pause));
        }
        if let Some(pause) = state.pause_in_crowd(&mail, self.connections, now) {
            return Err(Refusal::Behind(pause));
        }
        if let Some(pause) = state.pause_of_doubtful(&mail, self.most_doubtful, now) {
            return Err(Refusal::Behind(pause));
        }
        let domain = self.domains.limited(&mail.prepared.to);
        if let Some(domain) = &domain {
            let wait = self.domains.wait(domain, state.waiting.len_of(domain), now);
            if wait > MAX_WAIT {
                return Err(Refusal::DomainRate(wait));
            }
        }
        if let Some(pace) = state.pace.as_ref().filter(|pace| pace.is_rare()) {
            let wait = pace.wait(state.waiting.len(), now);
            if wait > MAX_WAIT {
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
            let wait = match state.take(&self.domains, self.most_doubtful, now) {
                Ok(mail) => {
                    // This thread waited for the turn of the next one, too,
                    // perhaps as the only one.
                    if !state.waiting.is_empty() {
                        self.changed.notify_one();
                    }
                    let ticket = state.begin(&mail);
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

    /// The verdict on a mail to this recipient, in the light of the earlier ones; and what it says
    /// of the provider, with which the attempt is to be ended.
    pub(crate) fn weigh(
        &self,
        ticket: Ticket,
        recipient: &str,
        answer: Verdict,
    ) -> (Verdict, Verdict) {
        let now = Instant::now();
        // Whom we did not wait for says nothing of the provider.
        if matches!(answer, Verdict::InDoubt { .. }) && self.is_left(ticket, now) {
            let of_provider = Verdict::Postponed { after: None, reason: String::new() };
            return (answer, of_provider);
        }
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = guard.weigh(recipient, answer, now);
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
            Verdict::Sent(_)
            | Verdict::Dead(_)
            | Verdict::Retry { .. }
            | Verdict::Postponed { .. } => false,
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

    /// What is to be said of domains over which the server takes its time.
    pub(crate) fn news(&self, now: Instant) -> Option<Sentences> {
        self.lock().mute.news.take(now)
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

impl State {
    fn begin(&mut self, mail: &Queued) -> Ticket {
        let attempt = self.breaker.begin();
        self.start(Some(mail), attempt)
    }

    fn begin_probe(&mut self) -> Ticket {
        let attempt = self.breaker.begin_asking();
        self.start(None, attempt)
    }

    fn start(&mut self, mail: Option<&Queued>, attempt: breaker::Attempt) -> Ticket {
        self.begun += 1;
        self.has_moved = true;
        let on_its_way = OnItsWay::begin(mail, attempt);
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
    fn take(
        &mut self,
        domains: &Domains,
        most_doubtful: usize,
        now: Instant,
    ) -> Result<Queued, Option<Duration>> {
        if self.waiting.is_empty() || !self.breaker.has_place() {
            return Err(None);
        }
        let wait = self.pace.as_ref().map_or(Duration::ZERO, |pace| pace.wait(0, now));
        if !wait.is_zero() {
            return Err(Some(wait));
        }
        let takes_doubtful = self.breaker.takes_doubtful(self.waiting.is_all_doubtful());
        let room = self.room_for_doubtful(most_doubtful, now);
        let is_newest = self.breaker.takes_newest();
        // Mails about which the server may say nothing for long leave a place to others.
        let takes_mute = self.mute.is_empty() || self.mute_on_their_way(now) < self.mute.most;
        let may_go = |mail: &Queued| {
            (!mail.is_doubtful || takes_doubtful && room.is_for(mail, &self.mute, now))
                && (takes_mute || !self.mute.has(&domain_of(&mail.prepared.to), now))
        };
        let is_turn_of_preferred = self.order.is_turn_of_preferred();
        let is_other = |mail: &Queued| may_go(mail) && self.order.is_beside_crowd(mail);
        let is_quick = |mail: &Queued| may_go(mail) && self.order.is_to_quick(mail, now);
        let is_preferred = |mail: &Queued| may_go(mail) && self.order.prefers(mail, now);
        let is_newest_first = is_newest || self.order.is_crowded();
        let first: [&dyn Fn(&Queued) -> bool; 3] = [&is_other, &is_quick, &is_preferred];
        let first = first
            .into_iter()
            .zip([is_newest, is_newest, is_newest_first])
            .filter(|_| is_turn_of_preferred)
            .find_map(|(is_first, newest)| self.waiting.pop(domains, is_first, newest, now).ok());
        let mail = match first {
            Some(mail) => mail,
            None => self.waiting.pop(domains, &may_go, is_newest, now)?,
        };
        self.order.take(&mail);
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
mod tests;
