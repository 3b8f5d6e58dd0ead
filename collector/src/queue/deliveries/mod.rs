//! The queue of leased rows: any number of collectors, each token in one place, and a log of
//! delivery attempts.
//!
//! All decisions about a token are made by the functions of the schema `mailroom`, in the database
//! and by its clock. This side says what it settles, releases and claims, and keeps what the
//! database may not have received (`batches`).
//!
//! `scan` says what a claim reads, `exchange` sends that with all that is to be settled and
//! released, `claimed` is the answer, which `claim_log` reports and `scan` goes on from. `renewals`
//! keep the leases meanwhile. `queue` calls them in their order.
//!
//! # Lost answers
//! - Settling, releasing and claiming are statements of their own. Each has an answer, and a
//!   commit, of its own.
//! - The id of a batch is chosen here, before the statement that claims it is sent. If the answer
//!   does not come, the next statement releases the batch: nothing of it was sent. If the
//!   connection is lost too, the statement may reach the server after the next connection, so the
//!   id is released for a while longer. The release names ids: one of "whatever this process does
//!   not hold" that arrives late would release batches that were claimed meanwhile.
//! - A settlement is repeated until it was answered. A lease can be settled once, so a repetition
//!   changes nothing, and neither does the settlement of a batch that another collector has taken
//!   over. It is repeated even if the lease is gone:
//!   the answer names the dead letters, which are logged.

mod actions;
mod batches;
mod claim_log;
mod claimed;
mod delays;
mod exchange;
mod nacks;
mod queue;
mod renewals;
mod scan;
mod session;
mod statements;
mod sweep;
mod watermark;

pub(crate) use actions::{LIST_ACTIONS, SignableActions};
#[cfg(feature = "relay")]
pub(crate) use nacks::storable;
pub use queue::DeliveriesQueue;
