//! Where lines go, and when they count as taken.

mod stdout;

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

pub use stdout::{StartError, Stdout};

use crate::queue::{BatchId, Exception};

/// A reader of lines, which are taken in the order in which they were sent.
pub trait Sink {
    /// Hands over the line of a batch. Never waits: what does not go out at once is kept.
    fn send(&mut self, parcel: Parcel);

    /// Waits until a line was begun or taken since the last call. Can be dropped at any point.
    ///
    /// # Errors
    /// Nothing more will be taken. What was taken before is still told by [`taken`](Self::taken).
    fn changed(&mut self) -> impl Future<Output = Result<(), SinkError>>;

    /// The batches whose lines were taken since the last call, in order.
    fn taken(&mut self) -> Vec<Taken>;

    /// How many lines were sent and neither taken nor recalled.
    fn in_flight(&self) -> usize;

    /// When the oldest line was sent of which nothing is on its way to the reader yet.
    fn waiting_since(&self) -> Option<Instant>;

    /// Takes back all lines of which nothing is on its way to the reader yet.
    fn recall(&mut self) -> Vec<BatchId>;
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
