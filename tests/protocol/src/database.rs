//! The queue's tables, and what its functions do to them. Each method is one transaction.

use crate::collector::Verdict;
use crate::{Batch, Mutant};

/// The doubt that ends the attempts to send a mail.
const LAST_DOUBT: u8 = 3;

/// What the database holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Database {
    /// The tokens.
    pub rows: Vec<Row>,
    /// Claims that nobody has settled, given back or taken over.
    pub leases: Vec<Lease>,
    /// The last number of a sequence; see [`Mutant::NumbersBatches`].
    pub numbered: Batch,
}

/// A token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    /// Whether the transaction that makes it has committed.
    pub is_committed: bool,
    /// How many rows the queue has for it: none or one.
    pub queued: u8,
    /// How many attempts ended in doubt.
    pub doubts: u8,
    /// How many attempts were claimed.
    pub attempts: u8,
    /// How it left the queue for good, or until somebody puts a dead letter back.
    pub ended: Option<Ended>,
    /// Whether somebody has used its link.
    pub is_used: bool,
    /// Whether it was cancelled.
    pub is_cancelled: bool,
}

/// A claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    /// By which its collector names it.
    pub batch: Batch,
    /// What was claimed.
    pub token: usize,
}

/// How a token left the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ended {
    /// The sender says that it was sent.
    Sent,
    /// It expired, and no attempt was in doubt.
    Expired,
    /// It was used or cancelled before.
    Cancelled,
    /// A dead letter.
    Dead,
    /// A dead letter that may have been delivered.
    DeadInDoubt,
}

/// What the log says of an attempt, or of a token that was not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was sent.
    Sent,
    /// It was refused for now, or the sender ended over it.
    Retry,
    /// Nobody said anything of it, or nothing that concerns it.
    Unanswered,
    /// The lease ended.
    Lapsed,
    /// Nobody knows whether it was sent.
    InDoubt,
    /// It was given up.
    Dead,
    /// It expired before it was sent.
    Expired,
    /// It was used, cancelled or deleted before it was sent.
    Cancelled,
}

impl Database {
    /// Tokens whose transactions are open.
    pub fn new(tokens: usize) -> Self {
        Self { rows: vec![Row::default(); tokens], ..Self::default() }
    }

    /// Makes a token.
    pub fn commit(&mut self, token: usize) {
        self.rows[token].is_committed = true;
        self.rows[token].queued = 1;
    }

    /// Whether a claim finds it.
    pub fn is_claimable(&self, token: usize) -> bool {
        self.rows[token].queued > 0
    }

    /// Claims a token, or ends one that may not be sent any more.
    ///
    /// # Errors
    /// Why it was not claimed.
    pub fn claim(
        &mut self,
        token: usize,
        batch: Batch,
        is_expired: bool,
        mutant: Option<Mutant>,
    ) -> Result<Lease, Outcome> {
        let row = &mut self.rows[token];
        let ended = if row.is_used || row.is_cancelled {
            Some((Ended::Cancelled, Outcome::Cancelled))
        } else if is_expired && row.doubts > 0 && mutant != Some(Mutant::ExpiresSilently) {
            Some((Ended::DeadInDoubt, Outcome::Dead))
        } else {
            is_expired.then_some((Ended::Expired, Outcome::Expired))
        };
        if ended.is_some() || mutant != Some(Mutant::ClaimKeepsRow) {
            row.queued -= 1;
        }
        if let Some((ended, outcome)) = ended {
            row.ended = Some(ended);
            return Err(outcome);
        }
        row.attempts += 1;
        let lease = Lease { batch, token };
        self.leases.push(lease.clone());
        self.leases.sort();
        Ok(lease)
    }

    /// Records what became of a batch, once. Nothing if it is not leased.
    pub fn settle(
        &mut self,
        (batch, token): (Batch, usize),
        verdict: Verdict,
        mutant: Option<Mutant>,
    ) -> Option<Outcome> {
        let is_it = |lease: &Lease| {
            if mutant == Some(Mutant::SettlesByToken) {
                lease.token == token
            } else {
                lease.batch == batch
            }
        };
        let token = match self.leases.iter().position(is_it) {
            Some(place) => self.leases.remove(place).token,
            None if mutant == Some(Mutant::SettlesWithoutLease) => token,
            None => return None,
        };
        let row = &mut self.rows[token];
        let is_open = !row.is_used && !row.is_cancelled;
        let (ended, outcome) = match verdict {
            Verdict::Sent => (Some(Ended::Sent), Outcome::Sent),
            Verdict::Dead => (Some(Ended::Dead), Outcome::Dead),
            Verdict::Retry | Verdict::Crashed => (None, Outcome::Retry),
            Verdict::Unanswered => (None, Outcome::Unanswered),
            Verdict::InDoubt => {
                row.doubts += 1;
                let is_last = row.doubts >= LAST_DOUBT && mutant != Some(Mutant::DoubtsHaveNoEnd);
                match (is_last, is_open) {
                    (true, true) => (Some(Ended::DeadInDoubt), Outcome::Dead),
                    // Who has used the link has the mail.
                    (true, false) => (Some(Ended::Cancelled), Outcome::Cancelled),
                    (false, _) => (None, Outcome::InDoubt),
                }
            }
        };
        match ended {
            Some(ended) => row.ended = Some(ended),
            None => row.queued += 1,
        }
        Some(outcome)
    }

    /// Gives back what was never handed over: that was no attempt.
    pub fn release(&mut self, batch: Batch) {
        if let Some(place) = self.leases.iter().position(|lease| lease.batch == batch) {
            let row = &mut self.rows[self.leases.remove(place).token];
            row.queued += 1;
            row.attempts -= 1;
        }
    }

    /// Puts back the token of a lease that nobody has renewed.
    pub fn lapse(&mut self, batch: Batch, mutant: Option<Mutant>) -> Option<Outcome> {
        let place = self.leases.iter().position(|lease| lease.batch == batch)?;
        let token = self.leases.remove(place).token;
        if mutant != Some(Mutant::LapseForgets) {
            self.rows[token].queued += 1;
        }
        Some(Outcome::Lapsed)
    }

    /// Puts a dead letter back.
    pub fn retry(&mut self, token: usize) {
        let row = &mut self.rows[token];
        row.ended = None;
        row.queued += 1;
    }

    /// Uses a token's link; whether that is the first time.
    pub fn redeem(&mut self, token: usize) -> bool {
        let row = &mut self.rows[token];
        let is_open = !row.is_used && !row.is_cancelled;
        row.is_used |= is_open;
        is_open
    }
}

impl Ended {
    /// Whether nothing brings it back.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Dead | Self::DeadInDoubt)
    }
}
