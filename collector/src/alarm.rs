//! Waiting for a time that may not come.

use std::future::pending;
use std::time::Instant;

use tokio::time::sleep_until;

/// Waits until `time`; for ever if there is none. Can be dropped at any point.
///
/// Also a time that is past may take a turn of the runtime, so that whoever waits for something else as well hears of that.
pub async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => pending().await,
    }
}
