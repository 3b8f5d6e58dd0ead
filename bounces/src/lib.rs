//! The program `mailroom bounces`: suppresses addresses of which providers and mail servers report bounces and complaints.
//!
//! It listens for webhooks, or reads one mail. What is not proven to come from where it says changes nothing; what is proven is
//! written to the database or refused for now, so that it comes again.
//!
//! `server` → `provider` (proves and reads a notification) → `notice` → `database`.

mod config;
mod database;
mod notice;
mod provider;
mod server;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use mailroom_connect::ConnectionSettings;

use config::Config;
use database::Database;

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration, a file in TOML
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Take webhooks by HTTP at this address until SIGTERM or SIGINT; for a reverse proxy, which adds TLS
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
}

/// Why the program cannot work, in a sentence without secrets and addresses of people.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(pub(crate) String);

/// Does what the arguments ask for, and reports on standard error what is wrong; returns the status to end with.
pub async fn run(arguments: &Arguments, database: ConnectionSettings) -> ExitCode {
    match listen(arguments, database).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(event = "bounces_failed", "{error}");
            ExitCode::from(2)
        }
    }
}

async fn listen(arguments: &Arguments, database: ConnectionSettings) -> Result<(), Error> {
    let providers = Config::read(&arguments.config)?.providers()?;
    server::serve(arguments.listen, providers, Database::new(database)).await
}
