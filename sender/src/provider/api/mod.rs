//! Providers with an HTTP API: a request for each mail. A provider says what a request is and what
//! an answer means; `client` has the requests, `content` when one may have arrived, `answer` what
//! came back, and `outcome` what that means where the provider does not say. `head` reads what
//! servers write before the body, on the connections of `connector`.

mod answer;
mod client;
mod connector;
mod content;
mod head;
mod outcome;

use std::path::Path;
use std::time::Duration;

use mailroom_mail::{Error, Secret};

use super::Verdict;
use crate::key::Key;
use crate::mail::Mail;
use crate::rate::Rate;
pub(super) use answer::{Answer, Fault};
pub(super) use client::Client;
pub(super) use outcome::by_status;
#[cfg(any(feature = "keyed", feature = "ses"))]
pub(super) use outcome::unproven;

/// The type of a body.
pub(super) const JSON: &str = "application/json";

pub(crate) const fn two() -> usize {
    2
}

pub(crate) const fn twenty() -> u64 {
    20
}

/// Reads the key of a table, which is sent in a header.
pub(super) fn key(
    name: &str,
    file: Option<&Path>,
    variable: Option<&str>,
) -> Result<Secret, Error> {
    in_header(&format!("[{name}] key"), file, variable)
}

/// Reads a secret that is sent in a header; `name` is the setting's beginning.
pub(super) fn in_header(
    name: &str,
    file: Option<&Path>,
    variable: Option<&str>,
) -> Result<Secret, Error> {
    let secret = Secret::read(name, file, variable)?;
    if !secret.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::configuration(format!("{name} must be ASCII without blanks")));
    }
    Ok(secret)
}

/// What every table of such a provider says.
#[derive(Debug)]
pub(super) struct Settings<'a> {
    /// The table.
    pub(super) name: &'static str,
    /// Where mails are posted to.
    pub(super) url: String,
    pub(super) ca_file: Option<&'a Path>,
    pub(super) connections: usize,
    pub(super) timeout_seconds: u64,
    pub(super) rate: Option<Rate>,
}

/// What is particular to a provider.
pub(super) trait Api: Send + Sync {
    /// Whether the provider looks at the key and refuses a mail without anything in it, which is
    /// how it is tried.
    const REFUSES_EMPTY_MAILS: bool = true;

    /// How long it knows a mail by its key.
    const KEY_WINDOW: Option<Duration> = None;

    /// The headers of a request: what authenticates it, and what the token is known by if the
    /// provider has a header for that.
    fn headers(&self, request: &Request<'_>) -> Vec<(String, String)>;

    /// The body of a request, in JSON, or why there is none.
    fn body(&self, mail: &Mail) -> Result<String, String>;

    /// What an answer means; `None` where the status alone tells.
    fn judge(&self, answer: &Answer) -> Option<Verdict>;

    /// The id that the provider gave to a mail which it accepted, if its answers have one.
    fn id(&self, _: &Answer) -> Option<String> {
        None
    }
}

/// A request that is about to be posted.
#[derive(Debug)]
#[allow(
    dead_code,
    reason = "a provider reads of it what it needs, and a build may have a single provider"
)]
pub(super) struct Request<'a> {
    /// The name or address of the server, with its port where the URL has one.
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    /// What the token is known by; none in a request that only tries the provider.
    pub(super) key: Option<Key>,
    pub(super) body: &'a str,
}
