//! Connecting to PostgreSQL as users of libpq expect.
//!
//! [`ConnectionSettings::resolve`] reads a URL or a keyword string and fills in libpq's defaults: `PG*`
//! variables, service file, password file, socket folders. [`connect`] tries the servers in turn, encrypted
//! as `sslmode` asks, and returns a [`Session`]: a client, and the connection that carries it and hears
//! notifications.
//!
//! `docs/CONNECTING.md` lists every parameter and variable and what is done with it. The most important:
//!
//! | question | parameters |
//! |---|---|
//! | where | `host`, `hostaddr`, `port`, `dbname`, `service`, `target_session_attrs` |
//! | who | `user`, `password`, `passfile`, `sslcert`, `sslkey`, `channel_binding` |
//! | how encrypted | `sslmode`, `sslnegotiation`, `sslrootcert`, `sslcrl`, `ssl_min_protocol_version` |
//! | how set up | `application_name`, `options` |
//! | how patient | `connect_timeout`, `keepalives…`, `tcp_user_timeout` |
//!
//! Parameters that cannot be honoured and whose absence would weaken security or change what is read are
//! refused; unknown ones too. No password and no whole connection string is ever part of an error, a log line
//! or debugging output.

mod attempt;
mod certificate;
mod connect;
mod connect_error;
mod environment;
#[cfg(test)]
mod fixture;
mod keyword;
mod liveness;
mod parameter;
mod password;
mod pooler;
#[cfg(test)]
mod secrecy;
mod server;
mod service;
mod session;
mod settings;
mod settings_error;
mod tls;
mod tls_settings;
mod uri;
mod verifier;

pub use connect::connect;
pub use connect_error::{ConnectError, FailedAttempt, FailureKind};
pub use environment::{Environment, ProcessEnvironment};
pub use parameter::Origin;
pub use server::Server;
pub use session::{Canceller, Connection, Session, SessionOptions, explain};
pub use settings::ConnectionSettings;
pub use settings_error::{SettingsError, UriPart};
pub use tls::{TlsFault, TlsStream};
pub use tls_settings::SslMode;
