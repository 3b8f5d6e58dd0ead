//! Lines to a program that the collector runs, which answers for every token: `--sender`.
//!
//! `docs/OPERATIONS.md` specifies the protocol; `ledger` decides what an answer counts for.
//!
//! # The life of a sender
//! It is started, and left alone for 0.2 s, because a program that cannot work mostly ends at once. Then it is on trial:
//! it gets a single token until its first answer, so that a sender that crashes or talks nonsense costs an attempt of
//! one token and not of the queue. From then on it gets what it keeps up with. It is ended, and started again after a
//! growing pause, if it is hung, closes a pipe or ends by itself.
//!
//! # What happens to the tokens of a sender that ends
//! - Of a line that it has not read, as the kernel tells: the batch comes back as if it had not been claimed.
//! - Of a line that it may have read: what it has answered counts, the rest goes out again with a higher attempt. That is
//!   a second mail if it sent one and could not say so.
//! - If it was on trial, its only token is to blame: that is a failed attempt of it, so that a single row which makes the
//!   sender crash cannot keep all others from going out.
//! - If it was ended because it was hung, all that it had read and not answered is to blame: one of these tokens may be
//!   what it hangs on, and would hang the next one, too.

mod answer;
mod circuit;
mod command;
mod errors;
mod hearing;
mod ledger;
mod life;
mod lines;
mod process;
mod reason;

use std::collections::VecDeque;
use std::future::pending;
use std::mem;
use std::time::{Duration, Instant};

pub use answer::{Answer, NotAnAnswer, Sent, Unavailable, parse_answer};
pub use command::{NotACommand, SenderCommand};
pub use process::kill_running_sender;

use super::{Parcel, Readiness, Sink, SinkError, Taken};
use crate::alarm::reached;
use crate::backoff::Backoff;
use crate::complaints::Complaints;
use crate::outage::Outage;
use crate::queue::{BatchId, Exception};
use circuit::{Circuit, State as Availability};
use ledger::Ledger;
use process::Process;

/// The longest pause before a sender is started again. Long enough that one that always crashes uses up few tokens.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A program that sends mails.
#[derive(Debug)]
pub struct Sender {
    command: SenderCommand,
    timeout: Duration,
    /// Lines that were not begun, the oldest first.
    waiting: VecDeque<(Parcel, Instant)>,
    ledger: Ledger,
    state: State,
    taken: Vec<Taken>,
    returned: Vec<BatchId>,
    backoff: Backoff,
    outage: Outage,
    /// Whether it can send at all. It outlives the process: what is unavailable is a server behind it.
    circuit: Circuit,
    /// What was said of its nonsense, and of tokens that it wants again.
    complaints: Complaints,
    refused: Complaints,
    /// When the sender is to be ended at the latest, once nothing more is sent.
    closing: Option<Instant>,
}

#[derive(Debug)]
enum State {
    /// To be started then.
    Down {
        start_at: Instant,
    },
    Up(Box<Up>),
}

#[derive(Debug)]
struct Up {
    process: Process,
    /// When it may get its first token.
    settled_at: Instant,
    /// Whether it was told that it is settled.
    is_settled: bool,
    has_answered: bool,
    closed: Option<ClosedPipe>,
    ending: Option<Ending>,
    started: Instant,
}

/// A pipe that the sender has closed, and when it is ended for that. Who ends closes them first.
#[derive(Clone, Copy, Debug)]
struct ClosedPipe {
    pipe: &'static str,
    end_at: Instant,
}

const INPUT: &str = "standard input";
const OUTPUT: &str = "standard output";

/// A sender that was told to end.
#[derive(Debug)]
struct Ending {
    /// Why; `None` if it only did what it should.
    fault: Option<Fault>,
    /// When it is killed; `None` if it was.
    kill_at: Option<Instant>,
}

/// What a sender is ended for.
#[derive(Debug)]
struct Fault {
    /// The end of a sentence about it.
    sentence: String,
    /// Whether it said nothing while it owed answers.
    is_silence: bool,
}

impl Sender {
    /// A sender that is started when [`Sink::changed`] is called first. It is hung when it says nothing for `timeout`.
    pub fn new(command: SenderCommand, timeout: Duration) -> Self {
        Self {
            command,
            timeout,
            waiting: VecDeque::new(),
            ledger: Ledger::default(),
            state: State::Down { start_at: Instant::now() },
            taken: Vec::new(),
            returned: Vec::new(),
            backoff: Backoff::up_to(LONGEST_PAUSE),
            outage: Outage::of("sending"),
            circuit: Circuit::new(),
            complaints: Complaints::default(),
            refused: Complaints::default(),
            closing: None,
        }
    }

