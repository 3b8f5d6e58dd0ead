//! The queues: batches of tokens are claimed from one, and settled.
//!
//! A queue decides which tokens are eligible, records what has to survive this process, and
//! recovers its own connection; it does not depend on lines and sinks.

mod activity;
mod batch_id;
mod cursor;
mod deliveries;
mod session;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mailroom_verifier_core::{Action, Version};

use crate::metrics::Metrics;

pub use crate::outcome::{Nack, SenderState};
pub use batch_id::BatchId;
pub use cursor::CursorQueue;
pub use deliveries::DeliveriesQueue;
#[cfg(feature = "relay")]
pub(crate) use deliveries::storable;
pub(crate) use deliveries::{LIST_ACTIONS, SignableActions};
pub use mailroom_traces::Traceparent;

/// A token's row with what the mail needs of its recipient.
///
/// Texts are bytes, because a database without an encoding may hold any;
/// nothing here is checked yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The row's id.
    pub id: i64,
    /// Which delivery attempt it is, from 1; always 1 in a queue that does not count.
    pub attempt: u32,
    /// How many attempts ended in doubt: the provider may have accepted the mail.
    pub doubts: u32,
    /// Which tokens it goes before: 0 before 1. `None` in a queue that has no priorities.
    pub priority: Option<i16>,
    /// What the link will do; a further action with an empty path has no link.
    pub action: Action,
    /// The recipient's email address.
    pub email: Vec<u8>,
    /// What the mail calls the recipient: an account's login name; may be empty.
    pub login: Vec<u8>,
    /// The row's random bytes, 32 in a sound row.
    pub secret: Vec<u8>,
    /// The row's code; the column can be null.
    pub code: Option<Vec<u8>>,
    /// When the link ends, in seconds since the Unix epoch.
    pub expires_at: i64,
    /// The language of the mail, as in BCP 47.
    pub language: Option<String>,
    /// What the application says for the mail's template: JSON.
    pub payload: Option<Vec<u8>>,
    /// The browser that the link is for, 16 bytes in a sound row. `None` is for every browser.
    pub binding: Option<Vec<u8>>,
    /// The trace in which it was enqueued.
    pub traceparent: Option<Traceparent>,
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Token");
        shown.field("id", &self.id).field("action", &self.action).finish_non_exhaustive()
    }
}

#[cfg(test)]
impl Token {
    /// An activation.
    pub(crate) fn example(id: i64, login: &[u8]) -> Self {
        Self {
            id,
            attempt: 2,
            doubts: 0,
            priority: Some(1),
            action: Action::Activate,
            email: b"a@b.test".to_vec(),
            login: login.to_vec(),
            secret: vec![9; 32],
            code: None,
            expires_at: 1_800_000_900,
            language: None,
            payload: None,
            binding: None,
            traceparent: None,
        }
    }
}

/// Tokens that go out together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Unique among the batches of all processes.
    pub id: BatchId,
    /// The tokens, at least one.
    pub tokens: Vec<Token>,
}

impl Batch {
    /// The traces of its tokens, by id, where they have one.
    pub fn traces(&self) -> Vec<(i64, Traceparent)> {
        self.tokens.iter().filter_map(|token| Some((token.id, token.traceparent?))).collect()
    }
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Which batch.
    pub batch: BatchId,
    /// Its tokens that were not sent, by id, each at most once. All others were.
    pub nacks: Vec<(i64, Nack)>,
    /// What the provider said of tokens that were sent, by id, where the sender tells.
    pub receipts: Vec<(i64, Receipt)>,
    /// The traces of its tokens, by id, where they have one.
    pub traces: Vec<(i64, Traceparent)>,
}

impl Settlement {
    /// Without receipts and traces.
    pub fn of(batch: BatchId, nacks: Vec<(i64, Nack)>) -> Self {
        Self { batch, nacks, receipts: Vec::new(), traces: Vec::new() }
    }
}

/// What a provider said of a mail that it accepted: redacted, and of bounded length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its kind, such as `smtp`.
    pub provider: String,
    /// Its own id of the mail.
    pub message_id: Option<String>,
    /// What it answered.
    pub answer: String,
}

/// What to claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The most batches.
    pub batches: usize,
    /// The most tokens of a batch.
    pub limit: usize,
    /// Whether the last batch of each statement may hold fewer than `limit` tokens.
    pub partial: bool,
    /// Whether to read again what was passed: tokens that were not eligible then, and tokens that
    /// were committed late. That costs more, so it is for now and then.
    pub rescan: bool,
    /// Whether to leave tokens alone that may have been delivered already.
    pub spares_doubtful: bool,
}

