//! When the login is tried: servers lock accounts, and block addresses, over a password that is
//! wrong again and again.
//!
//! After a clear refusal nothing is tried for a minute, doubling up to ten. Until a login has
//! succeeded, one connection tries it, and the others wait for what comes of it. Nothing of this
//! outlives the process: a restart, as after a change of the configuration, tries at once.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::auth::Failure;

const FIRST_PAUSE: Duration = Duration::from_secs(60);
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// Lets connections to a server log in.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the last login that ended succeeded.
    is_proven: bool,
    /// Whether one is tried now that has to prove it.
    is_tried: bool,
    refused: Option<Refused>,
}

#[derive(Clone, Debug)]
struct Refused {
    reason: String,
    until: Instant,
    pause: Duration,
}

/// What follows from a login that ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The server refuses what it did not refuse before.
    Refused,
    /// It takes what it refused before.
    Accepted,
    Nothing,
}

/// A login that is not tried.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// The server has refused it for this reason, and is left alone for this time.
    Refused(String, Duration),
    /// Another connection tries it and gets no answer.
    Late,
}

/// A login that is tried.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    gate: &'a Gate,
    /// Whether others wait for what comes of it.
    is_first: bool,
}

impl Gate {
    /// Whether the login may be tried at all; before a connection is opened for it.
    ///
    /// # Errors
    /// The server has refused it.
    pub(super) fn check(&self, now: Instant) -> Result<(), Closed> {
        self.lock().check(now)
    }

    /// Waits for the turn of a login.
    ///
    /// # Errors
    /// Why it is not tried.
    pub(super) fn enter(&self, deadline: Instant) -> Result<Pass<'_>, Closed> {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            state.check(now)?;
            if state.is_proven || !state.is_tried {
                let is_first = !state.is_proven;
                state.is_tried |= is_first;
                return Ok(Pass { gate: self, is_first });
            }
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() {
                return Err(Closed::Late);
            }
            (state, _) =
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check(&self, now: Instant) -> Result<(), Closed> {
        let refused = self.refused.as_ref().filter(|refused| now < refused.until);
        refused.map_or(Ok(()), |refused| {
            let left = refused.until.saturating_duration_since(now);
            Err(Closed::Refused(refused.reason.clone(), left))
        })
    }

    fn end(&mut self, outcome: &Result<(), Failure>, now: Instant) -> Change {
        let before = self.refused.as_ref();
        match outcome {
            Ok(()) => {
                self.is_proven = true;
                if self.refused.take().is_some() { Change::Accepted } else { Change::Nothing }
            }
            Err(failure) if failure.is_of_credentials => {
                self.is_proven = false;
                // Several that were on their way are one refusal.
                if self.check(now).is_err() {
                    return Change::Nothing;
                }
                let change = if before.is_none() { Change::Refused } else { Change::Nothing };
                let doubled = |refused: &Refused| (refused.pause * 2).min(MAX_PAUSE);
                let pause = before.map_or(FIRST_PAUSE, doubled);
                let reason = failure.reason.clone();
                self.refused = Some(Refused { reason, until: now + pause, pause });
                change
            }
            Err(_) => Change::Nothing,
        }
    }
}

impl Pass<'_> {
    /// The login has ended.
    pub(super) fn end(self, outcome: &Result<(), Failure>, now: Instant) -> Change {
        self.gate.lock().end(outcome, now)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_first {
            self.gate.lock().is_tried = false;
        }
        self.gate.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn refused() -> Result<(), Failure> {
        Err(Failure { reason: "535 no".to_owned(), is_of_credentials: true })
    }

    fn lost() -> Result<(), Failure> {
        Err(Failure { reason: "454 later".to_owned(), is_of_credentials: false })
    }

    #[test]
    fn a_login_that_is_refused_is_tried_after_a_minute_and_then_more_and_more_seldom() {
        let start = Instant::now();
        let mut state = State::default();
        let mut at = start;
        for (number, pause) in [60, 120, 240, 480, 600, 600].into_iter().enumerate() {
            let expected = if number == 0 { Change::Refused } else { Change::Nothing };
            assert_eq!(state.end(&refused(), at), expected);
            // One that was on its way.
            assert_eq!(state.end(&refused(), at + Duration::from_secs(59)), Change::Nothing);
            let pause = Duration::from_secs(pause);
            assert_eq!(state.check(at), Err(Closed::Refused("535 no".to_owned(), pause)));
            at += pause;
            assert_eq!(state.check(at), Ok(()));
        }
        assert_eq!(state.end(&lost(), at), Change::Nothing);
        assert_eq!(state.check(at), Ok(()));
        assert_eq!(state.end(&Ok(()), at), Change::Accepted);
        assert_eq!(state.end(&Ok(()), at), Change::Nothing);
        assert_eq!(state.end(&refused(), at), Change::Refused);
        assert!(matches!(state.check(at), Err(Closed::Refused(_, FIRST_PAUSE))));
    }

    #[test]
    fn until_a_login_has_succeeded_one_connection_tries_it() {
        let (gate, patience) = (Gate::default(), Duration::from_secs(60));
        for outcome in [lost(), refused()] {
            let first = gate.enter(Instant::now() + patience).unwrap();
            assert_eq!(gate.enter(Instant::now()).unwrap_err(), Closed::Late);
            let is_refused = outcome == refused();
            thread::scope(|scope| {
                let second = scope.spawn(|| gate.enter(Instant::now() + patience).map(drop));
                first.end(&outcome, Instant::now());
                assert_eq!(second.join().unwrap().is_err(), is_refused);
            });
        }
        let gate = Gate::default();
        gate.enter(Instant::now()).unwrap().end(&Ok(()), Instant::now());
        let _first = gate.enter(Instant::now()).unwrap();
        gate.enter(Instant::now()).unwrap();
    }
}
