//! Collectors that sleep: nothing that is due waits while all of them do, and writers announce nothing while none does.
//! The fallback poll is off throughout.

mod reasons;
mod rounds;
mod sleeping;
