//! Whether the sender can send at all: a circuit breaker.
//!
//! - Closed: it sends.
//! - Open: it is unavailable; nothing is claimed until a pause is over. Pauses double, with jitter, up to a bound.
//! - Half-open: a single batch goes out on trial. `ok` or `dead` for one of its tokens closes the circuit; otherwise it opens
//!   again.
//!
//! It opens because the sender answers `unavailable`, or by a guess, for senders that know only `retry`: three different
//! tokens in separate batches were refused without another verdict in between. A guess can be wrong, where mails of a few
//! accounts are refused and there are no others. So its pauses are short, and whatever was refused on trial comes back
//! behind the others.
//!
//! Pure policy: the caller passes the times in.

use std::time::{Duration, Instant};

use super::protocol::{Answer, SentTokens};
use crate::backoff::{Backoff, random_part};
use crate::queue::BatchId;

/// The longest pause after `unavailable`, and after a guess.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_GUESS: Duration = Duration::from_secs(5);

/// The longest pause that the sender itself can ask for; a longer one is this long.
const LONGEST_REQUESTED: Duration = Duration::from_secs(60);

/// How many tokens must be refused for the guess.
const REFUSALS: usize = 3;

/// How long a token waits that was refused while the guess stands: longer than the pause before the next trial, which is
/// then of another token.
pub(super) const ROTATION: Duration = Duration::from_millis(7_500);

/// The availability of a sender. It outlives the process: what is unavailable is a server behind it.
pub(super) struct Circuit {
    state: CircuitState,
    pauses: Backoff,
    guess_pauses: Backoff,
    /// While it is closed: the tokens that were refused since the last other verdict, one a batch.
    refused: Vec<(BatchId, i64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CircuitState {
    Closed,
    Open { until: Instant, by: OpenedBy },
    HalfOpen { by: OpenedBy },
}

/// Why the circuit is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenedBy {
    /// The sender answered `unavailable`.
    Unavailable,
    /// It refuses everything.
    Guess,
}

impl Circuit {
    /// Closed.
    pub(super) fn new() -> Self {
        Self {
            state: CircuitState::Closed,
            pauses: Backoff::up_to(LONGEST_PAUSE),
            guess_pauses: Backoff::up_to(LONGEST_GUESS),
            refused: Vec::new(),
        }
    }

    pub(super) fn state(&self) -> CircuitState {
        self.state
    }

    /// When a batch may go on trial.
    pub(super) fn due_at(&self) -> Option<Instant> {
        match self.state {
            CircuitState::Open { until, .. } => Some(until),
            CircuitState::Closed | CircuitState::HalfOpen { .. } => None,
        }
    }

    /// Becomes half-open if the pause is over; returns whether it does.
    pub(super) fn half_open(&mut self, now: Instant) -> bool {
        match self.state {
            CircuitState::Open { until, by } if until <= now => {
                self.state = CircuitState::HalfOpen { by };
                true
            }
            _ => false,
        }
    }

    /// Whether a refusal in a batch that was just answered in full is one of the whole sender: not of the token, which
    /// waits for [`ROTATION`] at least.
    pub(super) fn is_guess(&self) -> bool {
        let by = OpenedBy::Guess;
        matches!(self.state, CircuitState::Open { by: found, .. } | CircuitState::HalfOpen { by: found } if found == by)
    }

    /// The sender has given an answer with a new verdict.
    pub(super) fn apply(&mut self, answer: &Answer, now: Instant) {
        // Only a sender that is available finds out that a token was sent or never can be.
        let is_available = !answer.dead.is_empty()
            || match &answer.ok {
                SentTokens::Ids(ids) => !ids.is_empty(),
                SentTokens::All => answer.unavailable.is_none(),
            };
        if let Some(unavailable) = &answer.unavailable {
            // A trial of which a part was sent did not fail: a limit of mails a second must not lead to the longest pauses.
            if is_available && matches!(self.state, CircuitState::HalfOpen { .. }) {
                self.pauses.reset();
            }
            self.open(unavailable.after.unwrap_or_default(), now);
        } else if is_available {
            self.refused.clear();
            // What was in flight when the sender answered `unavailable` does not prove the contrary.
            if !matches!(self.state, CircuitState::Open { by: OpenedBy::Unavailable, .. }) {
                self.close();
            }
        } else if !answer.retry.is_empty() {
            self.count_refusals(answer, now);
        }
    }

