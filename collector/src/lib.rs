//! The parts of the program `mailroom`.
//!
//! Data walks one way: `listener` → `queue` → `batcher` → `signer` → `line` → `sink`, and back to the `queue`, which
//! is told what the reader has. `collector` is the loop that moves it.

pub mod alarm;
pub mod backoff;
pub mod batcher;
pub mod collector;
pub mod commands;
pub mod complaints;
pub mod config;
pub mod connection;
pub mod counted;
pub mod keys;
pub mod line;
pub mod listener;
pub mod migrate;
pub mod outage;
pub mod outbox;
pub mod postgres;
pub mod prefetch;
pub mod preflight;
pub mod queue;
pub mod retention;
pub mod shutdown;
pub mod signer;
pub mod sink;
pub mod sleeper;
pub mod telemetry;
pub mod usage;
