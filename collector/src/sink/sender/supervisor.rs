//! Starts a sender, handles its events, and ends it when it does not work.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::time::timeout_at;

use super::Sender;
use super::circuit::{CircuitState, ROTATION};
use super::process::{Process, ProcessEvent};
use super::protocol::{Answer, Reply};
use crate::log::display::{Counted, HumanDuration};
use crate::queue::Nack;
use crate::sink::{Ack, Sink as _};
use mailroom_pace::random_part;

/// How long a silent sender's output is read once more before it is ended.
const LAST_READ: Duration = Duration::from_millis(20);

/// How long a sender must live before it is given a token.
const WARM_UP: Duration = Duration::from_millis(200);

/// How long a sender that is ended may take until it is killed.
pub(super) const TERMINATION: Duration = Duration::from_secs(2);

/// How long a sender that closes a pipe may take to end by itself.
const END_AFTER_CLOSING: Duration = Duration::from_millis(500);

/// After this time a sender that has answered, and is not hung,
/// is started again without a growing pause.
pub(super) const SOUND: Duration = Duration::from_secs(10);

/// The longest pause before a token of a failed trial is retried; random, so that the next trial
/// begins with another.
const SHUFFLE: Duration = Duration::from_secs(1);

pub(super) struct RunningSender {
    pub(super) process: Process,
    pub(super) started_at: Instant,
    /// Whether it has lived long enough to get a token.
    pub(super) is_warmed_up: bool,
    pub(super) has_answered: bool,
    /// Whether it has said that it tells itself whose fault a refusal is.
    is_exact: bool,
    closed_at: Option<Instant>,
    pub(super) ending: Option<Termination>,
}

/// Set once the sender was signalled to end.
pub(super) struct Termination {
    /// Why, as the end of a sentence; `None` if nothing is wrong with it.
    cause: Option<String>,
    is_hung: bool,
    /// When it is killed; `None` if it was.
    kill_at: Option<Instant>,
}

impl RunningSender {
    pub(super) fn takes_lines(&self) -> bool {
        self.is_warmed_up && self.ending.is_none() && self.process.takes_lines()
    }
}

impl Sender {
    pub(super) fn act(&mut self, now: Instant) {
        let is_due = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        let timeout = HumanDuration(self.timeout);
        let Some(running) = &mut self.running else {
            if self.closing.is_none() && self.start_at <= now {
                self.start(now);
            }
            return;
        };
        if let Some(ending) = &mut running.ending {
            if ending.kill_at.take_if(|time| *time <= now).is_some() {
                running.process.signal(Signal::KILL);
            }
            return;
        }
        running.is_warmed_up |= running.started_at + WARM_UP <= now;
        self.circuit.half_open(now);
        if is_due(self.pending.silent_at()) {
            self.end(Some(format!("is ended: it has answered nothing for {timeout}")), true, now);
        } else if is_due(self.pending.forgotten_at()) {
            let reason =
                format!("the sender answered later batches, but not this one for {timeout}");
            let given_up = self.pending.give_up_forgotten(now, &Nack::Failed { reason });
            tracing::warn!(
                event = "batches_forgotten",
                count = given_up.len(),
                "the sender has forgotten batches; their tokens are tried again"
            );
            self.acks.extend(given_up);
        } else if let Some((pipe, end_at)) = self.closed_pipe()
            && end_at <= now
        {
            self.end(Some(format!("is ended: it has closed its standard {pipe}")), false, now);
        } else if is_due(self.closing) {
            self.end(None, false, now);
        }
    }

