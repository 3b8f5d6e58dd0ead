//! Waking an idle collector: `LISTEN`, and the lock by which writers know that a collector is idle.

pub mod idle_lock;
pub mod listener;
