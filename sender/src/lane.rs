//! The mails that wait for a provider, shared by the threads that send by it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::breaker::{Attempt, Breaker};
use crate::provider::{Sealed, Verdict};

/// A queue of mails, first in, first out.
#[derive(Debug)]
pub(crate) struct Lane {
    state: Mutex<State>,
    changed: Condvar,
    has_other: bool,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Arc<Sealed>>,
    breaker: Breaker,
    is_closed: bool,
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
    pub(crate) fn new(has_other: bool) -> Self {
        let state = State { waiting: VecDeque::new(), breaker: Breaker::new(has_other), is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), has_other }
    }

    /// Whether mails would be taken; if not, after which time again, where that is known. Where there is another provider, one that fails takes a single
    /// mail.
    ///
    /// # Errors
    /// The time.
    pub(crate) fn place_for(&self, mails: usize) -> Result<(), Option<Duration>> {
        self.lock().place_for(mails, self.has_other)
    }

    /// Adds a mail.
    ///
    /// # Errors
    /// None was taken, as [`place_for`](Self::place_for) says.
    pub(crate) fn push(&self, sealed: &Arc<Sealed>) -> Result<(), Option<Duration>> {
        let mut state = self.lock();
        state.place_for(1, self.has_other)?;
        state.waiting.push_back(Arc::clone(sealed));
        self.changed.notify_one();
        Ok(())
    }

    /// Takes the next mail, or waits for one.
    pub(crate) fn next(&self, patience: Duration) -> Job {
        let is_idle =
            |state: &mut State| (state.waiting.is_empty() || !state.breaker.has_place()) && !state.is_closed;
        let waited = self.changed.wait_timeout_while(self.lock(), patience, is_idle);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Job::Nothing;
        }
        match state.waiting.pop_front() {
            Some(sealed) => Job::Send(sealed, state.breaker.begin()),
            None if state.is_closed => Job::End,
            None => Job::Nothing,
        }
    }

    /// Ends an attempt. Returns the mails that nobody has begun to send and that must not wait any longer for this provider.
    pub(crate) fn finish(&self, attempt: Attempt, verdict: &Verdict) -> Vec<Arc<Sealed>> {
        let mut state = self.lock();
        state.breaker.end(attempt, verdict, Instant::now());
        self.changed.notify_all();
        let is_over = match verdict {
            Verdict::Unavailable { .. } | Verdict::Overloaded { .. } => true,
            Verdict::Unanswered { .. } => self.has_other,
            Verdict::Sent | Verdict::Dead(_) | Verdict::Retry { .. } => false,
        };
        if is_over { state.waiting.drain(..).collect() } else { Vec::new() }
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
        state.waiting.drain(..).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn place_for(&self, mails: usize, has_other: bool) -> Result<(), Option<Duration>> {
        if let Some(left) = self.breaker.pause_left(Instant::now()) {
            return Err(Some(left));
        }
        let is_trial = has_other && self.breaker.is_failing();
        if is_trial && (mails > 1 || !self.waiting.is_empty() || !self.breaker.has_place()) {
            return Err(None);
        }
        Ok(())
    }
}
