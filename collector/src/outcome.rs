//! What became of a token that was not sent, and how a sender does: what a sink says, and queue,
//! database and metrics are told.

use std::time::Duration;

/// Why a token of a batch was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nack {
    /// No verdict on it: it goes out again at once, and that was no failed attempt.
    Unanswered,
    /// The whole sender was unavailable, which is no failed attempt of a token.
    Unavailable {
        /// When it may go out again, so that others come first.
        /// With `None` it keeps its place in the queue.
        after: Option<Duration>,
        /// The sender's reason, without control characters and of bounded length.
        reason: String,
    },
    /// No mail of it was tried, for a reason that does not concern it: no failed attempt.
    Untried {
        /// When it may go out again. With `None` the queue's first pause decides.
        after: Option<Duration>,
        /// The sender's reason, without control characters and of bounded length.
        reason: String,
    },
    /// The sender ended or hung, perhaps because of it:
    /// a failed attempt, and the number of those is bounded.
    Failed {
        /// What became of the sender.
        reason: String,
    },
    /// It was refused for now. A failed attempt only where the settings bound refusals.
    Retry {
        /// When it may go out again. With `None` the queue's backoff decides.
        after: Option<Duration>,
        /// The sender's reason, without control characters and of bounded length.
        reason: String,
    },
    /// Nobody knows whether the provider accepted it. It goes out again after one and after five
    /// minutes; a third time it is given up, since it may have been delivered.
    InDoubt {
        /// What happened, without control characters and of bounded length.
        reason: String,
    },
    /// A broker has stored its mail, for somebody else to send it. A verdict of theirs tells later
    /// what became of it.
    HandedOver,
    /// It will never go out.
    Dead {
        /// Why, without control characters and of bounded length.
        reason: String,
    },
    /// The same, and the provider said for sure that its address does not exist.
    UnknownAddress {
        /// Why, without control characters and of bounded length.
        reason: String,
    },
}

impl Nack {
    /// The reason, if there is one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Unanswered | Self::HandedOver => None,
            Self::Unavailable { reason, .. }
            | Self::Untried { reason, .. }
            | Self::Failed { reason }
            | Self::Retry { reason, .. }
            | Self::InDoubt { reason }
            | Self::Dead { reason }
            | Self::UnknownAddress { reason } => Some(reason),
        }
    }
}

/// What a collector tells the database of its sender, for `mailroom status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderState {
    /// As the column `state` of the table `mailroom.collectors` has it.
    pub name: &'static str,
    /// For how long it has been so.
    pub lasted: Duration,
    /// Why it is not available, without control characters, addresses and tokens.
    pub reason: Option<String>,
}

impl SenderState {
    /// Names of the states in which it is known not to work, so that mails wait.
    pub const UNAVAILABLE: [&str; 3] = ["failing", "open", "half_open"];
}
