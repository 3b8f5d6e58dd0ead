//! The parts of the program `mailroom`. Public are the program itself and what the tests of the workspace use.
//!
//! Data flows one way: `wake` → `queue` → `collect::batcher` → `line` → `sink`, and the acks of the sink go back to the
//! `queue`. `collect` is the loop that moves it.

mod backoff;
mod cli;
mod collect;
mod commands;
pub mod config;
mod keys;
mod line;
mod log;
pub mod migrate;
mod preflight;
pub mod queue;
mod retention;
mod signals;
pub mod sink;
mod timer;
pub mod wake;

pub use commands::run;
