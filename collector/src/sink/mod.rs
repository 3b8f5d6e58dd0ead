//! Where lines go, and when they count as taken.

mod sender;
mod stdout;

use std::future::Future;
use std::time::{Duration, Instant};

use rustix::io::Errno;

#[cfg(feature = "relay")]
pub(crate) use sender::parse_receipt;
pub(crate) use sender::{MAX_WORK, Sender, kill_running_sender};
pub use sender::{Reply, SentTokens, Work, parse_answer, parse_reply};
pub(crate) use stdout::{StartError, Stdout};

use crate::line::Line;
use crate::queue::{BatchId, Nack, Receipt, SenderState, Traceparent};

/// A destination of lines: standard output or a sender.
pub(crate) trait Sink {
    /// Sends a line with at least one token. Never waits: the rest of a line that cannot be written
    /// at once is kept.
    fn send(&mut self, line: Line);

    /// Waits until another method may have something new to return; not at all while
    /// [`ended`](Self::ended) has. Cancellation-safe. After an error nothing more will be taken.
    fn changed(&mut self) -> impl Future<Output = Result<(), SinkError>>;

    /// The batches whose lines were taken, or given up after they may have been read, since the
    /// last call; and those whose lines were not read and never will be.
    fn ended(&mut self) -> (Vec<Ack>, Vec<BatchId>);

    /// Names the actions of which lines will come.
    fn expect(&mut self, _actions: &[&str]) {}

    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    /// The state of the sender, if there is one.
    fn state(&mut self) -> Option<SenderState> {
        None
    }

    /// How many lines were sent and neither taken, given up, cancelled nor dropped.
    fn in_flight(&self) -> usize;

    /// How many of these keep others waiting: not those that take long for a reason of their own.
    fn occupied(&self) -> usize {
        self.in_flight()
    }

    /// Whether tokens that may have been delivered already are to wait for others to show whether
    /// the sink works.
    fn spares_doubtful(&self) -> bool {
        false
    }

    /// Whether lines say which answers this program understands.
    fn announces(&self) -> bool {
        false
    }

    /// When the oldest line that is not begun was passed to [`send`](Self::send).
    fn waiting_since(&self) -> Option<Instant>;

    /// Cancels all lines that are not begun; [`ended`](Self::ended) returns their batches.
    fn cancel_unsent(&mut self);

    /// Other collectors send these batches now: answers for them are ignored from here on.
    fn drop_lost(&mut self, _batches: &[BatchId]) {}

    /// How long the lines in flight may take at the end.
    fn grace(&self) -> Duration;

    /// How long the database gets afterwards to record the acks that came last.
    fn time_to_record(&self) -> Duration {
        Duration::from_secs(3)
    }

    /// Stops sending; what is in flight is to be finished until `by`. The caller calls
    /// [`changed`](Self::changed) until [`is_closed`](Self::is_closed).
    fn close(&mut self, _by: Instant) {}

    /// Gives up everything in flight; [`ended`](Self::ended) returns it.
    fn abandon(&mut self);

    /// Whether there is nothing left to wait for once nothing more is sent.
    fn is_closed(&self) -> bool {
        self.in_flight() == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Nothing: what is claimed could not be sent.
    Down,
    /// A single token: the sender has not answered since it was started.
    OneToken,
    /// A single batch: the sender was unavailable, and may be so still.
    OneBatch,
    /// As many batches as it keeps up with.
    Ready,
}

/// A batch whose line was taken, answered or given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) batch: BatchId,
    /// The tokens of the line that were not sent, by id.
    pub(crate) nacks: Vec<(i64, Nack)>,
    /// What the provider said of those that were, where the sender tells.
    pub(crate) receipts: Vec<(i64, Receipt)>,
    /// The traces of the tokens of its batch that have one.
    pub(crate) traces: Vec<(i64, Traceparent)>,
    pub(crate) after: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SinkError {
    #[error("the reader of standard output is gone; start it again together with the collector")]
    Closed,
    #[error("standard output cannot be written: {0}")]
    Failed(Errno),
}

impl From<Errno> for SinkError {
    fn from(errno: Errno) -> Self {
        if errno == Errno::PIPE { Self::Closed } else { Self::Failed(errno) }
    }
}
