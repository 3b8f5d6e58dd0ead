//! What `--metrics-address` serves: counters and histograms of this process, what its database
//! holds, and whether it is alive and ready.
//!
//! Collecting writes to [`Metrics`] and [`Health`], which never waits for anybody; a thread of its
//! own serves them, and asks the database on a connection of its own. So no client, and no answer
//! of the database to a question of this module, delays a mail.

mod figures;
mod health;
mod server;
mod values;

pub(crate) use health::{Health, Trouble};
pub(crate) use server::Server;
#[cfg(feature = "relay")]
pub(crate) use values::{BrokerVerdict, PassedOver};
pub(crate) use values::{Cause, Metrics, Rows, Skipped};
