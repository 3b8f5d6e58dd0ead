//! Where lines go, and when they count as taken.

mod sender;
mod stdout;

use std::fmt;
use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

pub use sender::{
    Answer, NotACommand, NotAnAnswer, Sender, SenderCommand, Sent, Unavailable, kill_running_sender,
    parse_answer,
};
pub use stdout::{StartError, Stdout};

use crate::queue::{BatchId, Exception};

/// A reader of lines.
pub trait Sink {
    /// Hands over the line of a batch. Never waits: what does not go out at once is kept.
    fn send(&mut self, parcel: Parcel);

    /// Waits until something happened that one of the other questions tells of. Can be dropped at any point.
    ///
    /// # Errors
    /// Nothing more will be taken. What was taken before is still told by [`taken`](Self::taken).
    fn changed(&mut self) -> impl Future<Output = Result<(), SinkError>>;

    /// The batches whose lines were taken, or given up after the reader may have read them, since the last call.
    fn taken(&mut self) -> Vec<Taken>;

    /// The batches that came back since the last call: the reader has not read their lines and never will.
    fn returned(&mut self) -> Vec<BatchId> {
        Vec::new()
    }

    /// What the reader is able to take.
    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    /// How many lines were sent and neither taken, returned, recalled nor forgotten.
    fn in_flight(&self) -> usize;

    /// When the oldest line was sent of which nothing is on its way to the reader yet.
    fn waiting_since(&self) -> Option<Instant>;

    /// Takes back all lines of which nothing is on its way to the reader yet.
    fn recall(&mut self) -> Vec<BatchId>;

    /// Somebody else sends these batches now; what the reader says of them is of no use any more.
    fn forget(&mut self, batches: &[BatchId]) {
        let _ = batches;
    }

    /// Nothing more is sent. How long the reader may take for what is on its way.
    fn grace(&self) -> Duration;

    /// How long the database gets afterwards to record what the reader took last.
    fn time_to_record(&self) -> Duration {
        Duration::from_secs(3)
    }

    /// Nothing more is sent: the reader is to finish what is on its way, until `by` at the latest.
    /// [`changed`](Self::changed) goes on being called until [`is_closed`](Self::is_closed).
    fn close(&mut self, by: Instant) {
        let _ = by;
    }

    /// Gives up everything that is on its way, which is told by [`taken`](Self::taken) and
    /// [`returned`](Self::returned) then.
    fn abandon(&mut self);

    /// Whether there is nothing left to wait for once nothing more is sent.
    fn is_closed(&self) -> bool {
        self.in_flight() == 0
    }
}

/// What a reader is able to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Nothing: whatever is claimed now is claimed in vain.
    Away,
    /// A single token: it has not shown yet that it can deal with one.
    OnTrial,
    /// A single batch: it was unavailable, and may be so still.
    HalfOpen,
    /// As much as it keeps up with.
    Ready,
}

/// A batch as it goes to the reader.
#[derive(Clone, PartialEq, Eq)]
pub struct Parcel {
    /// The batch that the line was made of.
    pub batch: BatchId,
    /// The batch's name, by which the reader may speak of it.
    pub name: u128,
    /// The tokens of the line, by id.
    pub ids: Vec<i64>,
    /// The line with its line feed.
    pub line: Vec<u8>,
}

/// Without the line, which holds addresses and tokens.
impl fmt::Debug for Parcel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Parcel");
        shown.field("batch", &self.batch).field("ids", &self.ids).finish_non_exhaustive()
    }
}

/// A line that the reader has, or has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The batch that the line was made of.
    pub batch: BatchId,
    /// The tokens of the line that the reader did not take, by id.
    pub exceptions: Vec<(i64, Exception)>,
    /// How long that took since it was sent.
    pub after: Duration,
}

/// Why nothing more can be sent.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Nobody can read what would be written.
    #[error("the reader of standard output is gone; start it again together with the collector")]
    Closed,
    /// The operating system refuses.
    #[error("standard output cannot be written: {0}")]
    Failed(io::Error),
}
