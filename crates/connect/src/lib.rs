//! Connects to PostgreSQL as users of libpq expect.
//!
//! [`ConnectionSettings::resolve`] reads a URL or a keyword string and fills in libpq's defaults:
//! `PG*` variables, service file, password file, socket folders. [`connect`] tries the servers in
//! turn, encrypted as `sslmode` requires, and returns a [`Session`].
//!
//! `docs/reference/connection.md` lists every parameter and variable and what is done with it.
//! Parameters that are not supported are refused where ignoring them would weaken security or
//! change what is read; unknown ones too. No password and no whole connection string is ever part
//! of an error, a log line or debugging output.

mod authentication;
mod command_words;
mod connect;
mod environment;
mod error;
#[cfg(test)]
mod fixture;
mod keywords;
mod parameters;
mod passfile;
mod password_command;
mod pooler;
mod schema;
#[cfg(test)]
mod secrecy;
mod servers;
mod service;
mod session;
mod settings;
pub mod sqlstate;
mod timeouts;
mod tls;
mod tls_settings;
mod url;
mod verifier;

pub use command_words::CommandWords;
pub use connect::connect;
pub use environment::Environment;
pub use error::{ConnectError, SettingsError, explain};
pub use password_command::PasswordCommand;
pub use schema::{Schema, SchemaClient};
pub use session::{Connection, Session, SessionOptions};
pub use settings::ConnectionSettings;
pub use url::names_server;
