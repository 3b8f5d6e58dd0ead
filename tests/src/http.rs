//! Requests byte for byte, as no client would send them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

/// Sends bytes, and returns the status, the head and the body of the answer. The server may answer
/// and close before it has them all.
///
/// # Errors
/// Nobody listens there, or what comes is no answer.
pub fn exchange(address: &str, bytes: &[u8]) -> Result<(u16, String, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    stream.write_all(bytes).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    let answer = String::from_utf8(answer)?;
    let parts = answer.split_once("\r\n\r\n");
    let (head, body) = parts.with_context(|| format!("no answer: {answer}"))?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, head.to_owned(), body.to_owned()))
}
