//! The program `mailroom serve`: the functions of the database by HTTP, for runtimes that speak
//! nothing else.
//!
//! `server` (who asks, for what) → `members` (what is given, as JSON) → `function` (as a statement)
//! → `database`. Whatever is refused is a `problem`. `wake` calls collectors that rest.
//!
//! Nothing of a link, a code, an address or a bearer token is logged. A problem says whether
//! anything was done: only then may a link be shown as good again.

#![allow(clippy::result_large_err, reason = "a refusal is made once a request, and sent at once")]

mod bucket;
mod database;
mod failure;
mod function;
mod listener;
mod members;
mod new_token;
mod problem;
mod right;
mod server;
mod tls;
mod tokens;
mod wake;

use std::path::PathBuf;
use std::process::ExitCode;

use mailroom_connect::ConnectionSettings;

use crate::listener::Place;
use crate::new_token::NewToken;
use crate::wake::CollectorAddress;

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    /// The bearer tokens and what each may call, a file in TOML; SIGHUP has it read again
    #[arg(long, value_name = "FILE", required = true)]
    tokens: Option<PathBuf>,

    /// Where to listen: `ADDRESS:PORT`, `PORT` at 127.0.0.1, or `unix:PATH`
    #[arg(long, value_name = "PLACE", default_value = "8027", value_parser = Place::parse)]
    listen: Place,

    /// The certificate and those that sign it, in PEM; SIGHUP has it read again
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,

    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,

    /// Listen without TLS at an address that other machines reach: a proxy in front has it, and
    /// nobody else can reach the address
    #[arg(long, conflicts_with = "tls_certificate")]
    behind_tls: bool,

    /// Connections to the database at most
    #[arg(long, value_name = "NUMBER", default_value = "8",
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,

    /// A collector with `MAILROOM_WAKE=call`, by its address of metrics: it is woken by
    /// `POST /v1/wake`, and after calls that have mails sent. Can be repeated
    #[arg(long, value_name = "[HOST:]PORT", value_parser = CollectorAddress::parse)]
    wake: Vec<CollectorAddress>,
}

/// What else there is to do.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a bearer token: it goes to standard output, once, and its table for the file
    /// of bearer tokens to standard error
    Token(NewToken),
}

/// Why the program cannot work, in a sentence without secrets.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(pub(crate) String);

/// Runs what the arguments ask for, reports errors on standard error and returns the exit status.
///
/// `database` is an error if the settings of the database are wrong: the sentence that says why.
pub async fn run(arguments: &Arguments, database: Result<ConnectionSettings, String>) -> ExitCode {
    let outcome = match (&arguments.action, &arguments.tokens, database) {
        (Some(Action::Token(new)), ..) => new.make(),
        (None, _, Err(sentence)) => Err(Error(sentence)),
        (None, None, _) => Err(Error("the command needs --tokens FILE".to_owned())),
        (None, Some(tokens), Ok(settings)) => server::serve(arguments, tokens, settings).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(event = "serve_failed", "{error}");
            ExitCode::from(2)
        }
    }
}
