//! Idle collectors: no due token waits while all are idle, and writers notify nobody while none is.
//! The fallback poll is off throughout.

mod idle_lock;
mod prepared;
mod reasons;
mod rounds;
