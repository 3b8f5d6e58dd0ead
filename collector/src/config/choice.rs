//! Settings that are one of a few words, or a word or a number.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QueueKind {
    /// Rows that are queued, leased and logged.
    Deliveries,
    /// `jobs.last_seq`, on an untouched base schema.
    Cursor,
}

/// What to do at the start while the schema, or a right to it, is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MissingSchema {
    /// Wait for it, as for a database that is down.
    Wait,
    Exit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wake {
    /// Notifications; the poll covers those that are lost.
    Listen,
    /// The poll alone. Saves a connection, and the database never notifies this collector.
    Poll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LineFormat {
    /// Five fields a token, for readers of the existing collector.
    Csv,
    Ndjson,
}

/// How many batches may be on their way to the reader at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchLimit {
    /// As many as the reader takes within about a second.
    Auto,
    /// This many, however slow the reader is.
    Batches(usize),
}

impl fmt::Display for PrefetchLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Batches(count) => count.fmt(formatter),
        }
    }
}

/// The age from which delivery attempts are pruned; `None` if they never are.
// The parser of the derive takes `Option` itself for a flag without a default.
pub(crate) type Retention = Option<Duration>;
