//! Lines to a program that the collector runs, which answers for every token: `--sender`.
//!
//! `docs/OPERATIONS.md` specifies the protocol; `pending_acks` decides what an answer counts for.
//!
//! # From start to end
//! A sender that was started gets nothing for 0.2 s, because a program that cannot work mostly ends at once. Then it is on
//! trial: it gets a single token until its first answer, so that a sender that crashes or writes nonsense costs an attempt
//! of one token and not of the queue. From then on it gets what it keeps up with. It is ended if it is hung or closes a
//! pipe, and started again after a growing pause.
//!
//! # What happens to the tokens of a sender that ends
//! - Of a line that it has not read, which the kernel reports: the batch comes back as if it had not been claimed.
//! - Of a line that it may have read: its verdicts count, the rest goes out again with a higher attempt. That is a second
//!   mail if the sender sent one and could not report it.
//! - If it was on trial, that is a failed attempt of its only token, so that a single row which makes the sender crash
//!   cannot keep all others from going out.
//! - If it was hung, that is a failed attempt of all that it had read and not answered: it may hang on one of these tokens,
//!   and the next one would hang on it, too.

mod circuit;
mod command;
mod pending_acks;
mod process;
mod protocol;
mod redact;
mod supervisor;

use std::collections::VecDeque;
use std::future::pending;
use std::mem;
use std::time::{Duration, Instant};

use rustix::process::Signal;

pub use process::kill_running_sender;
pub use protocol::{Answer, AnswerError, DeadToken, RefusedToken, SentTokens, Unavailable, parse_answer};
pub(crate) use redact::looks_like_a_token;

use super::{Ack, OutgoingBatch, Readiness, Sink, SinkError};
use crate::backoff::Backoff;
use crate::config::SenderCommand;
use crate::log::outage::OutageLog;
use crate::log::rate_limit::RateLimiter;
use crate::queue::{BatchId, Nack};
use crate::timer::sleep_until_opt;
use circuit::{Circuit, CircuitState};
use pending_acks::PendingAcks;
use supervisor::RunningSender;

/// The longest pause before a sender is started again. Long enough that one that always crashes uses up few tokens.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A program that sends mails. Not `Debug`: lines hold addresses and tokens.
pub struct Sender {
    command: SenderCommand,
    timeout: Duration,
    /// `None` until `start_at`.
    running: Option<Box<RunningSender>>,
    start_at: Instant,
    start_pauses: Backoff,
    /// Lines that are not begun, the oldest first, with the time when they were sent.
    waiting: VecDeque<(OutgoingBatch, Instant)>,
    pending: PendingAcks,
    acks: Vec<Ack>,
    unsent: Vec<BatchId>,
    circuit: Circuit,
    outage: OutageLog,
    ignored_answers: RateLimiter,
    refused_tokens: RateLimiter,
    /// When the sender is to be ended at the latest, once nothing more is sent.
    closing: Option<Instant>,
}

impl Sender {
    /// A sender that is started when [`Sink::changed`] is called first. It is hung when it answers nothing for `timeout`.
    pub fn new(command: SenderCommand, timeout: Duration) -> Self {
        Self {
            command,
            timeout,
            running: None,
            start_at: Instant::now(),
            start_pauses: Backoff::up_to(LONGEST_PAUSE),
            waiting: VecDeque::new(),
            pending: PendingAcks::new(timeout),
            acks: Vec::new(),
            unsent: Vec::new(),
            circuit: Circuit::new(),
            outage: OutageLog::of("sending"),
            ignored_answers: RateLimiter::default(),
            refused_tokens: RateLimiter::default(),
            closing: None,
        }
    }

    fn return_waiting(&mut self) {
        let waiting = self.cancel_unsent();
        self.unsent.extend(waiting);
    }

