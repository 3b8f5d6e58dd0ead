//! The parts of the program `mailroom`. Public are the program itself and what the tests
//! of the workspace use.
//!
//! Data flows one way: `wake` → `queue` → `collect` → `line` → `sink`; acks go back to the `queue`.

mod cli;
mod collect;
mod colour;
mod commands;
pub mod config;
mod environment;
mod keys;
mod line;
mod log;
mod metrics;
pub mod migrate;
mod outcome;
mod preflight;
mod program;
pub mod queue;
mod retention;
mod rights;
mod secrecy;
mod sender_command;
mod service;
mod signals;
pub mod sink;
mod timer;
#[cfg(feature = "relay")]
mod verdicts;
pub mod wake;

pub use program::run;
