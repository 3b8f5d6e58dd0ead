//! What the program does, one command a module.

pub mod collect;
pub mod keygen;
pub mod migrate;
pub mod sign;
pub mod verify;
