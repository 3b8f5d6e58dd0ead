//! The program `mailroom bounces`: suppresses addresses after bounces and complaints that providers
//! and mail servers report.
//!
//! It listens for webhooks, or reads one mail. What is not proven to come from where it says
//! changes nothing; what is proven is written to the database or refused for now,
//! so that it comes again.
//!
//! The feature `unproven` makes the parsers public, for tests that try them with any input; the
//! program is built without it.
//!
//! `server` → `provider`, or `mail` (prove and read a notification) → `mailroom_mail::diagnosis`
//! (is the address gone) → `notice` → `database`.

mod config;
mod database;
mod mail;
mod metrics;
#[cfg_attr(not(feature = "unproven"), allow(unreachable_pub, reason = "the feature shows it"))]
mod notice;
mod provider;
mod server;
#[cfg(feature = "unproven")]
pub mod unproven;

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use mailroom_connect::ConnectionSettings;
use mailroom_mail::ReturnPath;

use config::Config;
use database::Database;
use notice::Refusal;

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration, a file in TOML
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Take webhooks by HTTP at this address until SIGTERM or SIGINT;
    /// for a reverse proxy, which adds TLS
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "mail")]
    listen: Option<SocketAddr>,

    /// Serve metrics for Prometheus at this address, or at this port of 127.0.0.1, and not where
    /// notifications come in
    #[arg(long, value_name = "[ADDRESS:]PORT", requires = "listen", value_parser = address)]
    metrics_address: Option<SocketAddr>,

    /// Read one mail from standard input: a delivery status notification
    /// of a mail server, or a complaint
    ///
    /// Ends with 0 if it is done with or reports nothing, with 65 if it is a notification that is
    /// not proven or damaged, and with 75 if it is to come again, as mail servers know it.
    #[arg(long, conflicts_with = "listen")]
    mail: bool,
}

/// Why the program cannot work, in a sentence without secrets and addresses of people.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(pub(crate) String);

/// Statuses that mail servers know (sysexits.h): the mail is refused, or it is to be tried again.
/// Only reports that cannot be read are refused, because a mail server sends a refusal to the
/// mail's sender, and notifications have no sender.
const REFUSED: u8 = 65;
const AGAIN: u8 = 75;

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    mailroom_http::address(text).ok_or("an address with a port, or a port alone, of 127.0.0.1")
}

/// Runs what the arguments ask for, reports errors on standard error and returns the exit status.
///
/// `database` is an error if the settings of the database are wrong: the sentence that says why.
pub async fn run(arguments: &Arguments, database: Result<ConnectionSettings, String>) -> ExitCode {
    let outcome = match database {
        Ok(settings) => take(arguments, Database::new(settings)).await,
        Err(sentence) => Err(Error(sentence)),
    };
    ExitCode::from(outcome.unwrap_or_else(|error| {
        tracing::error!(event = "bounces_failed", "{error}");
        // Any other status would have the mail server give the mail up.
        if arguments.mail { AGAIN } else { 2 }
    }))
}

async fn take(arguments: &Arguments, database: Database) -> Result<u8, Error> {
    let config = Config::read(&arguments.config)?;
    match arguments.listen {
        Some(address) => {
            let metrics = arguments.metrics_address;
            server::serve(address, metrics, config.providers()?, database).await.map(|()| 0)
        }
        None => Ok(take_mail(&config.return_path()?, &database).await),
    }
}

async fn take_mail(return_path: &ReturnPath, database: &Database) -> u8 {
    let read = match read_mail() {
        Err(_) => Err(Refusal::Unavailable("standard input cannot be read")),
        Ok(bytes) => mail::read(&bytes, return_path),
    };
    let outcome = match read {
        Ok(notices) => database.suppress("mail", &notices).await,
        Err(refusal) => Err(refusal),
    };
    let (reason, status) = match outcome {
        Ok(_) => return 0,
        Err(Refusal::Unproven(reason) | Refusal::Unreadable(reason)) => (reason, REFUSED),
        Err(Refusal::Unavailable(reason)) => (reason, AGAIN),
    };
    tracing::warn!(
        event = "notification_refused",
        provider = "mail",
        status,
        reason,
        "a notification was refused"
    );
    status
}

/// Reads a mail from standard input, of a large one the beginning; a mail server may take it for a
/// fault if the rest is left.
fn read_mail() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut input = io::stdin().lock();
    input.by_ref().take(mail::MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    io::copy(&mut input, &mut io::sink())?;
    Ok(bytes)
}
