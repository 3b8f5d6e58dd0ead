//! `mailroom ui`: the queue in a browser of this machine, for people who look and change nothing.
//!
//! `address` (which page is meant) ← `database` (reads what it shows, in a transaction that cannot
//! change anything) ← `page` (shows it) ← `answer` (what a request gets), which asks `sign_in`
//! who may look.

mod address;
mod answer;
mod database;
mod page;
mod sign_in;

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mailroom_http::{Hosts, Limits, Request, serve, termination};
use tokio::net::TcpListener;

use self::answer::Site;
use self::database::Database;
use self::page::Pages;
use self::sign_in::SignIn;
use super::status::WatchedInstallation;
use super::{CommandError, Outcome, connection_settings, print};

/// A few browsers, whose pages wait for the database.
const LIMITS: Limits = Limits {
    connections: 64,
    head_bytes: 16 * 1024,
    head: Duration::from_secs(10),
    connection: Duration::from_secs(60),
};

#[derive(clap::Args)]
pub(crate) struct UiArguments {
    /// Port on this machine; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8026)]
    port: u16,

    #[command(flatten)]
    watched: WatchedInstallation,
}

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn run(arguments: UiArguments) -> Outcome {
    let UiArguments { port, watched } = arguments;
    let WatchedInstallation { installation, timeouts, schema } = watched;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = listener.await.map_err(CommandError::because(format_args!(
        "nothing can listen at port {port}; name another one by --port, or 0 for any"
    )))?;
    let address =
        listener.local_addr().map_err(CommandError::because("the listener has no address"))?;
    let database = Database::open(connection_settings(schema)?).await?;
    let (sign_in, password) = SignIn::new(address.port())?;
    let stop = termination().map_err(CommandError::because("signals cannot be taken"))?;
    let pages = Pages::new(database, timeouts, installation);
    let site = Arc::new(Site { hosts: Hosts::of(address), sign_in, pages });
    print("Ctrl-C ends it. It shows, and changes nothing. The link works once:")?;
    print(format_args!("http://{address}/#{}", *password))?;
    let answered = move |request: Request, reading| {
        let site = Arc::clone(&site);
        async move { site.answer(request, reading).await }
    };
    serve(listener, LIMITS, stop, answered).await;
    Ok(ExitCode::SUCCESS)
}
