//! Where tokens wait for their mail.
//!
//! A queue hands out tokens in batches and is told what became of each batch. It decides what is eligible, keeps what
//! has to survive this process, and recovers its own connection; it knows nothing of lines and sinks.

mod activity;
mod answer;
mod batch_names;
mod cursor;
mod deliveries;
mod either;

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use mailroom_verifier_core::Action;

pub use cursor::{CursorQueue, Intervals};
pub use deliveries::DeliveriesQueue;
pub use either::EitherQueue;

/// A token's row with what the mail needs of its account.
///
/// Texts are bytes, because a database without an encoding may hold any; nothing here is checked yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The row's id.
    pub id: i64,
    /// Which hand-over of this token it is, from 1; always 1 in a queue that does not count.
    pub attempt: u32,
    /// What the link will do.
    pub action: Action,
    /// The account's email address.
    pub email: Vec<u8>,
    /// The account's login name.
    pub login: Vec<u8>,
    /// The row's random bytes, 32 in a sound row.
    pub secret: Vec<u8>,
    /// The row's code; the column can be null.
    pub code: Option<Vec<u8>>,
    /// When the link ends, in seconds since the Unix epoch.
    pub expires_at: i64,
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Token");
        shown.field("id", &self.id).field("action", &self.action).finish_non_exhaustive()
    }
}

/// Names a claimed batch until it is settled or released; never given twice in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// Tokens that go out together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The name to settle or release it by.
    pub id: BatchId,
    /// Its name towards the database and the reader, which no other batch of any process has.
    pub name: u128,
    /// The tokens, at least one.
    pub tokens: Vec<Token>,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Which batch.
    pub batch: BatchId,
    /// Its tokens that were not handed over, by id, each at most once. All others were.
    pub exceptions: Vec<(i64, Exception)>,
}

impl Settlement {
    /// The reader has all tokens of `batch`.
    pub fn sent(batch: BatchId) -> Self {
        Self { batch, exceptions: Vec::new() }
    }
}

/// Why a token of a batch was not handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exception {
    /// Nobody said anything about it: it goes out again at once, and that was no failed attempt.
    Unanswered,
    /// The whole sender was unavailable, which is no failed attempt of a token.
    Unavailable {
        /// When it may go out again, so that others come first; to its place if nobody said so.
        after: Option<Duration>,
        /// What the sender said, without control characters and of bounded length.
        reason: String,
    },
    /// The sender ended or fell silent over it, perhaps because of it: a failed attempt, of which there may be only so many.
    Failed {
        /// What became of the sender.
        reason: String,
    },
    /// It was refused for now. A failed attempt only where the settings bound refusals.
    Retry {
        /// When it may go out again; as the queue thinks fit if nobody said so.
        after: Option<Duration>,
        /// What the sender said, without control characters and of bounded length.
        reason: String,
    },
    /// It will never go out.
    Dead {
        /// Why, without control characters and of bounded length.
        reason: String,
    },
}

impl Exception {
    /// Why, if anybody said so.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Unanswered => None,
            Self::Unavailable { reason, .. }
            | Self::Failed { reason }
            | Self::Retry { reason, .. }
            | Self::Dead { reason } => Some(reason),
        }
    }
}

/// What to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The most batches.
    pub batches: usize,
    /// The most tokens of a batch.
    pub limit: usize,
    /// Whether a last batch may hold fewer than `limit` tokens.
    pub partial: bool,
    /// Whether to look also where this queue has looked before: at tokens that were not eligible then, and at tokens
    /// that were committed late. Costs more; for now and then.
    pub again: bool,
}

/// What was claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// At most as many batches as wanted. If it is as many, there may be more.
    pub batches: Vec<Batch>,
    /// Eligible tokens that were left because they do not fill a batch.
    pub waiting: usize,
    /// Tokens that were put off for a moment because their account could not be read.
    pub put_off: usize,
}

/// What a queue has for a collector that is about to sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prospect {
    /// How many tokens are due by now, counted no further than asked. Some may turn out not to be eligible, and some
    /// may be in the hands of another collector that has not committed yet: it can still fail.
    pub due: usize,
    /// When the next one falls due, or a lease ends, unless a notification says otherwise; `None` if only a
    /// notification can bring any. A queue of leases does not look further ahead than a lease lasts, because nobody
    /// announces those that others take meanwhile.
    pub next: Option<Duration>,
}

/// A source of batches.
///
/// The futures can be dropped at any point without losing a token: whatever was claimed by a call that did not return
/// is claimed again.
pub trait Queue {
    /// Connects and makes the queue ready to be claimed from, after the start and after an error.
    ///
    /// Batches claimed before that are neither settled nor released stay claimed if the queue can keep them.
    fn open(&mut self) -> impl Future<Output = Result<(), QueueError>>;

    /// Remembers for good what became of batches, so that no later process sends again what the reader has, and claims
    /// batches of eligible tokens if any are wanted: in one round trip if the queue can.
    ///
    /// A settlement passed to a call that failed or was dropped counts as passed again at the next call. One of a batch
    /// that the queue has lost to another collector changes nothing.
    fn exchange(
        &mut self,
        settlements: Vec<Settlement>,
        want: Option<Want>,
    ) -> impl Future<Output = Result<Claim, QueueError>>;

    /// Whether it keeps for each token why it was given up. If not, the log is the only record.
    fn keeps_reasons(&self) -> bool {
        true
    }

    /// Gives back batches of which nothing was sent; they can be claimed again.
    fn release(&mut self, batches: &[BatchId]);

    /// When [`Queue::tend`] is to be called; `None` if nothing needs it.
    fn tend_at(&self) -> Option<Instant>;

    /// Keeps claims alive while their lines are on the way. Returns the batches that were lost, which somebody else sends
    /// now.
    fn tend(&mut self) -> impl Future<Output = Result<Vec<BatchId>, QueueError>>;

    /// Looks, by a statement that begins now, whether there is anything to claim: counts up to `enough` tokens that are
    /// due, wherever they stand and whoever holds their rows.
    fn prospect(&mut self, enough: usize) -> impl Future<Output = Result<Prospect, QueueError>>;
}

/// Why a queue does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The database is away, or answers wrongly for now; to be tried again after [`Queue::open`].
    #[error("{0}")]
    Unavailable(String),
    /// Another collector has this queue; to be tried again until it ends.
    #[error("{0}")]
    Taken(String),
    /// The database will not do without somebody's help: a schema or a privilege is missing.
    #[error("{0}")]
    Unusable(String),
    /// Another queue has taken this one's place for good: to go on would send mails a second time.
    #[error("{0}")]
    Superseded(String),
}
