//! What the program does, one command a module.

pub mod migrate;
