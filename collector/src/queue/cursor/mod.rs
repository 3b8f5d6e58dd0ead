//! The queue of an untouched base schema: the tokens with ids above `jobs.last_seq`.
//!
//! One collector at a time has it, by a session-level advisory lock on the connection that claims
//! and advances. Its key is a hash of the queue's name and the oid of the table `jobs`
//! (`inspect.sql`): queues and schemas do not conflict.
//!
//! # What is passed and what is read again
//! Reading goes forward in id order. Expired and consumed tokens are passed for good. Once a poll
//! interval, deferred tokens (wrong account status; the cursor passes them) are read again, and the
//! last page beyond the claimed tokens, for late commits; once a health-check interval, everything
//! beyond the claimed tokens is.
//!
//! # What the next process finds
//! The schema records one number for all tokens. Which of those before it were skipped unsent, the
//! next process infers (`recover_skipped.sql`); OPERATIONS.md has the rules, and what can be lost.
//! The rule for an account that got the right status after its token was made: deferred tokens are
//! claimed before any other, no claim is made unless they were read in the last poll interval, and
//! the cursor moves in the order of claims. So if the cursor has passed a token that was made a
//! poll interval after the change, this one was sent, too. Times are those at which transactions
//! began, hence [`SLOWEST_TRANSACTION`](session::SLOWEST_TRANSACTION).

#[cfg(test)]
mod model;
mod queue;
mod read_ahead;
mod recover_skipped;
mod session;
mod state;

pub use queue::CursorQueue;