    fn open(&mut self, requested: Duration, now: Instant) {
        let requested = requested.min(LONGEST_REQUESTED);
        let requested = requested + random_part(requested / 4);
        let by = OpenedBy::Unavailable;
        let until = match self.state {
            // An answer for another batch that was in flight: no further failure.
            CircuitState::Open { until, by: OpenedBy::Unavailable } => until.max(now + requested),
            _ => now + self.pauses.pause().max(requested),
        };
        self.refused.clear();
        self.state = CircuitState::Open { until, by };
    }

    fn count_refusals(&mut self, answer: &Answer, now: Instant) {
        // A sender that was unavailable and now refuses single tokens is available.
        if matches!(self.state, CircuitState::HalfOpen { by: OpenedBy::Unavailable }) {
            self.close();
        }
        match self.state {
            CircuitState::Closed => {
                let is_new = |id: &i64| self.refused.iter().all(|(_, other)| other != id);
                let new = answer.retry.iter().map(|token| token.id).take(REFUSALS).find(is_new);
                if self.refused.iter().all(|(batch, _)| *batch != answer.batch)
                    && let Some(id) = new
                {
                    self.refused.push((answer.batch, id));
                }
                if self.refused.len() < REFUSALS {
                    return;
                }
            }
            CircuitState::HalfOpen { .. } => {}
            CircuitState::Open { .. } => return,
        }
        self.refused.clear();
        self.state = CircuitState::Open { until: now + self.guess_pauses.pause(), by: OpenedBy::Guess };
    }

