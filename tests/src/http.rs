//! Requests byte for byte, as no client would send them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

/// Sends bytes, and returns all that comes until the connection ends. The server may answer and
/// close before it has them all.
///
/// # Errors
/// Nobody listens there, or what comes is no text.
pub fn exchange(address: &str, bytes: &[u8]) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    stream.write_all(bytes).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    Ok(String::from_utf8(answer)?)
}

/// The status, the head and the body of an answer.
///
/// # Errors
/// It is none.
pub fn parts(answer: &str) -> Result<(u16, &str, &str)> {
    let parts = answer.split_once("\r\n\r\n");
    let (head, body) = parts.with_context(|| format!("no answer: {answer}"))?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, head, body))
}

/// Sends bytes, and returns the status, the head and the body of the answer.
///
/// # Errors
/// As of both.
pub fn ask(address: &str, bytes: &[u8]) -> Result<(u16, String, String)> {
    let answer = exchange(address, bytes)?;
    let (status, head, body) = parts(&answer)?;
    Ok((status, head.to_owned(), body.to_owned()))
}
