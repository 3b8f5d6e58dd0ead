//! The mails that wait for a connection, shared by the threads that send.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::provider::Sealed;

/// A queue of mails, first in, first out.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Arc<Sealed>>,
    is_closed: bool,
}

/// What a thread has to do next.
#[derive(Debug)]
pub(crate) enum Job {
    /// Send this.
    Send(Arc<Sealed>),
    /// Nothing has come for some time.
    Nothing,
    /// Nothing will come any more.
    End,
}

impl Jobs {
    /// Adds a mail.
    pub(crate) fn push(&self, sealed: Arc<Sealed>) {
        self.lock().waiting.push_back(sealed);
        self.changed.notify_one();
    }

    /// Takes the next mail, or waits for one.
    pub(crate) fn next(&self, patience: Duration) -> Job {
        let is_idle = |state: &mut State| state.waiting.is_empty() && !state.is_closed;
        let waited = self.changed.wait_timeout_while(self.lock(), patience, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.waiting.pop_front() {
            Some(sealed) => Job::Send(sealed),
            None if state.is_closed => Job::End,
            None => Job::Nothing,
        }
    }

    /// Takes all that nobody has begun to send.
    pub(crate) fn withdraw(&self) -> Vec<Arc<Sealed>> {
        self.lock().waiting.drain(..).collect()
    }

    /// Lets every thread end once nothing waits.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