/// What was claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// At most as many batches as requested. If there are as many, more may wait.
    pub batches: Vec<Batch>,
    /// How many eligible tokens were left because they do not fill a batch.
    pub waiting: usize,
    /// How many tokens were put off because their subject is not eligible,
    /// or their action cannot be signed.
    pub deferred: usize,
    /// How long to wait before the next claim, if the rate or the month's budget allowed fewer
    /// tokens than there may be.
    pub wait: Option<Duration>,
    /// Whether the search ended before it had read all that is due.
    pub has_more: bool,
    /// Whether nothing is left of the month's budget.
    pub is_budget_spent: bool,
}

/// What a queue has for a collector that is about to go idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peek {
    /// How many tokens are due, counted no further than asked. Some may turn out not to be
    /// eligible, and some may be claimed by another collector that has not committed yet
    /// and can still fail.
    pub due: usize,
    /// When the next one is due, or a lease ends, unless a notification comes earlier; `None` if
    /// only a notification can bring any. For a collector that is notified at most the length of a
    /// lease, because the leases that other collectors take meanwhile are not announced.
    pub next: Option<Duration>,
}

/// A source of batches.
///
/// The futures can be dropped at any point without losing a token:
/// what a dropped call has claimed is released.
pub trait Queue {
    /// Connects, after the start and after an error.
    /// Claimed batches stay claimed if the queue can keep them.
    fn open(&mut self) -> impl Future<Output = Result<(), QueueError>>;

    /// Records what became of batches, so that no later process sends again what the reader has,
    /// and claims batches of eligible tokens if any are wanted: both at once if the queue can.
    ///
    /// The settlements of a call that failed or was dropped are part of the next one. That of a
    /// batch which the queue has lost to another collector changes nothing.
    fn settle_and_claim(
        &mut self,
        settlements: Vec<Settlement>,
        want: Option<ClaimRequest>,
    ) -> impl Future<Output = Result<Claim, QueueError>>;

    /// Whether settlements that are passed with a claim do not delay it, because they have a
    /// session of their own.
    fn settles_beside(&self) -> bool {
        false
    }

    /// The format in which the tokens of claimed batches are signed; the same for as long as the
    /// process lives.
    fn token_format(&self) -> Version;

    /// The names of the actions whose tokens are claimed, as far as the database lists them.
    fn actions(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Releases batches from which nothing was sent; they can be claimed again.
    fn release(&mut self, batches: &[BatchId]);

    /// When [`Queue::heartbeat`] is to be called; `None` if a claim lasts as long as the session.
    fn heartbeat_at(&self) -> Option<Instant> {
        None
    }

    /// Keeps claims alive while they are in flight. Returns the batches that were lost, which
    /// another collector sends now.
    fn heartbeat(&mut self) -> impl Future<Output = Result<Vec<BatchId>, QueueError>> {
        async { Ok(Vec::new()) }
    }

    /// What the next heartbeat tells of the sender.
    fn note_sender(&mut self, _state: Option<SenderState>) {}

    /// Counts in these metrics from now on.
    fn count_in(&mut self, _metrics: Arc<Metrics>) {}

    /// Closes the queue in order, while nothing is in flight, until [`open`](Self::open). Returns
    /// whether it did: not while a statement that was lost may still claim something.
    fn rest(&mut self) -> impl Future<Output = Result<bool, QueueError>> {
        async { Ok(false) }
    }

    /// How many tokens were sent without the database having said that it has recorded it.
    fn unrecorded(&self) -> usize {
        0
    }

    /// Whether anything was sent without that. A queue that cannot count it may know this.
    fn has_unrecorded(&self) -> bool {
        self.unrecorded() > 0
    }

    /// Tells that this collector ends in order, and why.
    fn leave(&mut self, _reason: &str) -> impl Future<Output = Result<(), QueueError>> {
        async { Ok(()) }
    }

    /// Counts, in a statement that begins now, up to `enough` due tokens, also locked ones. A queue
    /// that announces all its tokens, whoever holds the idle lock, need not implement it.
    fn peek(&mut self, _enough: usize) -> impl Future<Output = Result<Peek, QueueError>> {
        async { Ok(Peek::default()) }
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The database cannot be reached, or gives a wrong answer for now;
    /// to be tried again after [`Queue::open`].
    #[error("{0}")]
    Unavailable(String),
    /// Another collector has this queue; to be tried again until that one ends.
    #[error("{0}")]
    Locked(String),
    /// The operator has to act: a schema or a privilege is missing.
    #[error("{0}")]
    Unusable(String),
    /// Another queue has replaced this one for good: to go on would send mails a second time.
    #[error("{0}")]
    Superseded(String),
}
