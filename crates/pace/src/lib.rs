//! When a collector polls, how many batches it claims, how long a token waits for others, how long
//! is waited after a failure, and how many lines of one kind are logged.
//!
//! Pure decisions: the caller passes the times in. `mailroom collect` takes them from the clock,
//! `cargo xtask bench adaptive` from a simulated day.

mod adaptive;
mod backoff;
mod batcher;
mod log_limit;
mod prefetch;
mod rate;

pub use adaptive::Adaptive;
pub use backoff::{Backoff, MAX_CONNECT_PAUSE, jittered, random_part};
pub use batcher::Batcher;
pub use log_limit::{LogLimit, withheld};
pub use prefetch::Prefetch;
pub use rate::{MAX_RATE, parse_rate};
