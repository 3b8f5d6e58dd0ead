//! The protocol between queue, collectors and senders as a model, all of whose states are visited.
//!
//! Everything that can happen is an action: a statement is executed, is lost, or comes late after
//! its connection has ended; a mail is accepted and its answer is lost; a process is killed; a
//! lease lapses while its collector is suspended; a standby takes over that lacks the last commits.
//! The checker takes them in every order, as often as a [`Scenario`] allows, and looks at every
//! state that comes of it.
//!
//! What the model says of the database is said once, in [`Database`]: the checker uses it, and so
//! does [`replay`], by which the log of a real run is held against it.
//!
//! A token is a batch of its own here: a settlement is one transaction whatever its batch holds,
//! and tokens meet only by the ids of batches. Left out are rates, priorities and the order of the
//! queue; where a claim begins to read is a model of its own, beside the low watermark.

mod actions;
mod collector;
mod database;
mod model;
mod mutant;
mod promises;
mod replay;
mod scenario;

pub use collector::{Collector, Journal, Verdict, Work};
pub use database::{Database, Ended, Outcome};
pub use model::{Action, Protocol, State};
pub use mutant::Mutant;
pub use promises::{PROMISES, Promise};
pub use replay::{Entry, replay};
pub use scenario::{Limits, SCENARIOS, Scenario};

/// Which batch: no two claims ever have the same id.
pub type Batch = u8;
