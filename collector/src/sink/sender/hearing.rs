//! What a sender says, and what else happens to it.

use std::time::{Duration, Instant};

use super::answer::{Answer, NotAnAnswer, parse_answer};
use super::ledger::{Outcome, Past, Remarks};
use super::lines::{LONGEST_LINE, TooLong};
use super::process::Event;
use super::{ClosedPipe, INPUT, OUTPUT, Sender, State};
use crate::complaints::{NAMED, ids, listed, withheld};
use crate::line::BatchName;
use crate::queue::Exception;
use crate::sink::Taken;

/// How long a sender that closes a pipe may take to end by itself.
const ENDING: Duration = Duration::from_millis(500);

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
        match self.ledger.note(answer, now) {
            Outcome::Noted(remarks, taken) => {
                self.remark(batch, remarks, now);
                if let Some(taken) = &taken {
                    self.tell(taken, now);
                }
                self.taken.extend(taken);
                if remarks.verdicts > 0 {
                    self.answered(now);
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

    fn answered(&mut self, now: Instant) {
        if let State::Up(up) = &mut self.state {
            up.has_answered = true;
        }
        self.outage.over(now);
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
        let (mut dead, mut refused) = (Vec::new(), Vec::new());
        for (id, exception) in &taken.exceptions {
            match exception {
                Exception::Dead { reason } => dead.push((*id, reason)),
                Exception::Retry { reason, .. } => refused.push((*id, reason)),
                Exception::Unanswered => {}
            }
        }
        if !dead.is_empty()
            && let Some(others) = self.given_up.admit(now)
        {
            tracing::warn!(
                event = "tokens_dead",
                reason = %listed(&dead, NAMED),
                count = dead.len(),
                ids = ?ids(&dead, NAMED),
                withheld = withheld(others),
                "the sender gives tokens up"
            );
        }
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
