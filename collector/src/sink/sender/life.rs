//! When a sender is started, judged and ended.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tokio::time::timeout_at;

use super::process::Process;
use super::{ClosedPipe, Ending, Fault, OUTPUT, Sender, State, Up};
use crate::config::Span;
use crate::counted::Counted;
use crate::queue::Exception;

/// How long a silent sender is listened to once more.
const LISTENING: Duration = Duration::from_millis(20);

/// How long a sender must live before it is given a token.
const SETTLING: Duration = Duration::from_millis(200);

/// How long a sender that is to end may take until it is killed.
const TERMINATION: Duration = Duration::from_secs(2);

/// A sender that has lived this long, answered and not hung is started again without a growing pause.
const SOUND: Duration = Duration::from_secs(10);

impl Sender {
    /// Does what is due; answers whether anything changed for the caller.
    pub(super) fn act(&mut self, now: Instant) -> bool {
        match &mut self.state {
            State::Down { start_at } => {
                if *start_at <= now && self.closing.is_none() {
                    self.start(now);
                }
                false
            }
            State::Up(up) => {
                if let Some(Ending { kill_at, .. }) = &mut up.ending {
                    if kill_at.is_some_and(|time| time <= now) {
                        *kill_at = None;
                        up.process.kill();
                    }
                    return false;
                }
                let becomes_settled = !up.is_settled && up.settled_at <= now;
                up.is_settled |= becomes_settled;
                let is_trial_due = self.circuit.half_open(now);
                self.judge(now) || becomes_settled || is_trial_due
            }
        }
    }

