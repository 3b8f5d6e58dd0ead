//! Providers with an HTTP API: a request for each mail. A provider says what a request is and what
//! an answer means; this is the rest.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use mailroom_mail::{Error, Secret};
use ureq::SendBody;
use ureq::http::{HeaderMap, Method, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

use super::refusal::{self, Said, Step};
use super::{
    About, Connection, PreparedMail, Progress, Provider, Receipt, Refusal, Suspicion, Verdict,
};
use crate::key::Key;
use crate::mail::Mail;
use crate::rate::Rate;

/// The type of a body.
pub(super) const JSON: &str = "application/json";

/// How long each request has a connection of its own after one got no answer.
const ANEW: Duration = Duration::from_secs(3_600);

/// The largest answer that is read, in bytes, once it is decompressed.
const MAX_ANSWER: u64 = 65_536;

/// The largest headers of an answer, in bytes.
const MAX_HEADERS: usize = 262_144;

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

/// Why the body of an answer is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It did not come whole.
    Cut,
    /// It is too long, or no JSON.
    Unreadable,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// Its JSON; null if there is none.
    pub(super) body: serde_json::Value,
    /// Why the body says nothing, though there may be something in it.
    pub(super) fault: Option<Fault>,
    /// Whom the mail was to; the provider may repeat it.
    pub(super) recipient: String,
}

impl Answer {
    /// What the provider's words are, after the status.
    pub(super) fn reason(&self, words: &str) -> String {
        format!("{} {words}", self.status).trim_end().to_owned()
    }

    /// The verdict of a refusal that the provider calls `name`, with its `text`; `words` are shown.
    pub(super) fn refused(&self, step: Step, name: &str, text: &str, words: &str) -> Verdict {
        let code = self.status;
        let recipient = self.recipient.as_str();
        let said = Said { step, code, name, text, recipient, sender: "" };
        refusal::verdict(&said, self.retry_after(), self.reason(words))
    }

    /// Whether the provider says that it is JSON.
    #[cfg(any(feature = "keyed", feature = "ses"))]
    fn says_json(&self) -> bool {
        let kind = self.header("Content-Type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        kind.starts_with("application/") && kind.contains("json")
    }

    /// The text of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The pause that the provider asks for: `Retry-After`, in seconds or until a date.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let text = self.header("Retry-After")?;
        text.parse().map(Duration::from_secs).ok().or_else(|| {
            let until = httpdate::parse_http_date(text).ok()?;
            Some(until.duration_since(SystemTime::now()).unwrap_or_default())
        })
    }
}

/// A provider with an HTTP API.
pub(super) struct Client<A> {
    name: &'static str,
    agent: ureq::Agent,
    /// The same with a new connection for each request.
    anew: ureq::Agent,
    /// Until when connections are not used again, since a request got no answer: there are servers
    /// that drop the second one of a connection, which would leave nearly every mail in doubt.
    anew_until: Mutex<Option<Instant>>,
    method: Method,
    url: String,
    connections: usize,
    timeout: Duration,
    rate: Option<Rate>,
    api: A,
}

impl<A: Api> Client<A> {
    pub(super) fn new(settings: Settings<'_>, api: A) -> Result<Self, Error> {
        let Settings { name, url, ca_file, connections, timeout_seconds, rate } = settings;
        let wrong = |what: &str| Error::configuration(format!("[{name}] {what}"));
        for (name, value, most) in
            [("connections", connections as u64, 64), ("timeout_seconds", timeout_seconds, 300)]
        {
            if !(1..=most).contains(&value) {
                return Err(wrong(&format!("{name} must be from 1 to {most}")));
            }
        }
        let is_local =
            ["http://127.0.0.1:", "http://localhost:"].iter().any(|local| url.starts_with(local));
        if !url.starts_with("https://") && !is_local {
            return Err(wrong("sends no key without encryption: url must begin with https://"));
        }
        let is_address = url.parse::<Uri>().is_ok_and(|uri| {
            uri.authority().is_some_and(|authority| {
                !authority.as_str().contains('@') && !authority.host().is_empty()
            })
        });
        if !is_address || url.contains(['#', '{', '}']) {
            return Err(wrong("url must be an address such as https://api.example.com"));
        }
        let tls = TlsConfig::builder()
            .root_certs(roots(ca_file).map_err(|what| wrong(&what))?)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let tls = tls.build();
        let agent = |most_idle: usize| {
            ureq::Agent::config_builder()
                .tls_config(tls.clone())
                .http_status_as_error(false)
                // A redirection would carry the key elsewhere.
                .max_redirects(0)
                .proxy(None)
                .max_idle_connections(most_idle)
                .max_idle_connections_per_host(most_idle)
                .max_response_header_size(MAX_HEADERS)
                .input_buffer_size(MAX_HEADERS)
                .timeout_global(Some(Duration::from_secs(timeout_seconds)))
                // Without a connection nothing was sent, and the fallback may have the mail; after
                // the whole time nobody knows.
                .timeout_connect(Some(Duration::from_secs(timeout_seconds) / 2))
                .build()
                .new_agent()
        };
        Ok(Self {
            name,
            agent: agent(connections),
            anew: agent(0),
            anew_until: Mutex::default(),
            method: Method::POST,
            url,
            connections,
            timeout: Duration::from_secs(timeout_seconds),
            rate,
            api,
        })
    }

