//! The parts of the program `mailroom`.
//!
//! Data flows one way: `wake` → `queue` → `collect::batcher` → `line` → `sink`, and the acks of the sink go back to the
//! `queue`. `collect` is the loop that moves it.

pub mod backoff;
pub mod cli;
pub mod collect;
pub mod commands;
pub mod config;
pub mod keys;
pub mod line;
pub mod log;
pub mod migrate;
pub mod preflight;
pub mod queue;
pub mod retention;
pub mod signals;
pub mod sink;
pub mod timer;
pub mod wake;