    /// Whether the sender has said nothing for the timeout, as far as it was heard.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let is_owed = matches!(&self.state, State::Up(up) if up.ending.is_none());
        is_owed && self.ledger.silent_at(self.timeout).is_some_and(|time| time <= now)
    }

    /// Hears what it has said meanwhile: whoever was frozen, or had no turn, finds the answers in the pipe. Answers whether
    /// that changed anything for the caller.
    pub(super) async fn listen(&mut self) -> bool {
        let until = tokio::time::Instant::now() + LISTENING;
        while let State::Up(up) = &mut self.state
            && let Ok(event) = timeout_at(until, up.process.event()).await
        {
            let now = Instant::now();
            if self.handle(&event, now) {
                return true;
            }
            if !self.is_silent(now) {
                break;
            }
        }
        false
    }

    /// Looks whether the sender is still doing what it should.
    pub(super) fn judge(&mut self, now: Instant) -> bool {
        let is_due = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        if is_due(self.ledger.silent_at(self.timeout)) {
            let fault = format!("is ended: it has answered nothing for {}", Span(self.timeout));
            self.end(Some(Fault { sentence: fault, is_silence: true }), now);
            return true;
        }
        if is_due(self.ledger.forgotten_at(self.timeout)) {
            let reason =
                format!("the sender answered later batches, but not this one for {}", Span(self.timeout));
            let given_up = self.ledger.give_up_forgotten(self.timeout, now, &reason);
            tracing::warn!(
                event = "batches_forgotten",
                count = given_up.len(),
                "the sender has forgotten batches; their tokens are tried again"
            );
            self.taken.extend(given_up);
            return true;
        }
        if let Some(closed) = self.closed_pipe()
            && closed.end_at <= now
        {
            let fault = format!("is ended: it has closed its {}", closed.pipe);
            self.end(Some(Fault { sentence: fault, is_silence: false }), now);
            return true;
        }
        if let (State::Up(up), Some(closing)) = (&mut self.state, self.closing) {
            up.process.close_input();
            if self.ledger.len() == 0 {
                // It has nothing to do any more but to end.
                self.closing = Some(closing.min(now + TERMINATION));
            }
            if closing <= now {
                self.end(None, now);
            }
        }
        false
    }

    /// A pipe that the sender has closed and that it is to be ended for: one that it speaks to us by, or the other one once it
    /// owes nothing.
    fn closed_pipe(&self) -> Option<ClosedPipe> {
        match &self.state {
            State::Up(up) if up.ending.is_none() && self.closing.is_none() => {
                up.closed.filter(|closed| closed.pipe == OUTPUT || self.ledger.len() == 0)
            }
            _ => None,
        }
    }

    fn start(&mut self, now: Instant) {
        match Process::start(&self.command) {
            Ok(process) => {
                let sender = self.command.name();
                tracing::debug!(
                    event = "sender_started",
                    process = process.id(),
                    sender,
                    "the sender is started"
                );
                self.state = State::Up(Box::new(Up {
                    process,
                    settled_at: now + SETTLING,
                    is_settled: false,
                    has_answered: false,
                    closed: None,
                    ending: None,
                    started: now,
                }));
            }
            Err(error) => self.down(&self.command.why_not_started(&error), now),
        }
    }

    /// Tells the sender to end.
    pub(super) fn end(&mut self, fault: Option<Fault>, now: Instant) {
        let termination = self.termination();
        let State::Up(up) = &mut self.state else { return };
        up.process.terminate();
        up.ending = Some(Ending { fault, kill_at: Some(now + termination) });
        self.return_waiting();
    }

    /// The sender is gone, and says nothing more.
    pub(super) fn ended(&mut self, status: ExitStatus, now: Instant) {
        let State::Up(up) = &mut self.state else { return };
        let read = up.process.read_by_sender();
        let ending = up.ending.take().and_then(|ending| ending.fault);
        let was_hung = ending.as_ref().is_some_and(|fault| fault.is_silence);
        let fault = ending.map_or_else(|| format!("has ended ({status})"), |fault| fault.sentence);
        let is_to_blame = !up.has_answered && self.closing.is_none() && self.ledger.only_token().is_some();
        // Whatever a sender hangs on, it would be given the same again and again if that were no failed attempt.
        let exception = if was_hung || is_to_blame {
            Exception::Failed { reason: format!("the sender {fault}") }
        } else {
            Exception::Unanswered
        };
        // The time that it hung is no time that it worked.
        if up.has_answered && !was_hung && now.duration_since(up.started) >= SOUND {
            self.backoff.reset();
        }
        let (taken, unread) = self.ledger.give_up_all(read, now, &exception);
        let fault = match taken.len() {
            0 => fault,
            count => {
                let batches = Counted(count, "batch, which goes", "batches, which go");
                format!("{fault} and owed answers for {batches} out again")
            }
        };
        self.taken.extend(taken);
        self.returned.extend(unread);
        self.down(&fault, now);
    }

    fn down(&mut self, fault: &str, now: Instant) {
        self.return_waiting();
        self.state = State::Down { start_at: now + self.backoff.pause() };
        if self.closing.is_none() {
            let cause = format!("the sender `{}` {fault}", self.command.name());
            self.outage.failed(&cause, now);
        }
    }

    /// When something is to be done without an event.
    pub(super) fn due_at(&self) -> Option<Instant> {
        match &self.state {
            State::Down { start_at } => self.closing.is_none().then_some(*start_at),
            State::Up(up) if up.ending.is_some() => up.ending.as_ref().and_then(|ending| ending.kill_at),
            State::Up(up) => {
                let settled = (!up.is_settled).then_some(up.settled_at);
                let silent = self.ledger.silent_at(self.timeout);
                let forgotten = self.ledger.forgotten_at(self.timeout);
                let closed = self.closed_pipe().map(|closed| closed.end_at);
                [settled, silent, forgotten, closed, self.closing, self.circuit.due_at()]
                    .into_iter()
                    .flatten()
                    .min()
            }
        }
    }

    /// How much of the grace is left for ending a sender that does not end by itself.
    pub(super) fn termination(&self) -> Duration {
        TERMINATION.min(self.timeout / 4)
    }
}