    /// Sends mails by another method than POST.
    #[cfg(feature = "http")]
    pub(super) fn with_method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    /// Sends a request, which reports its progress if it has a mail.
    ///
    /// # Errors
    /// Why there is no answer; a verdict of `Unavailable` if the mail certainly did not arrive.
    fn request(
        &self,
        method: &Method,
        body: &str,
        mail: Option<(Key, &dyn Progress)>,
    ) -> Result<Answer, Verdict> {
        let key = mail.map(|(key, _)| key);
        let address = self.url.split_once("://").map_or("", |(_, address)| address);
        let (host, path) = address.split_at(address.find('/').unwrap_or(address.len()));
        let path = if path.is_empty() { "/" } else { path };
        let headers = self.api.headers(&Request { host, path, key, body });
        let mut request =
            ureq::http::Request::builder().method(method).uri(&self.url).header("Host", host);
        // Without Accept-Encoding a server may compress its answer (RFC 9110, 12.5.3), by a method
        // that is not known here.
        for (name, value) in [("Content-Type", JSON), ("Accept-Encoding", "identity")] {
            if !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                request = request.header(name, value);
            }
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let progress = mail.map(|(_, progress)| progress);
        let mut content = Content { rest: body.as_bytes(), is_begun: false, progress, fault: None };
        let uses_anew = self.lock_anew().is_some_and(|until| Instant::now() < until);
        let agent = if uses_anew { &self.anew } else { &self.agent };
        let response = if *method == Method::HEAD {
            request.body(()).map_err(ureq::Error::from).and_then(|request| agent.run(request))
        } else {
            // Else a body that is read piece by piece would have no length.
            let request = request.header("Content-Length", body.len());
            let sent = request.body(SendBody::from_reader(&mut content));
            sent.map_err(ureq::Error::from).and_then(|request| agent.run(request))
        };
        if response.is_err() && content.is_begun {
            *self.lock_anew() = Some(Instant::now() + ANEW);
        }
        let mut response = response.map_err(|error| content.verdict(self.name, &error))?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
        let (body, fault) = match read_body(status, &headers, body) {
            Ok(body) => (body, None),
            Err(fault) => (serde_json::Value::Null, Some(fault)),
        };
        Ok(Answer { status, headers, body, fault, recipient: String::new() })
    }
}

impl<A> Client<A> {
    fn lock_anew(&self) -> MutexGuard<'_, Option<Instant>> {
        self.anew_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The JSON of a body that was read; null if it certainly is empty.
fn read_body(
    status: u16,
    headers: &HeaderMap,
    body: Result<Vec<u8>, ureq::Error>,
) -> Result<serde_json::Value, Fault> {
    let body = body.map_err(|error| match error {
        ureq::Error::BodyExceedsLimit(_) => Fault::Unreadable,
        _ => Fault::Cut,
    })?;
    // Without its length the body of a connection that was cut is empty, too.
    let has_end = ["Content-Length", "Transfer-Encoding"];
    if body.is_empty() && (status == 204 || has_end.iter().any(|name| headers.contains_key(*name)))
    {
        return Ok(serde_json::Value::Null);
    }
    // A byte order mark, which is no JSON and says nothing (RFC 8259, 8.1).
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body);
    serde_json::from_slice(text).map_err(|_| Fault::Unreadable)
}

