//! What a sender says, and what else happens to it.

use std::time::{Duration, Instant};

use super::answer::{Answer, NotAnAnswer, parse_answer};
use super::circuit::{Evidence, Refusals, State as Availability};
use super::ledger::{Outcome, Past, Remarks};
use super::lines::{LONGEST_LINE, TooLong};
use super::process::Event;
use super::{ClosedPipe, INPUT, OUTPUT, Sender, State};
use crate::backoff::random_part;
use crate::complaints::{NAMED, ids, listed, withheld};
use crate::line::BatchName;
use crate::queue::Exception;
use crate::sink::Taken;

/// How long a sender that closes a pipe may take to end by itself.
const ENDING: Duration = Duration::from_millis(500);

/// Over how long a time the tokens of a batch come back that was on trial: it may be one of them that makes the sender
/// unavailable, and not always the same one is to be the first.
const SHUFFLE: Duration = Duration::from_secs(1);

impl Sender {
    /// Deals with an event; answers whether anything changed for the caller.
    pub(super) fn handle(&mut self, event: &Event, now: Instant) -> bool {
        let State::Up(up) = &mut self.state else { return false };
        match event {
            Event::Wrote => return up.process.is_idle() && !self.waiting.is_empty(),
            Event::Read => return self.read(now),
            Event::InputClosed => {
                up.closed.get_or_insert(ClosedPipe { pipe: INPUT, end_at: now + ENDING });
                self.returned.extend(self.ledger.give_up_unwritten(up.process.written()));
                self.return_waiting();
            }
            Event::OutputClosed => {
                up.closed = Some(ClosedPipe { pipe: OUTPUT, end_at: now + ENDING });
                if let Some(rest) = up.process.last_words() {
                    self.note(Ok(parse_answer(&rest)), now);
                }
                self.return_waiting();
            }
            Event::Ended(status) => self.ended(*status, now),
        }
        true
    }

    /// Reads the answers that have come; answers whether anything changed for the caller.
    fn read(&mut self, now: Instant) -> bool {
        let mut changed = false;
        loop {
            let State::Up(up) = &mut self.state else { return changed };
            let Some(line) = up.process.next_line() else { return changed };
            let answer = line.map(parse_answer);
            changed |= self.note(answer, now);
        }
    }

    fn note(&mut self, answer: Result<Result<Answer, NotAnAnswer>, TooLong>, now: Instant) -> bool {
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(fault)) => {
                self.complain(now, None, None, || format!("it is no answer: {fault}"));
                return false;
            }
            Err(TooLong) => {
                self.complain(now, None, None, || format!("it is longer than {LONGEST_LINE} bytes"));
                return false;
            }
        };
        let batch = answer.batch;
        let evidence = Evidence::of(&answer);
        let reason = unavailability(&answer);
        match self.ledger.note(answer, now) {
            Outcome::Noted(remarks, taken) => {
                self.remark(batch, remarks, now);
                let was_on_trial = matches!(self.circuit.state(), Availability::HalfOpen { .. });
                if remarks.verdicts > 0 {
                    self.answered(&evidence, &reason, now);
                }
                if let Some(mut taken) = taken {
                    self.excuse(&mut taken, was_on_trial);
                    self.tell(&taken, now);
                    self.taken.push(taken);
                }
                remarks.verdicts > 0
            }
            Outcome::Late(past) => {
                let why = match past {
                    Past::Settled => "its batch was answered in full before",
                    Past::GivenUp => "its batch was not waited for any longer",
                    Past::Lost => "somebody else has its batch by now",
                };
                self.complain(now, Some(batch), None, || why.to_owned());
                false
            }
            Outcome::Unknown => {
                self.complain(now, Some(batch), None, || "the sender never got its batch".to_owned());
                false
            }
        }
    }

    fn answered(&mut self, evidence: &Evidence, reason: &str, now: Instant) {
        if let State::Up(up) = &mut self.state {
            up.has_answered = true;
        }
        self.circuit.heard(evidence, now);
        match self.circuit.state() {
            Availability::Closed => _ = self.outage.over(now),
            Availability::Open { .. } => {
                // What was not begun would only be refused.
                self.return_waiting();
                self.outage.failed(reason, now);
            }
            Availability::HalfOpen { .. } => {}
        }
    }

    /// Sees to it that tokens do not pay for the whole sender.
    fn excuse(&self, taken: &mut Taken, was_on_trial: bool) {
        let refusals = self.circuit.refusals();
        for (_, exception) in &mut taken.exceptions {
            match (&mut *exception, refusals) {
                (Exception::Retry { after, reason }, Refusals::OfSender(least)) => {
                    let after = Some(after.unwrap_or_default().max(least));
                    *exception = Exception::Unavailable { after, reason: std::mem::take(reason) };
                }
                // The next trial is of others, or begins with another one.
                (Exception::Unavailable { after, .. }, _) if was_on_trial => {
                    *after = Some(random_part(SHUFFLE));
                }
                _ => {}
            }
        }
    }

    fn remark(&mut self, batch: BatchName, remarks: Remarks, now: Instant) {
        if remarks.foreign > 0 {
            self.complain(now, Some(batch), Some(remarks.foreign), || {
                "it is for tokens that are not in the batch".to_owned()
            });
        }
        if remarks.repeated > 0 {
            self.complain(now, Some(batch), Some(remarks.repeated), || {
                "it repeats verdicts; the first one counts, and within an answer the most careful one"
                    .to_owned()
            });
        }
    }

    /// What is ignored: all that the sender said, or what it says of so many tokens of a batch.
    fn complain(
        &mut self,
        now: Instant,
        batch: Option<BatchName>,
        count: Option<usize>,
        reason: impl FnOnce() -> String,
    ) {
        if let Some(others) = self.complaints.admit(now) {
            tracing::warn!(
                event = "answer_ignored",
                reason = %reason(),
                batch = batch.map(tracing::field::display),
                count,
                withheld = withheld(others),
                "what the sender answers is ignored"
            );
        }
    }

    /// What operators want to know of single tokens; the database has it of all.
    fn tell(&mut self, taken: &Taken, now: Instant) {
        let refused = |(id, exception): &(i64, Exception)| match exception {
            Exception::Retry { reason, .. } => Some((*id, reason.clone())),
            // What is given up the queue tells, which knows of which tokens that is true.
            _ => None,
        };
        let refused: Vec<_> = taken.exceptions.iter().filter_map(refused).collect();
        if !refused.is_empty()
            && let Some(others) = self.refused.admit(now)
        {
            tracing::info!(
                event = "tokens_refused",
                reason = %listed(&refused, NAMED),
                count = refused.len(),
                ids = ?ids(&refused, NAMED),
                withheld = withheld(others),
                "the sender wants to try tokens again"
            );
        }
    }
}

/// Why the sender is unavailable, if it is after this answer.
fn unavailability(answer: &Answer) -> String {
    match (&answer.unavailable, answer.retry.first()) {
        (Some(unavailable), _) => format!("the sender is unavailable: {}", unavailable.reason),
        (None, Some((_, _, reason))) => {
            format!("the sender refuses everything, as if it were unavailable: {reason}")
        }
        (None, None) => "the sender is unavailable".to_owned(),
    }
}
