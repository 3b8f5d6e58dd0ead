//! The clock of the loop that collects, and an optional timer.

use std::future::pending;
use std::time::Instant;

use tokio::time::{Instant as TokioInstant, sleep_until};

/// The present time by tokio's clock, which is the system's, except that tests can pause it: a
/// deadline and the time that it is compared with must come from the same clock.
pub(crate) fn now() -> Instant {
    TokioInstant::now().into_std()
}

/// Waits until `time`, or forever if there is no time. Can be dropped at any point.
pub(crate) async fn sleep_until_opt(time: Option<Instant>) {
    match time {
        // Without the millisecond by which a timer is late.
        Some(time) if time <= now() => {}
        Some(time) => sleep_until(time.into()).await,
        None => pending().await,
    }
}