    fn return_waiting(&mut self) {
        self.returned.extend(self.waiting.drain(..).map(|(parcel, _)| parcel.batch));
    }

    /// Begins the next line if the sender can take it.
    fn begin(&mut self, now: Instant) {
        let State::Up(up) = &mut self.state else { return };
        if up.ending.is_none()
            && up.process.is_idle()
            && let Some((parcel, sent)) = self.waiting.pop_front()
        {
            let bytes = up.process.begin(parcel.line);
            self.ledger.begin((parcel.batch, parcel.name), parcel.ids, (sent, now), bytes);
        }
    }

    /// Whether a line that is sent now can be written, and is not sent in vain.
    fn takes_lines(&self) -> bool {
        let is_available = match self.circuit.state() {
            Availability::Closed => true,
            Availability::Open { .. } => false,
            Availability::HalfOpen { .. } => self.in_flight() == 0,
        };
        is_available && self.is_up()
    }

    fn is_up(&self) -> bool {
        match &self.state {
            State::Up(up) => {
                up.process.takes_lines()
                    && up.closed.is_none()
                    && up.ending.is_none()
                    && self.closing.is_none()
            }
            State::Down { .. } => false,
        }
    }
}

impl Sink for Sender {
    fn send(&mut self, parcel: Parcel) {
        if self.takes_lines() {
            self.waiting.push_back((parcel, Instant::now()));
        } else {
            self.returned.push(parcel.batch);
        }
    }

    async fn changed(&mut self) -> Result<(), SinkError> {
        loop {
            if self.is_silent(Instant::now()) && self.listen().await {
                return Ok(());
            }
            let now = Instant::now();
            if self.act(now) || !self.taken.is_empty() || !self.returned.is_empty() {
                return Ok(());
            }
            self.begin(now);
            let due = self.due_at();
            let event = async {
                match &mut self.state {
                    State::Up(up) => up.process.event().await,
                    State::Down { .. } => pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                event = event => Some(event),
                () = reached(due) => None,
            };
            if let Some(event) = event
                && self.handle(&event, Instant::now())
            {
                return Ok(());
            }
        }
    }

    fn taken(&mut self) -> Vec<Taken> {
        mem::take(&mut self.taken)
    }

    fn returned(&mut self) -> Vec<BatchId> {
        mem::take(&mut self.returned)
    }

    fn readiness(&self) -> Readiness {
        match &self.state {
            State::Up(up) if up.is_settled && self.is_up() => match self.circuit.state() {
                Availability::Open { .. } => Readiness::Away,
                _ if !up.has_answered => Readiness::OnTrial,
                Availability::HalfOpen { .. } => Readiness::HalfOpen,
                Availability::Closed => Readiness::Ready,
            },
            _ => Readiness::Away,
        }
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.ledger.len()
    }

    fn waiting_since(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, sent)| *sent)
    }

    fn recall(&mut self) -> Vec<BatchId> {
        self.waiting.drain(..).map(|(parcel, _)| parcel.batch).collect()
    }

    fn forget(&mut self, batches: &[BatchId]) {
        self.waiting.retain(|(parcel, _)| !batches.contains(&parcel.batch));
        self.ledger.forget(batches);
    }

    /// So that all is over within the timeout, the last settlement included.
    fn grace(&self) -> Duration {
        self.timeout.saturating_sub(Duration::from_secs(3).min(self.timeout / 4))
    }

    /// A commit takes its time, however short the timeout is.
    fn time_to_record(&self) -> Duration {
        self.timeout.saturating_sub(self.grace()).max(Duration::from_millis(500))
    }

    fn close(&mut self, by: Instant) {
        self.closing = Some(by.checked_sub(self.termination()).unwrap_or(by));
    }

    fn abandon(&mut self) {
        self.return_waiting();
        let read = match &mut self.state {
            State::Up(up) => {
                up.process.kill();
                up.process.read_by_sender()
            }
            State::Down { .. } => 0,
        };
        let (taken, unread) = self.ledger.give_up_all(read, Instant::now(), &Exception::Unanswered);
        self.taken.extend(taken);
        self.returned.extend(unread);
    }

    fn is_closed(&self) -> bool {
        matches!(self.state, State::Down { .. }) && self.closing.is_some()
    }
}

#[cfg(test)]
mod tests;