impl<A: Api> Provider for Client<A> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn payload(&self, mail: &Mail) -> Result<String, String> {
        self.api.body(mail)
    }

    fn key_window(&self) -> Option<Duration> {
        A::KEY_WINDOW
    }

    fn connections(&self) -> usize {
        self.connections
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    fn rate(&self) -> Option<Rate> {
        self.rate
    }

    fn connection(&self) -> Box<dyn Connection + '_> {
        Box::new(Requests(self))
    }

    /// Posts a mail without anything in it, which providers refuse after they have checked the key;
    /// where that could mean something else, asks for the headers only.
    fn check(&self) -> Result<Option<String>, String> {
        let method = if A::REFUSES_EMPTY_MAILS { &self.method } else { &Method::HEAD };
        let answer =
            self.request(method, "{}", None).map_err(|verdict| verdict.reason().to_owned())?;
        match answer.status {
            400 | 422 => Ok(None),
            // Many APIs know no HEAD, or only after the login.
            200..300 | 404 | 405 if !A::REFUSES_EMPTY_MAILS => Ok(None),
            _ => Err(format!(
                "{}: the answer to a request with the key is {}",
                self.name, answer.status
            )),
        }
    }

    /// Like a check; but whatever is no fault of the server shows that it answers.
    fn probe(&self) -> Result<(), String> {
        let method = if A::REFUSES_EMPTY_MAILS { &self.method } else { &Method::HEAD };
        let answer =
            self.request(method, "{}", None).map_err(|verdict| verdict.reason().to_owned())?;
        // An API that knows no HEAD says so by 501.
        if matches!(answer.status, 500 | 502..600) {
            let (name, status) = (self.name, answer.status);
            return Err(format!("{name}: the answer to a request without a mail is {status}"));
        }
        Ok(())
    }
}

struct Requests<'a, A>(&'a Client<A>);

impl<A: Api> Connection for Requests<'_, A> {
    fn deliver(
        &mut self,
        prepared: &PreparedMail,
        payload: &str,
        progress: &dyn Progress,
    ) -> Verdict {
        match self.0.request(&self.0.method, payload, Some((prepared.key, progress))) {
            Ok(mut answer) => {
                prepared.to.clone_into(&mut answer.recipient);
                let verdict = self.0.api.judge(&answer).unwrap_or_else(|| by_status(&answer, ""));
                let id = self.0.api.id(&answer);
                with_id(id, without_hearing(answer.fault, verdict))
            }
            Err(verdict) => verdict,
        }
    }
}

/// An acceptance with the provider's id, by which its support and its notices know the mail.
fn with_id(id: Option<String>, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Sent(Receipt { message_id: None, answer }) => {
            Verdict::Sent(Receipt { message_id: id, answer })
        }
        verdict => verdict,
    }
}

/// A refusal that nothing places is none for ever if the provider's words did not arrive.
fn without_hearing(fault: Option<Fault>, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Dead(Refusal { reason, about: About::Unplaced }) if fault == Some(Fault::Cut) => {
            let reason = format!("{reason}: the answer did not come whole");
            Verdict::Retry { after: None, reason }
        }
        verdict => verdict,
    }
}

/// The verdict of an acceptance that does not have what the provider always gives: a proxy, or a
/// page for the login of a network, may have answered in its place. JSON that came whole and cannot
/// be read, because it is compressed unasked or very long, is none of these.
#[cfg(any(feature = "keyed", feature = "ses"))]
pub(super) fn unproven(answer: &Answer) -> Verdict {
    if answer.fault == Some(Fault::Unreadable) && answer.says_json() {
        return by_status(answer, "");
    }
    let reason = answer.reason("without the id that the provider gives to a mail");
    Verdict::Overloaded { after: None, reason }
}

/// The outcome for an HTTP status that the provider does not define. `words` is the provider's
/// error text.
pub(super) fn by_status(answer: &Answer, words: &str) -> Verdict {
    let after = answer.retry_after();
    let reason = answer.reason(words);
    match answer.status {
        200..300 => Verdict::Sent(Receipt { message_id: None, answer: reason }),
        // The login and the account are those of all mails.
        401 | 402 | 407 => Verdict::Unavailable { after, reason },
        429 => Verdict::Suspected { suspicion: Suspicion::Rate, after, reason },
        400 | 413 | 422 => answer.refused(Step::Http, "", "", words),
        // A fault of the server or of a gateway, which others would meet, too; after it has begun
        // with this mail.
        500..600 => Verdict::Overloaded { after, reason },
        // It refuses, but may have had the mail: it waited too long for it, had it already or was
        // about to take it.
        408 | 409 | 423 | 425 | 499 => Verdict::InDoubt { reason },
        // Whatever else is refused was not accepted. Mostly it is the request as such, which is the
        // same for all mails; but firewalls and some APIs refuse one recipient or text like that.
        300..500 => Verdict::Suspected { suspicion: Suspicion::Words, after, reason },
        _ => Verdict::InDoubt { reason },
    }
}

/// The body of a request. That it begins is recorded as late as possible: before, while the
/// connection is opened and while the headers are sent, nobody can have the mail.
struct Content<'a> {
    rest: &'a [u8],
    is_begun: bool,
    /// Where the beginning is recorded.
    progress: Option<&'a dyn Progress>,
    /// Why it could not be recorded.
    fault: Option<String>,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.is_begun
            && let Some(progress) = self.progress
            && let Err(reason) = progress.enter_doubt()
        {
            self.fault = Some(reason);
            return Err(io::Error::other("the attempt cannot be recorded"));
        }
        self.is_begun = true;
        self.rest.read(buffer)
    }
}

