//! Whether the sender can send at all: a circuit breaker (docs/reference/sender-protocol.md,
//! "Outages"). The caller passes the times in.

use std::time::{Duration, Instant};

use super::protocol::Answer;
use crate::queue::BatchId;
use mailroom_pace::{Backoff, random_part};

/// The longest pauses: after `unavailable`, and after the guess that a sender which refuses
/// everything is unavailable.
const MAX_PAUSE: Duration = Duration::from_secs(5);
const MAX_GUESS: Duration = Duration::from_secs(5);

/// The longest pause that the sender itself can ask for; a longer one is this long.
const MAX_REQUESTED: Duration = Duration::from_secs(60);

const REFUSALS: usize = 3;

/// How long a token waits that was refused while the guess stands:
/// longer than the pause before the next trial.
pub(super) const ROTATION: Duration = Duration::from_millis(7_500);

/// The availability of a sender. It outlives the process:
/// what is unavailable is a server behind it.
pub(super) struct Circuit {
    pub(super) state: CircuitState,
    /// Whether it is open or half-open because of a guess. A refusal in a batch that was just
    /// answered in full is then blamed on the whole sender, not on the token, which waits for
    /// [`ROTATION`] at least.
    pub(super) is_guess: bool,
    pauses: Backoff,
    guess_pauses: Backoff,
    /// While the circuit is closed: refused tokens since the last verdict of another kind, at most
    /// one of each batch.
    refused: Vec<(BatchId, i64)>,
    /// Whether a trial of a batch failed as a whole: it may have been because of one of its tokens,
    /// which the next trials find out one by one.
    pub(super) tries_one: bool,
    /// Since when a batch may go on trial.
    pub(super) half_open_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CircuitState {
    Closed,
    /// Until a batch may go on trial.
    Open(Instant),
    HalfOpen,
}

impl Circuit {
    pub(super) fn closed() -> Self {
        let [pauses, guess_pauses] = [MAX_PAUSE, MAX_GUESS].map(Backoff::up_to);
        Self {
            state: CircuitState::Closed,
            is_guess: false,
            pauses,
            guess_pauses,
            refused: Vec::new(),
            tries_one: false,
            half_open_since: None,
        }
    }

    pub(super) fn due_at(&self) -> Option<Instant> {
        if let CircuitState::Open(until) = self.state { Some(until) } else { None }
    }

    pub(super) fn half_open(&mut self, now: Instant) {
        if self.due_at().is_some_and(|until| until <= now) {
            self.state = CircuitState::HalfOpen;
            self.half_open_since = Some(now);
        }
    }

    /// The sender has given an answer with a new verdict; `is_available` if it could not have found
    /// that otherwise, `is_exact` if it says itself when it is unavailable.
    /// A token in doubt, or of which no mail was tried, proves nothing.
    pub(super) fn apply(
        &mut self,
        answer: &Answer,
        is_available: bool,
        is_exact: bool,
        now: Instant,
    ) {
        let is_unavailable = self.state != CircuitState::Closed && !self.is_guess;
        if let Some(unavailable) = &answer.unavailable {
            // A half-open trial that sent some mails counts as a success, so that a provider's rate
            // limit does not grow the pauses to their maximum.
            if is_available && self.state == CircuitState::HalfOpen {
                self.pauses.reset();
            }
            self.tries_one = self.state == CircuitState::HalfOpen && !is_available;
            self.open(unavailable.after.unwrap_or_default(), now);
        } else if is_available {
            self.refused.clear();
            // What was in flight when the sender answered `unavailable` does not
            // prove the contrary.
            if !is_unavailable || self.state == CircuitState::HalfOpen {
                self.close();
            }
        } else if !answer.retry.is_empty() {
            // A sender that was unavailable and now refuses single tokens is available.
            if is_unavailable && self.state == CircuitState::HalfOpen {
                self.close();
            }
            if is_exact {
                self.distrust_guess();
            } else {
                self.count_refusals(answer, now);
            }
        }
    }

    /// Closes the circuit if it is open because of a guess, which the sender's own word refutes.
    fn distrust_guess(&mut self) {
        self.refused.clear();
        if self.is_guess {
            self.close();
        }
    }

