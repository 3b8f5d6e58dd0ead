//! A collector with its sender, of which only the journal survives a kill.

use crate::Batch;

/// What a collector knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Collector {
    /// A claim that it has sent to the database, without an answer so far.
    pub claiming: Option<Batch>,
    /// A claim whose answer was lost, and which it gives back.
    pub releasing: Option<Batch>,
    /// What its sender has.
    pub work: Option<Work>,
    /// A verdict that it has to record.
    pub settling: Option<(Batch, usize, Verdict)>,
    /// On the disk of its machine, by token.
    pub journal: Vec<Journal>,
}

/// What a sender has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Work {
    /// Of which batch.
    pub batch: Batch,
    /// Which token.
    pub token: usize,
    /// How many doubts the database had counted.
    pub doubts: u8,
    /// Whether the mail's last byte was on its way.
    pub is_begun: bool,
    /// Whether the provider has accepted it, which nobody knows here.
    pub is_accepted: bool,
}

/// What a sender says of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// It was sent.
    Sent,
    /// It was refused for now.
    Retry,
    /// The sender ended over it.
    Crashed,
    /// Nothing.
    Unanswered,
    /// Nobody knows.
    InDoubt,
    /// It never can be sent.
    Dead,
}

/// What the journal of `mailroom send` has of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Journal {
    /// How many attempts began whose outcome is unknown, as far as this machine knows.
    pub begun: u8,
    /// Whether a provider has accepted it.
    pub is_sent: bool,
}

impl Collector {
    /// One that holds nothing.
    pub fn new(tokens: usize) -> Self {
        Self { journal: vec![Journal::default(); tokens], ..Self::default() }
    }

    /// Whether it holds a batch, and so renews its lease.
    pub fn holds(&self, batch: Batch) -> bool {
        self.claiming == Some(batch)
            || self.releasing == Some(batch)
            || self.work.as_ref().is_some_and(|work| work.batch == batch)
            || self.settling.is_some_and(|(settling, ..)| settling == batch)
    }

    /// Whether it can claim: settling goes on beside it, on another session.
    pub fn is_idle(&self) -> bool {
        self.claiming.is_none() && self.releasing.is_none() && self.work.is_none()
    }

    /// Its sender has said something.
    pub fn decide(&mut self, verdict: Verdict) {
        if let Some(work) = self.work.take() {
            self.settling = Some((work.batch, work.token, verdict));
        }
    }

    /// The batches that a kill leaves to themselves.
    pub fn batches(&self) -> impl Iterator<Item = Batch> {
        [
            self.claiming,
            self.releasing,
            self.work.as_ref().map(|work| work.batch),
            self.settling.map(|(batch, ..)| batch),
        ]
        .into_iter()
        .flatten()
    }
}
