//! The parts of the `mailroom` program.

pub mod commands;
pub mod migrate;
