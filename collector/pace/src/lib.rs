//! When a collector polls, how many batches it claims, and how long a token waits for others.
//!
//! Pure decisions: the caller passes the times in. `mailroom collect` takes them from the clock, `cargo xtask bench adaptive`
//! from a simulated day.

mod adaptive;
mod batcher;
mod prefetch;

pub use adaptive::Adaptive;
pub use batcher::Batcher;
pub use prefetch::Prefetch;
