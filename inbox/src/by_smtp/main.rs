//! A mail server of this machine whose mails the inbox of `mailroom dev` shows: `mailroom-inbox`,
//! for installations whose mails are sent by `mailroom send`, such as the web demonstration.
//!
//! `SMTP_PORT` is where it takes mails and `PORT` where it shows them, each 0 or missing for any
//! that is free. Both are on 127.0.0.1, and announced on standard output, a JSON object a line.
//!
//! `smtp` (the dialogue) → `received` (what a mail says) → `mailroom_inbox`.

mod received;
mod smtp;

use std::env;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use mailroom_inbox::Inbox;
use tokio::net::TcpListener;

/// How many mails are kept: more than a thousand registrations make.
const KEPT: usize = 2_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> io::Result<()> {
    let smtp = listen("SMTP_PORT").await?;
    let http = listen("PORT").await?;
    announce("smtp", &smtp)?;
    // Last, because whoever started this program waits for it.
    announce("http", &http)?;
    let inbox = Arc::new(Inbox::keeping(KEPT));
    let deliver = {
        let inbox = Arc::clone(&inbox);
        move |to: &str, content: &[u8]| received::deliver(&inbox, to, content)
    };
    tokio::select! {
        shown = mailroom_inbox::serve(http, inbox) => shown,
        taken = smtp::serve(smtp, deliver) => taken,
    }
}

async fn listen(variable: &str) -> io::Result<TcpListener> {
    let port = env::var(variable).unwrap_or_else(|_| "0".to_owned());
    let port: u16 =
        port.parse().map_err(|_| io::Error::other(format!("{variable} must be a port")))?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
}

fn announce(socket: &str, listener: &TcpListener) -> io::Result<()> {
    let port = listener.local_addr()?.port();
    let line = serde_json::json!({ "event": "listen", "socket": socket, "port": port });
    let mut output = io::stdout();
    writeln!(output, "{line}")?;
    output.flush()
}
