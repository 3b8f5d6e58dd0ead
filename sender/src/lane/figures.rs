//! How long a queue is and how its provider does, for metrics.

use std::sync::PoisonError;

use super::Lane;
use crate::breaker::HEALTHS;

/// What is so at the moment.
#[derive(Debug)]
pub(crate) struct Figures {
    /// Mails that nobody has begun to send.
    pub(crate) waiting: usize,
    /// Mails whose content has not gone out yet.
    pub(crate) under_way: usize,
    /// Mails whose content has gone out, without an answer.
    pub(crate) unanswered: usize,
    /// What the breaker can say, and which of it is so.
    pub(crate) health: [(&'static str, bool); HEALTHS],
    /// How many reasons of refusals the guard watches.
    pub(crate) watched: usize,
    /// How many of them seem to be our own fault.
    pub(crate) open: usize,
}

impl Lane {
    pub(crate) fn figures(&self) -> Figures {
        let (watched, open) = {
            let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
            guard.reasons()
        };
        let state = self.lock();
        let mails = state.on_their_way.values().filter(|attempt| attempt.key.is_some());
        let (unanswered, under_way): (Vec<_>, Vec<_>) =
            mails.partition(|attempt| attempt.in_doubt_since.is_some());
        Figures {
            waiting: state.waiting.len(),
            under_way: under_way.len(),
            unanswered: unanswered.len(),
            health: state.breaker.healths(),
            watched,
            open,
        }
    }
}
