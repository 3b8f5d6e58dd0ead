//! A throwaway PostgreSQL and the freshly built program, for tests that need real ones.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let database = mailroom_tests::postgres::Database::migrated()?;
//! let client = database.connect().await?;
//! let status = mailroom_tests::program::mailroom()?
//!     .args(["migrate", "status"])
//!     .env("MAILROOM_DATABASE_URL", database.url())
//!     .status()?;
//! # Ok(())
//! # }
//! ```
//!
//! | variable | meaning |
//! |---|---|
//! | `MAILROOM_TEST_DATABASE_URL` | the server for [`postgres::Database`]; none is started then |
//! | `MAILROOM_TEST_FULL` | if set, the tests that can be of any length are long |
//! | `MAILROOM_TEST_POSTGRES` | which PostgreSQL to start: a major version or a folder |
//! | `MAILROOM_TEST_PROGRAM` | a built `mailroom`; it is not built again then |
//! | `MAILROOM_TOOLS` | where downloaded tools are kept; default: `tools` in cargo's target |
//!
//! The folder of `MAILROOM_TEST_POSTGRES` holds `initdb`, `pg_ctl` and `postgres`; a major version
//! is such as `15` or `18`.

#[cfg(feature = "client")]
pub mod application;
pub mod book;
#[cfg(feature = "client")]
pub mod broker;
#[cfg(feature = "client")]
pub mod clock;
#[cfg(feature = "client")]
pub mod collector;
pub mod corpus;
#[cfg(feature = "client")]
pub mod failover;
#[cfg(feature = "client")]
pub mod fixtures;
#[cfg(feature = "client")]
pub mod fleet;
pub mod hex;
#[cfg(feature = "client")]
pub mod history;
pub mod http;
pub mod machine;
#[cfg(feature = "client")]
pub mod mail_server;
#[cfg(feature = "client")]
pub mod mailer;
pub mod memory;
#[cfg(feature = "client")]
pub mod neighbours;
#[cfg(feature = "client")]
pub mod plan;
pub mod port;
pub mod postgres;
pub mod program;
#[cfg(feature = "client")]
pub mod proxy;
pub mod python;
#[cfg(feature = "client")]
pub mod rabbit;
#[cfg(feature = "client")]
pub mod recorder;
#[cfg(feature = "client")]
pub mod rows;
#[cfg(feature = "client")]
pub mod sending;
#[cfg(feature = "client")]
pub mod small_disk;
#[cfg(feature = "client")]
pub mod standstill;
#[cfg(feature = "client")]
pub mod stopwatch;
#[cfg(feature = "client")]
pub mod through_broker;
pub mod tools;
#[cfg(feature = "client")]
pub mod trial;
#[cfg(feature = "client")]
pub mod workload;
