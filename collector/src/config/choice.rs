//! Settings that are one of a few words, or a word or a number.

use std::net::SocketAddr;
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
    /// Calls of `POST /wake`, and the poll. There is no session while there is nothing to do.
    Call,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LineFormat {
    /// Five fields a token, for readers of the existing collector.
    Csv,
    Ndjson,
}

// Aliases, because clap's derive takes a field that is written `Option<T>`
// for an argument without a default.

/// How many batches may be on their way to the reader at once. `None` lets the number follow the
/// reader: as many as it takes within about a second.
pub(crate) type PrefetchLimit = Option<usize>;

/// The age from which delivery attempts and dead letters are pruned; `None` if nothing ever is.
pub(crate) type Retention = Option<Duration>;

/// How long after their expiry tokens are pruned, unless something else is asked for.
pub(crate) const TOKEN_RETENTION: &str = "2d";

/// Where something is served by HTTP; `None` if it is not.
pub(crate) type ListeningAddress = Option<SocketAddr>;
