//! What a request brings: its media type, and its body within bounds.

use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::HeaderMap;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use tokio::time::timeout;

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFault {
    /// It is larger than is taken.
    TooLarge,
    /// It did not come in time.
    TooSlow,
    /// Its connection ended before it did.
    Incomplete,
}

/// The media type of a body, in lower case and without its parameters; empty if none is said.
pub fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let value = value.unwrap_or_default().split(';').next().unwrap_or_default();
    value.trim().to_ascii_lowercase()
}

/// Reads a body, of at most `largest` bytes and within this time.
///
/// # Errors
/// Why it was not read.
pub async fn read_body(
    body: Incoming,
    largest: usize,
    longest: Duration,
) -> Result<Bytes, BodyFault> {
    if body.size_hint().lower() > largest as u64 {
        return Err(BodyFault::TooLarge);
    }
    let body = timeout(longest, Limited::new(body, largest).collect()).await;
    let body = body.map_err(|_| BodyFault::TooSlow)?.map_err(|error| {
        let is_large = error.is::<LengthLimitError>();
        if is_large { BodyFault::TooLarge } else { BodyFault::Incomplete }
    })?;
    Ok(body.to_bytes())
}
