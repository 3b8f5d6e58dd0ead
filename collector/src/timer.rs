//! An optional timer.

use std::future::pending;
use std::time::Instant;

use tokio::time::sleep_until;

/// Waits until `time`, or forever if there is no time. Can be dropped at any point.
pub(crate) async fn sleep_until_opt(time: Option<Instant>) {
    match time {
        // Without the millisecond by which a timer is late.
        Some(time) if time <= Instant::now() => {}
        Some(time) => sleep_until(time.into()).await,
        None => pending().await,
    }
}
