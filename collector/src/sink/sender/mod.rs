//! Lines to a program that the collector runs, which answers for every token: `--sender`.
//!
//! docs/reference/sender-protocol.md specifies the protocol, and what becomes of lines when the
//! sender ends; `pending_batch` decides what an answer counts for.

mod circuit;
mod log;
mod pending_acks;
mod pending_batch;
mod process;
mod protocol;
mod state;
mod supervisor;

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use futures_util::future::OptionFuture;
use rustix::process::Signal;

use super::{Ack, Readiness, Sink, SinkError};
use crate::line::Line;
use crate::log::outage::OutageLog;
use crate::queue::{BatchId, Nack, SenderState};
use crate::sender_command::SenderCommand;
use crate::timer::sleep_until_opt;
use circuit::{Circuit, CircuitState};
use mailroom_pace::{Backoff, LogLimit};
use pending_acks::PendingAcks;
pub(crate) use pending_batch::MAX_WORK;
pub(crate) use process::kill_running_sender;
#[cfg(feature = "relay")]
pub(crate) use protocol::parse_receipt;
pub use protocol::{Reply, SentTokens, Work, parse_answer, parse_reply};
use supervisor::{RunningSender, TERMINATION};

/// The longest pause before a sender is started again. Long enough that one that always crashes
/// uses up few tokens.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How long tokens that may have been delivered already are left to wait while a sender or the
/// circuit is on trial. If no other token comes in that time, they are all there is to try.
const SPARED: Duration = Duration::from_secs(60);

/// How long the first start waits for the names of the actions, which the sender is told by its
/// environment. Without a database it starts all the same, and shows what is wrong with it.
const ACTIONS_TIMEOUT: Duration = Duration::from_secs(10);

/// A program that sends mails. Not `Debug`: lines hold addresses and tokens.
pub(crate) struct Sender {
    command: SenderCommand,
    /// The names of the actions; `None` until the database has listed them.
    actions: Option<String>,
    timeout: Duration,
    /// `None` until `start_at`.
    running: Option<Box<RunningSender>>,
    start_at: Instant,
    start_pauses: Backoff,
    /// Lines that are not begun, the oldest first, with the time when they were sent.
    waiting: VecDeque<(Line, Instant)>,
    pending: PendingAcks,
    acks: Vec<Ack>,
    unsent: Vec<BatchId>,
    circuit: Circuit,
    outage: OutageLog,
    ignored_answers: LogLimit,
    refused_tokens: LogLimit,
    untried_tokens: LogLimit,
    doubtful_tokens: LogLimit,
    /// When the sender is to be ended at the latest, once nothing more is sent.
    closing: Option<Instant>,
    /// Its state when it was asked for last, and since when.
    reported: (&'static str, Instant),
}

impl Sender {
    /// A sender that is started when [`Sink::changed`] is called and it is known what it is to
    /// [`expect`](Sink::expect), or some time has passed. It is hung when it answers
    /// nothing for `timeout`.
    pub(crate) fn new(command: SenderCommand, timeout: Duration) -> Self {
        Self {
            command,
            actions: None,
            timeout,
            running: None,
            start_at: Instant::now() + ACTIONS_TIMEOUT,
            start_pauses: Backoff::up_to(MAX_PAUSE),
            waiting: VecDeque::new(),
            pending: PendingAcks::new(timeout),
            acks: Vec::new(),
            unsent: Vec::new(),
            circuit: Circuit::closed(),
            outage: OutageLog::counting("sending"),
            ignored_answers: LogLimit::default(),
            refused_tokens: LogLimit::default(),
            untried_tokens: LogLimit::default(),
            doubtful_tokens: LogLimit::default(),
            closing: None,
            reported: (state::NEW, Instant::now()),
        }
    }

    /// Gives up what the sender may have read, with `nack` for tokens without a verdict, but
    /// `of_trial` for those on trial. The rest, behind the byte `read`, comes back unsent. Returns
    /// how many batches were given up.
    fn give_up(&mut self, read: u64, nack: &Nack, of_trial: &Nack, now: Instant) -> usize {
        self.unsent.extend(self.pending.take_unread(|bytes| bytes.start >= read));
        self.cancel_unsent();
        let before = self.acks.len();
        self.acks.extend(self.pending.give_up_all(now, nack, of_trial));
        self.acks.len() - before
    }

