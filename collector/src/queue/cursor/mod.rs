//! The queue of an untouched base schema: the tokens with ids above `jobs.last_seq`.
//!
//! One collector at a time has it, by a session-level advisory lock on the connection that claims
//! and advances; a second one waits. The lock's key is a hash of the queue's name and the oid of
//! the table `jobs` (`inspect.sql`), so that the queues and schemas
//! of one database do not conflict.
//!
//! # What is passed and what is read again
//! Reading goes forward in id order. Expired and consumed tokens are passed for good. Once a poll
//! interval, deferred tokens (wrong account status; the cursor passes them) are read again, and the
//! last page beyond the claimed tokens, for late commits; once a health-check interval, everything
//! beyond the claimed tokens is.
//!
//! # What the next process finds
//! The schema records one number for all tokens, and nothing for a single one. So a process that
//! gets the queue cannot ask which tokens before the cursor were skipped unsent; it infers that
//! (`recover_skipped.sql`):
//! - A token whose account still has the wrong status is deferred as if this process had passed it.
//! - A token whose account had the right status since before the token was made was eligible
//!   whenever it was read, so the cursor passed it because it was sent. It is not sent again. This
//!   holds for almost all tokens.
//! - A token whose account got the right status after the token was made may have been passed
//!   before that and not been sent since. Deferred tokens are claimed before any other, no claim is
//!   made unless they were read in the last poll interval, and the cursor moves in the order of
//!   claims. So if the cursor has passed a token that was made a poll interval after the change,
//!   this one was sent, too. Otherwise it is sent, perhaps for the second time: a mail too many is
//!   better than none.
//!
//! Times are those at which transactions began, hence
//! [`SLOWEST_TRANSACTION`](session::SLOWEST_TRANSACTION).
//!
//! # Known gaps
//! - Ids are assigned before commits. A transaction that commits after one with higher ids leaves
//!   its tokens below a cursor that has passed them already, and nothing in this schema shows it.
//!   The queue `deliveries` has no such gap.
//! - A status that a transaction longer than `SLOWEST_TRANSACTION` changed can seem to have been
//!   there when the token was read.
//! - A collector that is another program does not read again what it has passed, while
//!   `recover_skipped` assumes that it did. docs/guides/migrate/c-collector.md says what can be
//!   lost.

#[cfg(test)]
mod model;
mod queue;
mod read_ahead;
mod recover_skipped;
mod session;
mod state;

pub use queue::CursorQueue;
