//! What `mailroom_exchange` returns.

use std::time::SystemTime;

use tokio_postgres::Row;

use super::dead_letters::DeadLetter;
use crate::queue::session::{column, token, unexpected};
use crate::queue::{Batch, BatchId, QueueError};

/// What one statement claimed, and what it read.
#[derive(Debug, Default)]
pub(super) struct Claimed {
    pub(super) batches: Vec<Batch>,
    pub(super) dead: Vec<DeadLetter>,
    /// How many rows were read.
    pub(super) scanned: usize,
    pub(super) waiting: usize,
    pub(super) expired: usize,
    pub(super) cancelled: usize,
    pub(super) parked: usize,
    /// Where the next claim begins.
    pub(super) since: [Option<SystemTime>; 2],
}

impl Claimed {
    /// By a claim that began at `since`.
    pub(super) fn read(rows: &[Row], since: [Option<SystemTime>; 2]) -> Result<Self, QueueError> {
        let mut claimed = Self { since, ..Self::default() };
        for row in rows {
            let Some(id) = column::<Option<i64>>(row, 1)? else {
                (claimed.scanned, claimed.waiting) = (count(row, 9)?, count(row, 10)?);
                claimed.expired = count(row, 11)?;
                (claimed.cancelled, claimed.parked) = (count(row, 12)?, count(row, 13)?);
                claimed.since = [column(row, 14)?, column(row, 15)?];
                continue;
            };
            let batch = BatchId(column(row, 0)?);
            let attempts = count(row, 2)?;
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
}

fn count<T: TryFrom<i32>>(row: &Row, index: usize) -> Result<T, QueueError> {
    T::try_from(column::<i32>(row, index)?).map_err(|_| unexpected("a negative count"))
}
