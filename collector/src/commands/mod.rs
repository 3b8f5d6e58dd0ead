//! What the program does, one command a module, and what the commands have in common.

mod action;
mod error;
mod session;

pub mod collect;
pub mod keygen;
pub mod migrate;
pub mod prune;
pub mod retry;
pub mod sign;
pub mod status;
pub mod verify;

use std::process::ExitCode;

pub use error::CommandError;

/// The status to end with.
pub type Outcome = Result<ExitCode, CommandError>;
