//! What `mailroom_exchange` returns: claimed tokens, counts, and the tokens that became dead letters.

use std::time::{Instant, SystemTime};

use tokio_postgres::Row;

use super::batches::Batches;
use crate::log::display::{Counted, NAMED, ids, listed, withheld};
use crate::log::rate_limit::RateLimiter;
use crate::queue::session::{column, count, token};
use crate::queue::{Batch, BatchId, Nack, QueueError};

/// What one statement claimed, and what it read.
#[derive(Debug, Default)]
pub(super) struct Claimed {
    pub(super) batches: Vec<Batch>,
    pub(super) dead: Vec<DeadLetter>,
    pub(super) scanned: usize,
    pub(super) waiting: usize,
    pub(super) expired: usize,
    pub(super) cancelled: usize,
    pub(super) parked: usize,
    pub(super) since: [Option<SystemTime>; 2],
}

/// A token that became a dead letter when its batch was settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadLetter {
    pub(super) batch: BatchId,
    pub(super) token: i64,
    attempts: u32,
}

impl Claimed {
    pub(super) fn read(rows: &[Row], since: [Option<SystemTime>; 2]) -> Result<Self, QueueError> {
        let mut claimed = Self { since, ..Self::default() };
        for row in rows {
            let Some(id) = column::<Option<i64>>(row, 1)? else {
                let number = |index| count::<i32, usize>(row, index);
                (claimed.scanned, claimed.waiting, claimed.expired) = (number(9)?, number(10)?, number(11)?);
                (claimed.cancelled, claimed.parked) = (number(12)?, number(13)?);
                claimed.since = [column(row, 14)?, column(row, 15)?];
                continue;
            };
            let batch = BatchId(column(row, 0)?);
            let attempts = count::<i32, u32>(row, 2)?;
            if column::<Option<&str>>(row, 3)?.is_none() {
                claimed.dead.push(DeadLetter { batch, token: id, attempts });
                continue;
            }
            let token = token(row, id, attempts, 3)?;
            match claimed.batches.last_mut() {
                Some(last) if last.id == batch => last.tokens.push(token),
                _ => claimed.batches.push(Batch { id: batch, tokens: vec![token] }),
            }
        }
        Ok(claimed)
    }

    /// One line a batch of those that were just settled; the database has a record of each token.
    pub(super) fn log_dead_letters(&self, settled: &Batches, limiter: &mut RateLimiter) {
        for dead in self.dead.chunk_by(|one, other| one.batch == other.batch) {
            let Some(others) = limiter.admit(Instant::now()) else { continue };
            let reason = |dead: &DeadLetter| {
                let reason = settled.nack(dead.batch, dead.token).and_then(Nack::reason).unwrap_or_default();
                let attempts = Counted(dead.attempts, "attempt", "attempts");
                (dead.token, format!("{reason} (after {attempts})"))
            };
            let tokens: Vec<_> = dead.iter().map(reason).collect();
            tracing::warn!(
                event = "tokens_dead",
                reason = %listed(&tokens, NAMED),
                count = tokens.len(),
                ids = ?ids(&tokens, NAMED),
                attempts = dead.iter().map(|dead| dead.attempts).max(),
                put_back = put_back(dead),
                withheld = withheld(others),
                "tokens are given up and get no mail"
            );
        }
    }
}

/// The command that requeues them, while they can still be sent; of bounded length.
fn put_back(dead: &[DeadLetter]) -> String {
    if dead.len() > NAMED {
        return "mailroom retry --all-dead".to_owned();
    }
    let ids: Vec<_> = dead.iter().map(|dead| dead.token.to_string()).collect();
    format!("mailroom retry {}", ids.join(" "))
}
