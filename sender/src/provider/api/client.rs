//! The requests of a provider, by connections that are kept.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mailroom_mail::Error;
use ureq::SendBody;
use ureq::http::{Method, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector as _, DefaultConnector};

use super::answer::read_body;
use super::connector::Lenient;
use super::content::Content;
use super::outcome::{by_status, with_id, without_hearing};
use super::{Answer, Api, JSON, Request, Settings};
use crate::key::Key;
use crate::mail::Mail;
use crate::provider::{Connection, PreparedMail, Progress, Provider, Verdict};
use crate::rate::Rate;

/// How long each request has a connection of its own after one got no answer.
const ANEW: Duration = Duration::from_secs(3_600);

/// The largest answer that is read, in bytes, once it is decompressed.
const MAX_ANSWER: u64 = 65_536;

/// The largest headers of an answer, in bytes.
const MAX_HEADERS: usize = 262_144;

/// A provider with an HTTP API.
pub(in crate::provider) struct Client<A> {
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
    pub(in crate::provider) fn new(settings: Settings<'_>, api: A) -> Result<Self, Error> {
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
            let config = ureq::Agent::config_builder()
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
                .build();
            let connector = DefaultConnector::new().chain(Lenient);
            ureq::Agent::with_parts(config, connector, DefaultResolver::default())
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
    pub(in crate::provider) fn with_method(self, method: Method) -> Self {
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
        let mut content = Content::new(body, progress);
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
    use std::io::{Read as _, Write as _};
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

    /// Answers requests of a connection, each of which has an empty object; returns how many
    /// connections there were.
    fn answer_each(listener: &TcpListener, answers: &[&[u8]]) -> usize {
        let (mut left, mut connections) = (answers.iter(), 0);
        while left.len() > 0 {
            let (mut stream, _) = listener.accept().unwrap();
            connections += 1;
            let (mut text, mut buffer) = (Vec::new(), [0; 4_096]);
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                text.extend_from_slice(&buffer[..count]);
                if text.ends_with(b"\r\n\r\n{}") {
                    stream.write_all(left.next().unwrap()).unwrap();
                    text.clear();
                    if left.len() == 0 {
                        break;
                    }
                }
            }
        }
        connections
    }

    /// Each of its mails would be in doubt otherwise, and come three times.
    #[test]
    fn an_answer_counts_whatever_headers_a_server_writes() {
        const ODD: [&str; 8] = [
            "X-\u{f6}: a",
            ": a",
            "no header",
            "X Y: a",
            "X-Zero: \0",
            "X-Long: a\r\n b",
            "Late : a",
            "Content-Length: two",
        ];
        let end = "Content-Length: 12\r\n\r\n{\"id\":\"a-1\"}";
        let many = format!("HTTP/1.1 422 no\r\n{}{end}", "X-Many: a\r\n".repeat(50_000));
        let mut answers: Vec<_> =
            ODD.iter().map(|odd| format!("HTTP/1.1 422 no\r\n{odd}\r\n{end}")).collect();
        answers.push(many);
        answers.push(format!("HTTP/1.1 100 go\r\nA: b\r\n\r\nHTTP/1.1 422 \u{1}\r\n{end}"));
        // Two of a connection that is used again.
        answers.extend([(); 2].map(|()| format!("HTTP/1.1 422 no\r\n{end}")));
        let count = answers.len();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let answers: Vec<_> = answers.iter().map(String::as_bytes).collect();
            answer_each(&listener, &answers)
        });
        let client = client(port);
        for place in 0..count {
            let doubts = Doubts { count: Cell::new(0), is_recorded: true };
            let mail = Some((Key::default(), &doubts as &dyn Progress));
            let answer = client.request(&Method::POST, "{}", mail).unwrap();
            assert_eq!((answer.status, answer.fault), (422, None), "{place}");
            assert_eq!(answer.body["id"], "a-1", "{place}");
        }
        // After each that was odd there is another one.
        assert_eq!(server.join().unwrap(), ODD.len() + 2);
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
