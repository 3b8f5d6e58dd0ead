//! What the thread that decides hears of.

use crate::key::Key;
use crate::provider::Verdict;
use crate::queue::Queued;

/// Whether all of a line was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Whole,
    TooLong,
}

/// What happened.
pub(crate) enum Event {
    /// A line came; if it is too long, its beginning.
    Line(Vec<u8>, Length),
    /// An attempt ended.
    Delivered {
        /// The provider's place.
        lane: usize,
        /// The key of the mail; `None` if the provider alone was tried.
        key: Option<Key>,
        /// What became of it.
        verdict: Verdict,
        /// The mails that waited for this provider and must not wait any longer.
        withdrawn: Vec<Queued>,
    },
    /// No line will come any more.
    InputEnded(Result<(), String>),
}
