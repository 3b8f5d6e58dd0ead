//! Whether the sender can send at all: a circuit breaker.
//!
//! - Closed: it sends.
//! - Open: it is unavailable; nothing is claimed until a pause is over. Pauses double, with jitter, up to a bound.
//! - Half-open: a single batch is on trial. `ok` or `dead` for one of its tokens closes the circuit; otherwise it opens again.
//!
//! It opens because the sender says `unavailable`, or by a guess, for senders that know only `retry`: three different tokens in
//! separate batches were refused, and nothing else was said in between. A guess can be wrong, where mails of a few accounts are
//! refused and there are no others. So its pauses are short, and whatever was refused on trial comes back behind the others.
//!
//! Pure policy: the caller passes the times in.

use std::time::{Duration, Instant};

use super::answer::{Answer, Sent};
use crate::backoff::{Backoff, random_part};

/// The longest pause after the sender has said that it is unavailable, and after a guess.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_GUESS: Duration = Duration::from_secs(5);

/// The longest pause that the sender itself can ask for; a longer one is this long.
const LONGEST_WISH: Duration = Duration::from_secs(60);

/// How many tokens must be refused for the guess.
const REFUSALS: usize = 3;

/// How long a token waits that was refused while the guess stands: longer than the pause before the next trial, which is then
/// of another token.
const ROTATION: Duration = Duration::from_millis(7_500);

/// The availability of a sender.
#[derive(Debug)]
pub(super) struct Circuit {
    state: State,
    /// The growing pauses for what the sender says, and for guesses.
    said: Backoff,
    guessed: Backoff,
    /// While it is closed: tokens that were refused since the last other verdict, each with its batch.
    refused: Vec<(u128, i64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    Open { until: Instant, cause: Cause },
    HalfOpen { cause: Cause },
}

/// Why the circuit is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The sender says that it is unavailable.
    Said,
    /// It refuses everything.
    Guessed,
}

/// What an answer says of the availability.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    batch: u128,
    /// Whether a token was sent, or never will be, which only a sender finds out that is available.
    is_verdict: bool,
    /// Tokens that were refused for now; no more than can be of interest.
    refused: Vec<i64>,
    /// Whether the sender says that it is unavailable, and for how long at least.
    is_unavailable: bool,
    wish: Duration,
}

/// What becomes of the tokens of a batch that were not sent, by the state after its last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusals {
    /// As the sender says.
    OfTokens,
    /// They are those of the whole sender: the tokens wait at least this long, and it was no failure of theirs.
    OfSender(Duration),
}

impl Evidence {
    pub(super) fn of(answer: &Answer) -> Self {
        let is_sent = match &answer.ok {
            Sent::Ids(ids) => !ids.is_empty(),
            Sent::All => answer.unavailable.is_none(),
        };
        Self {
            batch: answer.batch.0,
            is_verdict: is_sent || !answer.dead.is_empty(),
            refused: answer.retry.iter().map(|(id, ..)| *id).take(REFUSALS).collect(),
            is_unavailable: answer.unavailable.is_some(),
            wish: answer.unavailable.as_ref().and_then(|unavailable| unavailable.after).unwrap_or_default(),
        }
    }
}

impl Circuit {
    /// Closed, with nothing known.
    pub(super) fn new() -> Self {
        Self {
            state: State::Closed,
            said: Backoff::up_to(LONGEST_PAUSE),
            guessed: Backoff::up_to(LONGEST_GUESS),
            refused: Vec::new(),
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// When a batch may go on trial.
    pub(super) fn due_at(&self) -> Option<Instant> {
        match self.state {
            State::Open { until, .. } => Some(until),
            State::Closed | State::HalfOpen { .. } => None,
        }
    }

    /// Lets a batch go on trial if the pause is over; answers whether that is news.
    pub(super) fn half_open(&mut self, now: Instant) -> bool {
        match self.state {
            State::Open { until, cause } if until <= now => {
                self.state = State::HalfOpen { cause };
                true
            }
            _ => false,
        }
    }

    /// The sender has said something new; answers whether it opened the circuit, or closed it.
    pub(super) fn heard(&mut self, evidence: &Evidence, now: Instant) -> bool {
        let before = self.state;
        if evidence.is_unavailable {
            // A trial that got something out is no failed one: a limit of mails a second must not lead to the longest pauses.
            if evidence.is_verdict && matches!(self.state, State::HalfOpen { .. }) {
                self.said.reset();
            }
            self.unavailable(evidence.wish, now);
        } else if evidence.is_verdict {
            self.refused.clear();
            // What was on its way when the sender said that it is unavailable does not prove the contrary.
            if !matches!(self.state, State::Open { cause: Cause::Said, .. }) {
                self.close();
            }
        } else if !evidence.refused.is_empty() {
            self.refused(evidence, now);
        }
        (before == State::Closed) != (self.state == State::Closed)
    }

    /// What a refusal in a batch that was just answered in full counts for.
    pub(super) fn refusals(&self) -> Refusals {
        match self.state {
            State::Open { cause: Cause::Guessed, .. } | State::HalfOpen { cause: Cause::Guessed } => {
                Refusals::OfSender(ROTATION)
            }
            _ => Refusals::OfTokens,
        }
    }

    fn unavailable(&mut self, wish: Duration, now: Instant) {
        let wish = wish.min(LONGEST_WISH);
        let wished = wish + random_part(wish / 4);
        let until = match self.state {
            // One of the batches that were on their way: the outage is no longer for that.
            State::Open { until, cause: Cause::Said } => until.max(now + wished),
            _ => now + self.said.pause().max(wished),
        };
        self.refused.clear();
        self.state = State::Open { until, cause: Cause::Said };
    }

    fn refused(&mut self, evidence: &Evidence, now: Instant) {
        // A sender that has said `unavailable` and now refuses single tokens is available.
        if matches!(self.state, State::HalfOpen { cause: Cause::Said }) {
            self.close();
        }
        match self.state {
            State::Closed => {
                let is_new = |id: &&i64| self.refused.iter().all(|(_, other)| other != *id);
                if self.refused.iter().all(|(batch, _)| *batch != evidence.batch)
                    && let Some(id) = evidence.refused.iter().find(is_new)
                {
                    self.refused.push((evidence.batch, *id));
                }
                if self.refused.len() < REFUSALS {
                    return;
                }
            }
            State::HalfOpen { .. } => {}
            State::Open { .. } => return,
        }
        self.refused.clear();
        self.state = State::Open { until: now + self.guessed.pause(), cause: Cause::Guessed };
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.said.reset();
        self.guessed.reset();
    }
}

#[cfg(test)]
mod tests;
