//! Providers with an HTTP API: a request for each mail. A provider says what a request is and what an answer means; this is the rest.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

use super::{Connection, Provider, Sealed, Verdict};
use crate::error::Error;
use crate::mail::Mail;
use crate::secret::Secret;

/// The largest answer that is read, in bytes.
const LARGEST_ANSWER: u64 = 65_536;

/// The table of a provider with an HTTP API.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiConfig {
    /// The file of the key, or the variable.
    key_file: Option<PathBuf>,
    key_variable: Option<String>,
    /// Where the API is; the provider's own place unless given.
    url: Option<String>,
    /// A file of certificates that are trusted instead of the system's.
    ca_file: Option<PathBuf>,
    /// Requests at a time, 1 to 64.
    #[serde(default = "two")]
    connections: usize,
    /// The time that a request may take, in seconds, 1 to 300.
    #[serde(default = "twenty")]
    timeout_seconds: u64,
}

const fn two() -> usize {
    2
}

const fn twenty() -> u64 {
    20
}

impl ApiConfig {
    pub(crate) fn make_paths_relative_to(&mut self, folder: &Path) {
        for path in [&mut self.ca_file, &mut self.key_file].into_iter().flatten() {
            *path = folder.join(&*path);
        }
    }
}

/// What is particular to a provider.
pub(crate) trait Api: Send + Sync {
    /// Its table.
    const NAME: &'static str;
    /// Where its API is, without a path.
    const URL: &'static str;
    /// The path that mails are posted to.
    const PATH: &'static str;

    /// The header that authenticates.
    fn authentication(key: &Secret) -> (&'static str, String);

    /// The header that carries what the token is known by, if the provider has one.
    fn idempotency(sealed: &Sealed) -> Option<(&'static str, String)>;

    /// The body of a request, in JSON.
    fn body(mail: &Mail) -> String;

    /// What an answer other than of success means; `None` where the status alone tells.
    fn judge(answer: &Answer) -> Option<Verdict>;
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: serde_json::Value,
}

impl Answer {
    /// What the provider's words are, after the status.
    pub(crate) fn reason(&self, words: &str) -> String {
        format!("{} {words}", self.status).trim_end().to_owned()
    }
}

/// A provider with an HTTP API.
pub(crate) struct Http<A> {
    agent: ureq::Agent,
    url: String,
    key: Secret,
    connections: usize,
    api: std::marker::PhantomData<A>,
}

impl<A: Api> Http<A> {
    pub(crate) fn new(config: &ApiConfig) -> Result<Self, Error> {
        let wrong = |what: &str| Error::configuration(format!("[{}] {what}", A::NAME));
        for (name, value, most) in
            [("connections", config.connections as u64, 64), ("timeout_seconds", config.timeout_seconds, 300)]
        {
            if !(1..=most).contains(&value) {
                return Err(wrong(&format!("{name} must be from 1 to {most}")));
            }
        }
        let url = config.url.as_deref().unwrap_or(A::URL).trim_end_matches('/');
        let is_local = ["http://127.0.0.1:", "http://localhost:"].iter().any(|local| url.starts_with(local));
        if !url.starts_with("https://") && !is_local {
            return Err(wrong("sends no key without encryption: url must begin with https://"));
        }
        let key = Secret::read(
            &format!("[{}] key", A::NAME),
            config.key_file.as_deref(),
            config.key_variable.as_deref(),
        )?;
        if !key.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("the key must be ASCII without blanks"));
        }
        let tls = TlsConfig::builder()
            .root_certs(roots(config.ca_file.as_deref()).map_err(|what| wrong(&what))?)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let agent = ureq::Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            // A redirection would carry the key elsewhere.
            .max_redirects(0)
            .proxy(None)
            .max_idle_connections_per_host(config.connections)
            .timeout_global(Some(Duration::from_secs(config.timeout_seconds)))
            .build()
            .new_agent();
        let url = format!("{url}{}", A::PATH);
        Ok(Self { agent, url, key, connections: config.connections, api: std::marker::PhantomData })
    }