    fn open(&mut self, requested: Duration, now: Instant) {
        let requested = requested.min(MAX_REQUESTED);
        let requested = requested + random_part(requested / 4);
        let until = match self.state {
            // An answer for another batch that was in flight: no further failure.
            CircuitState::Open(until) if !self.is_guess => until.max(now + requested),
            _ => now + self.pauses.pause().max(requested),
        };
        self.refused.clear();
        self.state = CircuitState::Open(until);
        self.is_guess = false;
    }

    fn count_refusals(&mut self, answer: &Answer, now: Instant) {
        if self.state == CircuitState::Closed {
            let is_new = |id: &i64| self.refused.iter().all(|(_, other)| other != id);
            let new = answer.retry.iter().map(|token| token.id).take(REFUSALS).find(is_new);
            if self.refused.iter().all(|(batch, _)| *batch != answer.batch)
                && let Some(id) = new
            {
                self.refused.push((answer.batch, id));
            }
        }
        if self.state == CircuitState::HalfOpen || self.refused.len() == REFUSALS {
            self.refused.clear();
            let until = now + self.guess_pauses.pause();
            self.state = CircuitState::Open(until);
            self.is_guess = true;
        }
    }

    fn close(&mut self) {
        self.state = CircuitState::Closed;
        self.is_guess = false;
        self.tries_one = false;
        self.half_open_since = None;
        self.pauses.reset();
        self.guess_pauses.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::sender::protocol::answer;

    const OK: &str = r#","ok":[1]"#;
    const UNAVAILABLE: &str = r#","unavailable":{}"#;
    const PARTLY_SENT: &str = r#","dead":[{"id":1}],"unavailable":{}"#;
    const FIRST: &str = r#","retry":[{"id":10}]"#;
    const SECOND: &str = r#","retry":[{"id":20}]"#;
    const THIRD: &str = r#","retry":[{"id":30}]"#;
    const DOUBT: &str = r#","in_doubt":[{"id":40}]"#;
    const UNTRIED: &str = r#","exact":true,"untried":[{"id":80,"after_ms":60000}]"#;
    const EXACT: &str = r#","exact":true,"retry":[{"id":50}]"#;
    const EXACT_TOO: &str = r#","exact":true,"retry":[{"id":60}]"#;
    const THIRD_EXACT: &str = r#","exact":true,"retry":[{"id":70}]"#;
    const GUESS: [(u128, &str); 3] = [(1, FIRST), (2, SECOND), (3, THIRD)];
    /// No answer: the pause passes, and the circuit becomes half-open.
    const WAIT: (u128, &str) = (0, "");

    /// A circuit after answers for batches, and the time then.
    fn circuit(steps: &[(u128, &str)]) -> (Circuit, Instant) {
        let (mut circuit, mut now) = (Circuit::closed(), Instant::now());
        for (batch, rest) in steps {
            if rest.is_empty() {
                let until = circuit.due_at().expect("it is open");
                circuit.half_open(until.checked_sub(Duration::from_millis(1)).unwrap());
                assert_eq!(circuit.state, CircuitState::Open(until));
                circuit.half_open(until);
                assert_eq!(circuit.state, CircuitState::HalfOpen);
                now = until;
            } else {
                let (answer, is_exact) = (answer(*batch, rest), rest.contains("exact"));
                let is_sent = rest.contains("ok") || rest.contains("dead");
                circuit.apply(&answer, is_sent, is_exact, now);
            }
        }
        (circuit, now)
    }

    #[test]
    fn the_circuit_opens_by_unavailable_or_three_refusals_and_closes_by_a_success() {
        let (failed, two) = ((1, UNAVAILABLE), r#","retry":[{"id":10},{"id":40}]"#);
        let after_guess = |steps: &[(u128, &'static str)]| [&GUESS[..], steps].concat();
        let trials = |step, rest: &[_]| [&[step, WAIT].repeat(8), rest].concat();
        for (steps, is_guess, pause) in [
            (vec![failed], false, Some(100..=200)),
            (vec![failed, WAIT, (2, OK)], false, None),
            (vec![failed, WAIT, (2, UNAVAILABLE)], false, Some(200..=400)),
            // A refusal after `unavailable` is that of the token.
            (vec![failed, WAIT, (2, FIRST)], false, None),
            // Answers for what was in flight do not end an outage, and prolong nothing.
            (vec![failed, (2, OK), (3, FIRST), (4, SECOND), (5, THIRD)], false, Some(100..=200)),
            (vec![failed, (2, UNAVAILABLE)], false, Some(100..=200)),
            (vec![(1, PARTLY_SENT)], false, Some(100..=200)),
            (trials(failed, &[failed]), false, Some(2_500..=5_000)),
            // They start again when a part is sent.
            (trials(failed, &[(1, PARTLY_SENT)]), false, Some(100..=200)),
            (trials(failed, &[(1, OK), failed]), false, Some(100..=200)),
            // The sender can ask for a longer pause, but not for one of hours.
            (vec![(1, r#","unavailable":{"after_ms":8000}"#)], false, Some(8_000..=10_000)),
            (vec![(1, r#","unavailable":{"after_ms":86400000}"#)], false, Some(60_000..=75_000)),
            (GUESS.to_vec(), true, Some(100..=200)),
            // More of the same batch, and the same token in another batch, are no further proof.
            (vec![(1, two), (1, SECOND), (2, FIRST), (3, THIRD)], false, None),
            (vec![(1, two), (1, SECOND), (2, FIRST), (3, THIRD), (4, two)], true, Some(100..=200)),
            (vec![(1, FIRST), (2, SECOND), (3, OK), (4, THIRD), (5, FIRST)], false, None),
            (vec![(1, FIRST), (2, FIRST), (3, FIRST), (4, FIRST)], false, None),
            // Tokens in doubt open nothing, close nothing and count for nothing.
            (vec![(1, DOUBT), (2, DOUBT), (3, DOUBT), (4, DOUBT)], false, None),
            (vec![(1, FIRST), (2, SECOND), (3, DOUBT), (4, THIRD)], true, Some(100..=200)),
            (vec![failed, (2, DOUBT)], false, Some(100..=200)),
            (vec![failed, WAIT, (2, DOUBT), (3, UNAVAILABLE)], false, Some(200..=400)),
            // Nor do those of which no mail was tried: they close no circuit on trial.
            (vec![(1, UNTRIED), (2, UNTRIED), (3, UNTRIED)], false, None),
            (vec![(1, FIRST), (2, SECOND), (3, UNTRIED), (4, THIRD)], true, Some(100..=200)),
            (vec![failed, (2, UNTRIED)], false, Some(100..=200)),
            (vec![failed, WAIT, (2, UNTRIED), (3, UNAVAILABLE)], false, Some(200..=400)),
            (vec![failed, WAIT, (2, UNTRIED), (3, UNTRIED), (4, OK)], false, None),
            // A sender that says whose fault a refusal is is not guessed about,
            // and refutes what was.
            (vec![(1, EXACT), (2, EXACT_TOO), (3, THIRD_EXACT)], false, None),
            (after_guess(&[(4, EXACT)]), false, None),
            (after_guess(&[WAIT, (4, EXACT)]), false, None),
            (vec![failed, (2, EXACT)], false, Some(100..=200)),
            (vec![failed, WAIT, (2, EXACT)], false, None),
            (after_guess(&[(4, UNAVAILABLE)]), false, Some(100..=200)),
            (after_guess(&[WAIT, (4, FIRST)].repeat(8)), true, Some(2_500..=5_000)),
            // A single verdict disproves the guess at once, also before the next trial.
            (after_guess(&[(4, OK)]), false, None),
            (after_guess(&[WAIT, (4, OK)]), false, None),
        ] {
            let (circuit, now) = circuit(&steps);
            assert_eq!(circuit.is_guess, is_guess, "{steps:?}");
            match (circuit.due_at().map(|until| (until - now).as_millis()), pause) {
                (None, None) => assert_eq!(circuit.state, CircuitState::Closed, "{steps:?}"),
                (Some(found), Some(pause)) => {
                    assert!(pause.contains(&found), "{found} ms after {steps:?}");
                }
                (found, _) => panic!("{found:?} after {steps:?}"),
            }
        }
        assert!(MAX_GUESS < ROTATION);
    }

    #[test]
    fn after_a_trial_that_failed_as_a_whole_single_tokens_go_on_trial_until_one_is_sent() {
        let failed = (1, UNAVAILABLE);
        for (steps, tries_one) in [
            (vec![failed], false),
            (vec![failed, WAIT, failed], true),
            (vec![failed, WAIT, failed, WAIT, (2, OK)], false),
            // What was in the batch was not in the way of the others.
            (vec![failed, WAIT, (2, PARTLY_SENT)], false),
        ] {
            assert_eq!(circuit(&steps).0.tries_one, tries_one, "{steps:?}");
        }
    }
}