impl Content<'_> {
    /// Without an answer the mail may have been accepted, unless its body has not begun.
    fn verdict(self, name: &str, error: &ureq::Error) -> Verdict {
        if let Some(reason) = self.fault {
            return Verdict::Unavailable { after: None, reason };
        }
        if !self.is_begun {
            let reason = format!("{name}: no connection: {error}");
            return Verdict::Unavailable { after: None, reason };
        }
        Verdict::Overloaded { after: None, reason: format!("{name}: no answer: {error}") }
    }
}

fn roots(file: Option<&Path>) -> Result<RootCerts, String> {
    let certificates: Vec<Certificate<'static>> = if let Some(file) = file {
        let pem = fs::read(file)
            .map_err(|error| format!("ca_file: {} cannot be read: {error}", file.display()))?;
        let items = ureq::tls::parse_pem(&pem).filter_map(Result::ok);
        items
            .filter_map(
                |item| if let PemItem::Certificate(found) = item { Some(found) } else { None },
            )
            .collect()
    } else {
        let found = rustls_native_certs::load_native_certs().certs;
        found.iter().map(|found| Certificate::from_der(found.as_ref()).to_owned()).collect()
    };
    if certificates.is_empty() {
        return Err(
            "there are no certificates to trust: set ca_file to a file that holds some".to_owned()
        );
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    struct Plain;

    impl Api for Plain {
        fn headers(&self, _: &Request<'_>) -> Vec<(String, String)> {
            Vec::new()
        }

        fn body(&self, _: &Mail) -> Result<String, String> {
            Ok("{}".to_owned())
        }

        fn judge(&self, _: &Answer) -> Option<Verdict> {
            None
        }
    }

    fn client(port: u16) -> Client<Plain> {
        let settings = Settings {
            name: "api",
            url: format!("http://127.0.0.1:{port}"),
            ca_file: None,
            connections: 1,
            timeout_seconds: 60,
            rate: None,
        };
        Client::new(settings, Plain).unwrap()
    }

    /// Counts how often doubt begins.
    struct Doubts {
        count: Cell<usize>,
        is_recorded: bool,
    }

    impl Progress for Doubts {
        fn enter_doubt(&self) -> Result<Option<Duration>, String> {
            self.count.set(self.count.get() + 1);
            if self.is_recorded { Ok(None) } else { Err("the disk is full".to_owned()) }
        }
    }

    fn attempt(port: u16, is_recorded: bool) -> (Verdict, usize) {
        let doubts = Doubts { count: Cell::new(0), is_recorded };
        let client = client(port);
        let body = "{\"a\": 1}".repeat(10_000);
        let outcome = client.request(&Method::POST, &body, Some((Key::default(), &doubts)));
        (
            outcome.map_or_else(|verdict| verdict, |answer| by_status(&answer, "")),
            doubts.count.get(),
        )
    }

    #[test]
    fn doubt_begins_with_the_body_of_a_request_and_not_with_its_connection() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (verdict, doubts) = attempt(closed, true);
        assert!(matches!(verdict, Verdict::Unavailable { .. }) && doubts == 0, "{verdict:?}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let mut lengths = Vec::new();
            for stream in listener.incoming().take(2).map(Result::unwrap) {
                let mut stream = stream;
                let (mut text, mut buffer) = (Vec::new(), [0; 4_096]);
                // Until the request is whole, or the client has given it up.
                let is_whole = |text: &[u8]| {
                    let end = text.windows(4).position(|bytes| bytes == b"\r\n\r\n");
                    end.is_some_and(|end| text.len() >= end + 4 + 80_000)
                };
                while !is_whole(&text) {
                    match stream.read(&mut buffer) {
                        Ok(0) | Err(_) => break,
                        Ok(count) => text.extend_from_slice(&buffer[..count]),
                    }
                }
                let text = String::from_utf8(text).unwrap().to_ascii_lowercase();
                assert!(text.contains("content-length: 80000") && !text.contains("chunked"));
                lengths.push(text.split_once("\r\n\r\n").unwrap().1.len());
            }
            lengths
        });
        let (verdict, doubts) = attempt(port, false);
        let expected = Verdict::Unavailable { after: None, reason: "the disk is full".to_owned() };
        assert_eq!((verdict, doubts), (expected, 1));
        let (verdict, doubts) = attempt(port, true);
        assert!(matches!(verdict, Verdict::Overloaded { .. }) && doubts == 1, "{verdict:?}");
        assert_eq!(server.join().unwrap(), [0, 80_000]);
    }
}