    /// Begins the next line, or closes the sender's input if nothing more is sent.
    fn write(&mut self, now: Instant) {
        let Some(running) = &mut self.running else { return };
        if let Some(closing) = self.closing
            && running.ending.is_none()
        {
            running.process.close_input();
            if self.pending.len() == 0 {
                // All that is left to it is to end.
                self.closing = Some(closing.min(now + TERMINATION));
            }
        } else if running.takes_lines()
            && running.process.is_idle()
            && let Some((Line { batch, ids, bytes, traces, .. }, sent_at)) =
                self.waiting.pop_front()
        {
            let bytes = running.process.begin(bytes);
            let is_trial = !running.has_answered;
            self.pending.begin(batch, ids, traces, (sent_at, now), bytes, is_trial);
        }
    }
}

impl Sink for Sender {
    fn send(&mut self, line: Line) {
        let is_wanted = match self.readiness() {
            Readiness::Down => false,
            // Another one may have been started since the batch was claimed.
            Readiness::OneToken => self.occupied() == 0 && line.ids.len() == 1,
            Readiness::OneBatch => self.occupied() == 0,
            Readiness::Ready => true,
        };
        if is_wanted {
            self.waiting.push_back((line, Instant::now()));
        } else {
            self.unsent.push(line.batch);
        }
    }

    async fn changed(&mut self) -> Result<(), SinkError> {
        self.write(Instant::now());
        if self.acks.is_empty() && self.unsent.is_empty() {
            let due = self.due_at();
            let event = self.running.as_mut().map(|running| running.process.event());
            tokio::select! {
                biased;
                Some(event) = OptionFuture::from(event) => {
                    self.handle(&event, Instant::now());
                }
                () = sleep_until_opt(due) => {}
            }
            self.read_if_silent().await;
            self.act(Instant::now());
        }
        Ok(())
    }

    fn ended(&mut self) -> (Vec<Ack>, Vec<BatchId>) {
        (mem::take(&mut self.acks), mem::take(&mut self.unsent))
    }

    /// One that runs already gets the names with its next start.
    fn expect(&mut self, actions: &[&str]) {
        if self.actions.replace(actions.join(",")).is_none() {
            self.start_at = self.start_at.min(Instant::now());
        }
    }

    fn readiness(&self) -> Readiness {
        match (&self.running, self.circuit.state) {
            (None, _) | (_, CircuitState::Open(_)) => Readiness::Down,
            (Some(running), _) if self.closing.is_some() || !running.takes_lines() => {
                Readiness::Down
            }
            (Some(running), _) if !running.has_answered => Readiness::OneToken,
            (_, CircuitState::HalfOpen) if self.circuit.tries_one => Readiness::OneToken,
            (_, CircuitState::HalfOpen) => Readiness::OneBatch,
            (_, CircuitState::Closed) => Readiness::Ready,
        }
    }

    fn state(&mut self) -> Option<SenderState> {
        Some(self.state_at(Instant::now()))
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.pending.len()
    }

    fn occupied(&self) -> usize {
        let has_answered = self.running.as_ref().is_some_and(|running| running.has_answered);
        self.in_flight() - self.pending.slow(Instant::now(), has_answered)
    }

    fn spares_doubtful(&self) -> bool {
        let Some(running) = &self.running else { return true };
        let since = if running.has_answered {
            self.circuit.half_open_since
        } else {
            Some(running.started_at)
        };
        since.is_some_and(|since| since.elapsed() < SPARED)
    }

    fn announces(&self) -> bool {
        true
    }

    fn waiting_since(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, sent_at)| *sent_at)
    }

    fn cancel_unsent(&mut self) {
        self.unsent.extend(self.waiting.drain(..).map(|(line, _)| line.batch));
    }

    fn drop_lost(&mut self, batches: &[BatchId]) {
        self.waiting.retain(|(line, _)| !batches.contains(&line.batch));
        self.pending.drop_lost(batches);
    }

    /// The sender's timeout. The last settlement gets a part of it.
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
        let read = self.running.as_ref().map_or(0, |running| {
            running.process.signal(Signal::KILL);
            running.process.read_by_sender()
        });
        self.give_up(read, &Nack::Unanswered, &Nack::Unanswered, Instant::now());
    }

    fn is_closed(&self) -> bool {
        self.running.is_none() && self.closing.is_some()
    }
}

#[cfg(test)]
mod tests;
