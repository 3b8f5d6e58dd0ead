//! Pruning the log of hand-overs, in steps so small that nobody waits for one.
//!
//! A step reads some blocks of the log and deletes what is too old in them, in a transaction of its own. So nothing is
//! locked for longer than a step, vacuum can follow, and a run that is broken off has done what it did.

mod schedule;

use std::time::{Duration, Instant};

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

pub use schedule::Pruner;

/// Some 12,000 rows of the log, and as many dead tokens.
const BLOCKS: i32 = 128;
const DEAD: i32 = 10_000;

const PRUNE: &str = include_str!("prune.sql");
const PRUNE_DEAD: &str = include_str!("prune_dead.sql");
const TAKE_TURN: &str = include_str!("take_turn.sql");

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Hand-overs that were deleted.
    pub handovers: i64,
    /// Dead tokens that were deleted.
    pub dead: i64,
    /// Blocks of the log that were looked through, and how many there are.
    pub blocks: i64,
    /// At the last look.
    pub all_blocks: i64,
}

/// Takes the turn that one process at a time has, for as long as the session lasts; answers whether it was free. Where a pooler
/// shares sessions nobody can have it, and several do the same work twice at worst.
///
/// # Errors
/// The database does not do what it is asked.
pub async fn take_turn(client: &Client) -> Result<bool, Error> {
    client.query_typed_one(TAKE_TURN, &[]).await?.try_get(0)
}

/// Deletes hand-overs that are older than `age`, and dead tokens as old that cannot be sent any more. Calls `report` after
/// each step with how far it is and how long the step took, and waits for what it returns.
///
/// # Errors
/// The database does not do what it is asked. What was deleted before stays deleted.
pub async fn prune(
    client: &Client,
    age: Duration,
    mut report: impl AsyncFnMut(Progress, Duration),
) -> Result<Progress, Error> {
    let seconds = age.as_secs_f64();
    let mut progress = Progress::default();
    loop {
        let start = Instant::now();
        let row = client
            .query_typed_one(
                PRUNE,
                &[(&seconds, Type::FLOAT8), (&progress.blocks, Type::INT8), (&BLOCKS, Type::INT4)],
            )
            .await?;
        progress.handovers += row.try_get::<_, i64>(0)?;
        progress.all_blocks = row.try_get(1)?;
        progress.blocks = (progress.blocks + i64::from(BLOCKS)).min(progress.all_blocks);
        report(progress, start.elapsed()).await;
        if progress.blocks >= progress.all_blocks {
            break;
        }
    }
    loop {
        let start = Instant::now();
        let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&seconds, Type::FLOAT8), (&DEAD, Type::INT4)];
        let pruned: i64 = client.query_typed_one(PRUNE_DEAD, &parameters).await?.try_get(0)?;
        progress.dead += pruned;
        if pruned < i64::from(DEAD) {
            return Ok(progress);
        }
        report(progress, start.elapsed()).await;
    }
}
