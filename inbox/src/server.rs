//! The HTTP server, on loopback.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mailroom_http::{Hosts, Limits, Request};
use tokio::net::TcpListener;

use crate::answer::answer;
use crate::mails::Inbox;

/// A connection takes one request, which may wait a minute for a mail.
const LIMITS: Limits = Limits {
    connections: 256,
    head_bytes: 65_536,
    head: Duration::from_secs(10),
    connection: Duration::from_secs(90),
};

/// Shows an inbox for as long as the future lives.
///
/// # Errors
/// The listener has no address, or one that other machines reach.
pub async fn serve(listener: TcpListener, inbox: Arc<Inbox>) -> io::Result<()> {
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        return Err(io::Error::other("the inbox is for this machine alone"));
    }
    let hosts = Arc::new(Hosts::of(address));
    let answered = move |request: Request, reading| {
        // No request here has a body that is read.
        drop(reading);
        let (hosts, inbox) = (Arc::clone(&hosts), Arc::clone(&inbox));
        async move { answer(&hosts, &inbox, &request).await }
    };
    mailroom_http::serve(listener, LIMITS, std::future::pending(), answered).await;
    Ok(())
}
