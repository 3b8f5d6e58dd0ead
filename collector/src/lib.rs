//! The library behind the program `mailroom`.

pub mod commands;
pub mod migrate;
pub mod postgres;
