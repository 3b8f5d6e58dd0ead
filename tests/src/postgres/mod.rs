//! PostgreSQL servers that live as long as a test, and databases in them.

mod account;
mod cluster;
#[cfg(feature = "client")]
mod database;
#[cfg(feature = "client")]
pub mod disk;
mod folder;
mod installation;
mod npm;
#[cfg(feature = "client")]
pub mod patroni;
#[cfg(feature = "client")]
mod pool;
#[cfg(feature = "client")]
mod standby;
mod supervisor;

pub use cluster::{Builder, Cluster, Shutdown};
#[cfg(feature = "client")]
pub use database::{Database, connect};
pub use installation::Wanted;
pub use mailroom_local_postgres::Installation;
#[cfg(feature = "client")]
pub use pool::Pool;
#[cfg(feature = "client")]
pub use standby::REPLICATION_HBA;