    /// When [`act`](Self::act) has something to do without an event.
    pub(super) fn due_at(&self) -> Option<Instant> {
        let Some(running) = &self.running else {
            return self.closing.is_none().then_some(self.start_at);
        };
        if let Some(ending) = &running.ending {
            return ending.kill_at;
        }
        let warm_at = (!running.is_warmed_up).then_some(running.started_at + WARM_UP);
        let silent = self.pending.silent_at();
        let forgotten = self.pending.forgotten_at();
        let closed = self.closed_pipe().map(|(_, end_at)| end_at);
        [warm_at, silent, forgotten, closed, self.closing, self.circuit.due_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Reads what a silent sender has written meanwhile: after the collector was frozen, answers
    /// are in the pipe.
    pub(super) async fn read_if_silent(&mut self) {
        let until = tokio::time::Instant::now() + LAST_READ;
        while self.pending.silent_at().is_some_and(|time| time <= Instant::now())
            && let Some(running) = &mut self.running
            && running.ending.is_none()
            && let Ok(event) = timeout_at(until, running.process.event()).await
        {
            self.handle(&event, Instant::now());
        }
    }

    /// A closed pipe for which the sender is to be ended, and when: its output, or its input once
    /// it has answered everything.
    fn closed_pipe(&self) -> Option<(&'static str, Instant)> {
        let running = self.running.as_ref().filter(|_| self.closing.is_none())?;
        let end_at = running.closed_at? + END_AFTER_CLOSING;
        match running.process.output {
            None => Some(("output", end_at)),
            Some(_) => (self.pending.len() == 0).then_some(("input", end_at)),
        }
    }

    fn start(&mut self, now: Instant) {
        match Process::start(&self.command, self.actions.as_deref()) {
            Ok(process) => {
                let id = process.group.map(Pid::as_raw_pid);
                let sender = self.command.name();
                tracing::debug!(
                    event = "sender_started",
                    process = id,
                    sender,
                    "the sender is started"
                );
                self.running = Some(Box::new(RunningSender {
                    process,
                    started_at: now,
                    is_warmed_up: false,
                    has_answered: false,
                    is_exact: false,
                    closed_at: None,
                    ending: None,
                }));
            }
            Err(error) => self.stopped(&self.command.why_not_started(&error), now),
        }
    }

    fn end(&mut self, cause: Option<String>, is_hung: bool, now: Instant) {
        let kill_at = Some(now + self.termination_time());
        let Some(running) = &mut self.running else { return };
        running.process.signal(Signal::TERM);
        running.ending = Some(Termination { cause, is_hung, kill_at });
        self.cancel_unsent();
    }

    fn ended(&mut self, status: ExitStatus, now: Instant) {
        let Some(running) = self.running.take() else { return };
        let is_hung = running.ending.as_ref().is_some_and(|ending| ending.is_hung);
        let cause = running.ending.and_then(|ending| ending.cause);
        let cause = cause.unwrap_or_else(|| format!("has ended ({status})"));
        // A hang is a failed attempt of the tokens, and an end one of those of the trial; otherwise
        // the sender would get them again and again.
        let failed = Nack::Failed { reason: format!("the sender {cause}") };
        let nack = if is_hung { failed.clone() } else { Nack::Unanswered };
        let of_trial = if self.closing.is_none() { failed } else { nack.clone() };
        if running.has_answered && !is_hung && now.duration_since(running.started_at) >= SOUND {
            self.start_pauses.reset();
        }
        let cause = match self.give_up(running.process.read_by_sender(), &nack, &of_trial, now) {
            0 => cause,
            count => {
                let batches = Counted(count, "batch, which goes", "batches, which go");
                format!("{cause} and owed answers for {batches} out again")
            }
        };
        self.stopped(&cause, now);
    }

    fn stopped(&mut self, cause: &str, now: Instant) {
        self.start_at = now + self.start_pauses.pause();
        if self.closing.is_none() {
            let cause = format!("the sender `{}` {cause}", self.command.name());
            self.outage.failed(&cause, now);
        }
    }

    /// The time between SIGTERM and SIGKILL, which `close` reserves from the grace.
    pub(super) fn termination_time(&self) -> Duration {
        TERMINATION.min(self.timeout / 4)
    }

    pub(super) fn handle(&mut self, event: &ProcessEvent, now: Instant) {
        let Some(running) = &mut self.running else { return };
        match event {
            ProcessEvent::Progress => self.read_answers(now),
            ProcessEvent::InputClosed => {
                running.closed_at.get_or_insert(now);
                let written = running.process.written;
                self.unsent.extend(self.pending.take_unread(|bytes| bytes.end > written));
                self.cancel_unsent();
            }
            ProcessEvent::OutputClosed => {
                running.closed_at = Some(now);
                self.read_answers(now);
                self.cancel_unsent();
            }
            ProcessEvent::Ended(status) => self.ended(*status, now),
        }
    }

    fn read_answers(&mut self, now: Instant) {
        while let Some(running) = &mut self.running
            && let Some(reply) = running.process.next_reply()
        {
            match reply {
                Ok(Reply::Answer(answer)) => self.apply(&answer, now),
                Ok(Reply::Working(work)) => self.pending.work(&work, now),
                Err(error) => self.log_ignored(&error, None, None, now),
            }
        }
    }

    fn apply(&mut self, answer: &Answer, now: Instant) {
        let batch = Some(answer.batch);
        let applied = match self.pending.apply(answer, now) {
            Ok(applied) => applied,
            Err(reason) => return self.log_ignored(reason, batch, None, now),
        };
        let repeated =
            "it repeats verdicts; the first one counts, and within an answer the most careful one";
        let foreign = "it is for tokens that are not in the batch";
        for (count, reason) in [(applied.foreign, foreign), (applied.repeated, repeated)] {
            if count > 0 {
                self.log_ignored(reason, batch, Some(count), now);
            }
        }
        let was_on_trial = self.circuit.state == CircuitState::HalfOpen;
        if applied.verdicts > 0 {
            self.update_circuit(answer, applied.proves_available, now);
        }
        if let Some(mut ack) = applied.ack {
            self.excuse_tokens(&mut ack, was_on_trial);
            self.log_unsent(&ack, now);
            self.acks.push(ack);
        }
    }

    fn update_circuit(&mut self, answer: &Answer, is_available: bool, now: Instant) {
        let mut is_exact = false;
        if let Some(running) = &mut self.running {
            running.has_answered = true;
            running.is_exact |= answer.exact;
            is_exact = running.is_exact;
        }
        self.circuit.apply(answer, is_available, is_exact, now);
        match self.circuit.state {
            CircuitState::Closed => _ = self.outage.over(now),
            CircuitState::Open(_) => {
                self.cancel_unsent();
                let cause = match (&answer.unavailable, answer.retry.first()) {
                    (Some(unavailable), _) => {
                        format!("the sender is unavailable: {}", unavailable.reason)
                    }
                    (None, Some(token)) => {
                        format!(
                            "the sender refuses everything, as if it were unavailable: {}",
                            token.reason
                        )
                    }
                    // For a batch that was in flight.
                    (None, None) => return,
                };
                self.outage.failed(&cause, now);
            }
            CircuitState::HalfOpen => {}
        }
    }

    /// Converts nacks that are the whole sender's fault to `Unavailable`, which is no failed
    /// attempt of a token.
    fn excuse_tokens(&self, ack: &mut Ack, was_on_trial: bool) {
        for (_, nack) in &mut ack.nacks {
            match nack {
                Nack::Retry { after, reason } if self.circuit.is_guess => {
                    let after = Some(after.unwrap_or_default().max(ROTATION));
                    *nack = Nack::Unavailable { after, reason: std::mem::take(reason) };
                }
                // So that the next trial is of other tokens, or begins with another one.
                Nack::Unavailable { after, .. } if was_on_trial => {
                    *after = Some(random_part(SHUFFLE));
                }
                _ => {}
            }
        }
    }
}
