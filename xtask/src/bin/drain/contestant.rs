//! What is measured.

use std::fmt;

/// Which queue of this project hands out the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Deliveries,
    Cursor,
}

/// Another queue, doing no-op jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// As many write it themselves: claim one, complete one.
    Textbook,
    /// In its default settings, but for how many jobs run at once.
    GraphileWorker,
    /// With its local queue and batched completion.
    GraphileWorkerBatched,
    /// In the settings that it offers for speed.
    PgBoss,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    /// A kind of queue and a batch limit.
    Mailroom(Kind, usize),
    Other(Peer),
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Deliveries, Self::Cursor];

    /// As `--queue-kind` and the JSON call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deliveries => "deliveries",
            Self::Cursor => "cursor",
        }
    }
}

impl Peer {
    pub(crate) const ALL: [Self; 4] =
        [Self::Textbook, Self::GraphileWorker, Self::GraphileWorkerBatched, Self::PgBoss];

    /// As the JSON and `tests/bench/peers` call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Textbook => "textbook",
            Self::GraphileWorker => "graphile_worker",
            Self::GraphileWorkerBatched => "graphile_worker_batched",
            Self::PgBoss => "pg_boss",
        }
    }

    /// How many jobs it gets where the others get so many: enough to be measured by, in bearable time.
    pub(crate) fn jobs(self, tokens: usize) -> usize {
        match self {
            Self::Textbook | Self::GraphileWorker => tokens / 5,
            Self::GraphileWorkerBatched | Self::PgBoss => tokens,
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mailroom(kind, limit) => write!(formatter, "{}, batches of {limit}", kind.name()),
            Self::Other(peer) => formatter.write_str(&peer.name().replace('_', " ")),
        }
    }
}