    fn close(&mut self) {
        self.state = CircuitState::Closed;
        self.pauses.reset();
        self.guess_pauses.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::sender::protocol::parse_answer;

    const OK: &str = r#","ok":[1]"#;
    const UNAVAILABLE: &str = r#","unavailable":{}"#;
    const PARTLY_SENT: &str = r#","dead":[{"id":1}],"unavailable":{}"#;
    /// No answer: the pause passes, and the circuit becomes half-open.
    const WAIT: &str = "";

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn refused(id: u32) -> String {
        format!(r#","retry":[{{"id":{id}}}]"#)
    }

    /// A circuit after answers for batches, and the time then.
    fn circuit(steps: &[(u32, &str)]) -> (Circuit, Instant) {
        let (mut circuit, mut now) = (Circuit::new(), Instant::now());
        for step in steps {
            apply(&mut circuit, &mut now, *step);
        }
        (circuit, now)
    }

    fn apply(circuit: &mut Circuit, now: &mut Instant, (batch, rest): (u32, &str)) {
        if rest == WAIT {
            let until = circuit.due_at().expect("it is open");
            assert!(!circuit.half_open(until.checked_sub(Duration::from_millis(1)).unwrap()));
            assert!(circuit.half_open(until) && !circuit.half_open(until));
            *now = until;
        } else {
            let batch = BatchId::from(u128::from(batch));
            circuit
                .apply(&parse_answer(format!("{{\"batch\":\"{batch}\"{rest}}}").as_bytes()).unwrap(), *now);
        }
    }

    /// What opened the circuit, if it is open.
    fn opened_by(circuit: &Circuit) -> Option<OpenedBy> {
        match circuit.state() {
            CircuitState::Open { by, .. } => Some(by),
            CircuitState::Closed | CircuitState::HalfOpen { .. } => None,
        }
    }

    fn pause(circuit: &Circuit, now: Instant) -> Duration {
        circuit.due_at().expect("it is open") - now
    }

    #[test]
    fn the_circuit_opens_by_unavailable_or_three_refusals_and_closes_by_a_success_on_trial() {
        let [first, second, third] = [10, 20, 30].map(refused);
        let (first, second, third) = (first.as_str(), second.as_str(), third.as_str());
        let two = r#","retry":[{"id":10},{"id":40}]"#;
        let guess = [(1, first), (2, second), (3, third)];
        let after_guess = |steps: &[(u32, &'static str)]| [&guess[..], steps].concat();
        let (unavailable, by_guess) = (Some(OpenedBy::Unavailable), Some(OpenedBy::Guess));
        for (steps, expected) in [
            (vec![(1, UNAVAILABLE)], unavailable),
            (vec![(1, UNAVAILABLE), (0, WAIT), (2, OK)], None),
            (vec![(1, UNAVAILABLE), (0, WAIT), (2, UNAVAILABLE)], unavailable),
            // A refusal after `unavailable` is that of the token.
            (vec![(1, UNAVAILABLE), (0, WAIT), (2, first)], None),
            // Answers for what was in flight do not end an outage.
            (vec![(1, UNAVAILABLE), (2, OK), (3, first), (4, second), (5, third)], unavailable),
            (vec![(1, PARTLY_SENT)], unavailable),
            (guess.to_vec(), by_guess),
            // More of the same batch, and the same token in another batch, are no further proof.
            (vec![(1, two), (1, second), (2, first), (3, third)], None),
            (vec![(1, two), (1, second), (2, first), (3, third), (4, two)], by_guess),
            (vec![(1, first), (2, second), (3, OK), (4, third), (5, first)], None),
            (vec![(1, first), (2, first), (3, first), (4, first)], None),
            (after_guess(&[(4, UNAVAILABLE)]), unavailable),
            // A single verdict disproves the guess at once, also before the next trial.
            (after_guess(&[(4, OK)]), None),
            (after_guess(&[(0, WAIT), (4, OK)]), None),
        ] {
            let (circuit, _) = circuit(&steps);
            assert_eq!(opened_by(&circuit), expected, "{steps:?}");
            assert_eq!(circuit.is_guess(), expected == by_guess, "{steps:?}");
            assert_eq!(circuit.state() == CircuitState::Closed, expected.is_none(), "{steps:?}");
        }
    }

    #[test]
    fn pauses_of_an_unavailable_sender_grow_to_ten_seconds_unless_a_part_of_a_trial_is_sent() {
        let (mut circuit, mut now) = circuit(&[]);
        let mut pauses = Vec::new();
        for batch in 0..12 {
            apply(&mut circuit, &mut now, (batch, UNAVAILABLE));
            pauses.push(pause(&circuit, now));
            // Another batch that was in flight prolongs nothing.
            apply(&mut circuit, &mut now, (batch, UNAVAILABLE));
            assert_eq!(pause(&circuit, now), pauses[pauses.len() - 1]);
            apply(&mut circuit, &mut now, (0, WAIT));
        }
        assert!(pauses[0] <= Duration::from_millis(200), "{pauses:?}");
        assert!(pauses[7..].iter().all(|pause| (seconds(5)..=seconds(10)).contains(pause)), "{pauses:?}");
        assert!(pauses[7..].iter().any(|pause| *pause != pauses[7]), "{pauses:?}");
        for _ in 0..20 {
            apply(&mut circuit, &mut now, (1, PARTLY_SENT));
            assert!(pause(&circuit, now) <= Duration::from_millis(400));
            apply(&mut circuit, &mut now, (0, WAIT));
        }
        apply(&mut circuit, &mut now, (1, OK));
        apply(&mut circuit, &mut now, (1, UNAVAILABLE));
        assert!(pause(&circuit, now) <= Duration::from_millis(200));
    }

    #[test]
    fn a_sender_can_ask_for_a_longer_pause_but_not_for_one_of_hours() {
        for (requested, least, most) in [(0, 0, 1), (8, 8, 10), (86_400, 60, 75)] {
            let rest = format!(r#","unavailable":{{"after_ms":{}}}"#, 1_000 * requested);
            let (circuit, now) = circuit(&[(1, &rest)]);
            let pause = pause(&circuit, now);
            assert!((seconds(least)..=seconds(most)).contains(&pause), "{pause:?} for {requested} s");
        }
    }

    #[test]
    fn a_guess_lasts_five_seconds_at_most_and_a_refused_token_longer() {
        let (mut circuit, mut now) = circuit(&[(1, &refused(1)), (2, &refused(2)), (3, &refused(3))]);
        for batch in 10..30 {
            assert!(pause(&circuit, now) <= seconds(5) && seconds(5) < ROTATION);
            apply(&mut circuit, &mut now, (0, WAIT));
            // Still of the trial before.
            assert!(circuit.is_guess());
            apply(&mut circuit, &mut now, (batch, &refused(5)));
        }
    }
}