    /// Begins the next line if the sender can take it.
    fn begin_line(&mut self, now: Instant) {
        if let Some(running) = &mut self.running
            && running.ending.is_none()
            && running.process.is_idle()
            && let Some((OutgoingBatch { batch, ids, line }, sent_at)) = self.waiting.pop_front()
        {
            let bytes = running.process.begin(line);
            self.pending.begin(batch, ids, (sent_at, now), bytes);
        }
    }

    /// Whether a line that is sent now can be written, whatever the circuit.
    fn takes_lines(&self) -> bool {
        self.closing.is_none() && self.running.as_ref().is_some_and(|running| running.takes_lines())
    }
}

impl Sink for Sender {
    fn send(&mut self, outgoing: OutgoingBatch) {
        let is_available = match self.circuit.state() {
            CircuitState::Closed => true,
            CircuitState::Open { .. } => false,
            CircuitState::HalfOpen { .. } => self.in_flight() == 0,
        };
        if is_available && self.takes_lines() {
            self.waiting.push_back((outgoing, Instant::now()));
        } else {
            self.unsent.push(outgoing.batch);
        }
    }

    async fn changed(&mut self) -> Result<(), SinkError> {
        loop {
            if self.is_silent(Instant::now()) && self.read_before_ending().await {
                return Ok(());
            }
            let now = Instant::now();
            if self.act(now) || !self.acks.is_empty() || !self.unsent.is_empty() {
                return Ok(());
            }
            self.begin_line(now);
            let due = self.due_at();
            let event = async {
                match &mut self.running {
                    Some(running) => running.process.event().await,
                    None => pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                event = event => Some(event),
                () = sleep_until_opt(due) => None,
            };
            if let Some(event) = event
                && self.handle(&event, Instant::now())
            {
                return Ok(());
            }
        }
    }

    fn acks(&mut self) -> Vec<Ack> {
        mem::take(&mut self.acks)
    }

    fn unsent(&mut self) -> Vec<BatchId> {
        mem::take(&mut self.unsent)
    }

    fn readiness(&self) -> Readiness {
        match &self.running {
            Some(running) if running.is_settled && self.takes_lines() => match self.circuit.state() {
                CircuitState::Open { .. } => Readiness::Down,
                _ if !running.has_answered => Readiness::OneToken,
                CircuitState::HalfOpen { .. } => Readiness::OneBatch,
                CircuitState::Closed => Readiness::Ready,
            },
            _ => Readiness::Down,
        }
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.pending.len()
    }

    fn waiting_since(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, sent_at)| *sent_at)
    }

    fn cancel_unsent(&mut self) -> Vec<BatchId> {
        self.waiting.drain(..).map(|(outgoing, _)| outgoing.batch).collect()
    }

    fn drop_lost(&mut self, batches: &[BatchId]) {
        self.waiting.retain(|(outgoing, _)| !batches.contains(&outgoing.batch));
        self.pending.drop_lost(batches);
    }

    /// The timeout, of which the last settlement gets a part.
    fn grace(&self) -> Duration {
        self.timeout.saturating_sub(Duration::from_secs(3).min(self.timeout / 4))
    }

    /// A commit takes its time, however short the timeout is.
    fn time_to_record(&self) -> Duration {
        self.timeout.saturating_sub(self.grace()).max(Duration::from_millis(500))
    }

    fn close(&mut self, by: Instant) {
        self.closing = Some(by.checked_sub(self.termination_time()).unwrap_or(by));
    }

    fn abandon(&mut self) {
        self.return_waiting();
        let read = self.running.as_ref().map_or(0, |running| {
            running.process.signal(Signal::KILL);
            running.process.read_by_sender()
        });
        let (acks, unread) = self.pending.give_up_all(read, Instant::now(), &Nack::Abandoned);
        self.acks.extend(acks);
        self.unsent.extend(unread);
    }

    fn is_closed(&self) -> bool {
        self.running.is_none() && self.closing.is_some()
    }
}

#[cfg(test)]
mod tests;
