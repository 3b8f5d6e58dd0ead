//! What the program does, one command a module.

pub mod collect;
pub mod keygen;
pub mod migrate;
pub mod operator;
pub mod prune;
pub mod retry;
pub mod sign;
pub mod status;
pub mod verify;