    /// Posts a body.
    ///
    /// # Errors
    /// Why there is no answer; a verdict of `Unavailable` if the request certainly did not arrive.
    fn post(&self, sealed: Option<&Sealed>, body: &str) -> Result<Answer, Verdict> {
        let (name, value) = A::authentication(&self.key);
        let mut request =
            self.agent.post(&self.url).header(name, value).header("Content-Type", "application/json");
        if let Some((name, value)) = sealed.and_then(A::idempotency) {
            request = request.header(name, value);
        }
        let mut response = request.send(body).map_err(|error| unanswered::<A>(&error))?;
        let retry_after =
            response.headers().get("Retry-After").and_then(|value| value.to_str().ok()?.parse().ok());
        let status = response.status().as_u16();
        // What cannot be read or is no JSON says nothing more than the status.
        let body = response.body_mut().with_config().limit(LARGEST_ANSWER).read_to_vec().unwrap_or_default();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Ok(Answer { status, retry_after: retry_after.map(Duration::from_secs), body })
    }
}

impl<A: Api> Provider for Http<A> {
    fn name(&self) -> &'static str {
        A::NAME
    }

    fn payload(&self, mail: &Mail) -> String {
        A::body(mail)
    }

    fn connections(&self) -> usize {
        self.connections
    }

    fn connection(&self) -> Box<dyn Connection + '_> {
        Box::new(Requests(self))
    }

    /// Posts a mail without anything in it, which providers refuse after they have checked the key.
    fn check(&self) -> Result<(), String> {
        let answer = self.post(None, "{}").map_err(|verdict| match verdict {
            Verdict::Unavailable { reason, .. } | Verdict::Retry { reason, .. } | Verdict::Dead(reason) => {
                reason
            }
            Verdict::Sent => String::new(),
        })?;
        match answer.status {
            400 | 422 => Ok(()),
            _ => Err(format!("{}: the answer to a request with the key is {}", A::NAME, answer.status)),
        }
    }
}

struct Requests<'a, A>(&'a Http<A>);

impl<A: Api> Connection for Requests<'_, A> {
    fn deliver(&mut self, sealed: &Sealed) -> Verdict {
        match self.0.post(Some(sealed), &sealed.payload) {
            Ok(answer) if (200..300).contains(&answer.status) => Verdict::Sent,
            Ok(answer) => A::judge(&answer).unwrap_or_else(|| by_status(&answer)),
            Err(verdict) => verdict,
        }
    }
}

/// What a status means of which a provider says nothing particular. In doubt, a mail is tried again.
fn by_status(answer: &Answer) -> Verdict {
    let (after, reason) = (answer.retry_after, answer.reason(""));
    match answer.status {
        // The key, the place and the limits are those of all mails.
        300..400 | 401..=405 | 429 | 503 => Verdict::Unavailable { after, reason },
        400 | 413 | 422 => Verdict::Dead(reason),
        _ => Verdict::Retry { after, reason },
    }
}

/// Without an answer the mail may have been accepted, unless there was no connection.
fn unanswered<A: Api>(error: &ureq::Error) -> Verdict {
    use std::io::ErrorKind;
    use ureq::{Error as E, Timeout};
    let is_certain = match error {
        E::HostNotFound | E::ConnectionFailed | E::Tls(_) | E::Rustls(_) | E::TlsRequired => true,
        E::Timeout(timeout) => matches!(timeout, Timeout::Resolve | Timeout::Connect),
        E::Io(error) => {
            // A certificate that does not fit comes as this kind of error of the stream.
            matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::InvalidData)
        }
        _ => false,
    };
    if is_certain {
        Verdict::Unavailable { after: None, reason: format!("{}: no connection: {error}", A::NAME) }
    } else {
        Verdict::Retry { after: None, reason: format!("{}: no answer: {error}", A::NAME) }
    }
}

fn roots(file: Option<&Path>) -> Result<RootCerts, String> {
    let certificates: Vec<Certificate<'static>> = if let Some(file) = file {
        let pem =
            fs::read(file).map_err(|error| format!("ca_file: {} cannot be read: {error}", file.display()))?;
        let items = ureq::tls::parse_pem(&pem).filter_map(Result::ok);
        items
            .filter_map(|item| if let PemItem::Certificate(found) = item { Some(found) } else { None })
            .collect()
    } else {
        let found = rustls_native_certs::load_native_certs().certs;
        found.iter().map(|found| Certificate::from_der(found.as_ref()).to_owned()).collect()
    };
    if certificates.is_empty() {
        return Err("there are no certificates to trust: set ca_file to a file that holds some".to_owned());
    }
    Ok(RootCerts::new_with_certs(&certificates))
}
