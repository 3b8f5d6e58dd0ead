//! The mails that wait for a provider, shared by the threads that send by it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::breaker::{Attempt, Breaker};
use crate::guard::Guard;
use crate::provider::{About, Sealed, Verdict};
use crate::queue::Queue;
use crate::rate::{Domains, LONGEST_WAIT, Pace, Rate};

/// The queue of a provider, with its limits.
#[derive(Debug)]
pub(crate) struct Lane {
    state: Mutex<State>,
    changed: Condvar,
    guard: Mutex<Guard>,
    domains: Arc<Domains>,
    has_other: bool,
}

#[derive(Debug)]
struct State {
    waiting: Queue,
    pace: Option<Pace>,
    breaker: Breaker,
    is_closed: bool,
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
}

/// What a thread has to do next.
#[derive(Debug)]
pub(crate) enum Job {
    /// Send this.
    Send(Arc<Sealed>, Attempt),
    /// Nothing has come for some time.
    Nothing,
    /// Nothing will come any more.
    End,
}

impl Lane {
    /// A queue of no mails, beside that of another provider or alone.
    pub(crate) fn new(rate: Option<Rate>, domains: Arc<Domains>, has_other: bool) -> Self {
        let (waiting, breaker, pace) = (Queue::default(), Breaker::new(has_other), rate.map(Pace::new));
        let state = State { waiting, pace, breaker, is_closed: false };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            guard: Mutex::default(),
            domains,
            has_other,
        }
    }

    /// Whether the provider's health allows for so many mails; if not, after which time again, where that is known. Where there is
    /// another provider, one that fails takes a single mail.
    ///
    /// # Errors
    /// The time.
    pub(crate) fn place_for(&self, mails: usize) -> Result<(), Option<Duration>> {
        self.lock().place_for(mails, self.has_other, Instant::now())
    }

    /// Adds a mail.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn push(&self, sealed: &Arc<Sealed>) -> Result<(), Refusal> {
        let (mut state, now) = (self.lock(), Instant::now());
        state.place_for(1, self.has_other, now).map_err(Refusal::Failing)?;
        let domain = self.domains.limited(&sealed.to);
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
        state.waiting.push(Arc::clone(sealed), domain);
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
            let wait = match state.take(&self.domains, now) {
                Ok(sealed) => {
                    // This thread waited for the turn of the next one, too, perhaps as the only one.
                    if !state.waiting.is_empty() {
                        self.changed.notify_one();
                    }
                    return Job::Send(sealed, state.breaker.begin());
                }
                Err(wait) => wait.unwrap_or(patience).min(end.saturating_duration_since(now)),
            };
            if wait.is_zero() {
                return Job::Nothing;
            }
            (state, _) = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The verdict on a mail to this recipient, in the light of the earlier ones; and what it says of the
    /// provider, with which the attempt is to be ended.
    pub(crate) fn weigh(&self, recipient: &str, answer: Verdict) -> (Verdict, Verdict) {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = guard.weigh(recipient, answer, Instant::now());
        // Whose fault a refusal is was decided: one of a mail alone slows no other down.
        let is_of_mail = matches!(verdict, Verdict::Retry { .. });
        let of_provider = if is_of_mail { Verdict::dead("", About::Unplaced) } else { verdict.clone() };
        (verdict, of_provider)
    }

    /// Ends an attempt. Returns the mails that nobody has begun to send and that must not wait any longer for this provider.
    pub(crate) fn finish(&self, attempt: Attempt, verdict: &Verdict) -> Vec<Arc<Sealed>> {
        let mut state = self.lock();
        // Wakes no thread: the caller comes for the next mail, and wakes another one if there are more.
        state.breaker.end(attempt, verdict, Instant::now());
        let is_over = match verdict {
            Verdict::Unavailable { .. } | Verdict::Overloaded { .. } => true,
            Verdict::InDoubt { .. } => self.has_other,
            Verdict::Sent(_) | Verdict::Dead(_) | Verdict::Retry { .. } => false,
        };
        if is_over { state.waiting.drain() } else { Vec::new() }
    }

    /// Whether the provider did not fail, as far as anybody knows.
    pub(crate) fn is_working(&self) -> bool {
        !self.lock().breaker.is_failing()
    }

    /// Lets every thread end, and returns the mails that nobody has begun to send.
    pub(crate) fn close(&self) -> Vec<Arc<Sealed>> {
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
    /// Takes a mail that may go out now.
    ///
    /// # Errors
    /// How long to wait for one, if that is known.
    fn take(&mut self, domains: &Domains, now: Instant) -> Result<Arc<Sealed>, Option<Duration>> {
        if self.waiting.is_empty() || !self.breaker.has_place() {
            return Err(None);
        }
        let wait = self.pace.as_ref().map_or(Duration::ZERO, |pace| pace.wait(0, now));
        if !wait.is_zero() {
            return Err(Some(wait));
        }
        let sealed = self.waiting.pop(domains, now)?;
        if let Some(pace) = &mut self.pace {
            pace.take(now);
        }
        Ok(sealed)
    }

    fn place_for(&self, mails: usize, has_other: bool, now: Instant) -> Result<(), Option<Duration>> {
        if let Some(left) = self.breaker.pause_left(now) {
            return Err(Some(left));
        }
        let is_trial = has_other && self.breaker.is_failing();
        if is_trial && (mails > 1 || !self.waiting.is_empty() || !self.breaker.has_place()) {
            return Err(None);
        }
        Ok(())
    }
}
