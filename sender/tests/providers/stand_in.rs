//! A server for HTTP/1.1 whose answers a test decides.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// How many requests came before it on its connection.
    pub(crate) before: usize,
}

impl Request {
    /// The value of a header that stands there once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        value.filter(|_| found.next().is_none())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

/// What comes back.
pub(crate) enum Reply {
    /// Status, further headers and body.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// The same with a body of bytes.
    Bytes(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Status and body, before whose announced end the connection is closed.
    Cut(u16, String),
    /// The connection is closed.
    Nothing,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        let ids = r#"{"id":"1","MessageID":"1","MessageId":"1"}"#;
        let body = if status == 200 { ids } else { "{}" };
        Self::Answer(status, Vec::new(), body.to_owned())
    }
}

/// The running server; its threads end with the test.
pub(crate) struct StandIn {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl StandIn {
    pub(crate) fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &seen, &*answer));
            }
        });
        Self { port, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Every request so far, answered or not.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(
    stream: TcpStream,
    seen: &Mutex<Vec<Request>>,
    answer: &(impl Fn(&Request) -> Reply + ?Sized),
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut output = stream.try_clone().ok()?;
    let mut input = BufReader::new(stream);
    for before in 0.. {
        let request = Request { before, ..read(&mut input)? };
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        let (status, headers, body, missing) = match answer(&request) {
            Reply::Answer(status, headers, body) => (status, headers, body.into_bytes(), 0),
            Reply::Bytes(status, headers, body) => (status, headers, body, 0),
            Reply::Cut(status, body) => (status, Vec::new(), body.into_bytes(), 1),
            Reply::Nothing => return None,
        };
        let headers: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (headers, length) = (headers.concat(), body.len() + missing);
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{headers}\r\n");
        // In one piece: a second packet would wait for the acknowledgement of the first.
        output.write_all(&[head.as_bytes(), &body].concat()).ok()?;
        if missing > 0 {
            return None;
        }
    }
    None
}

fn read(input: &mut impl BufRead) -> Option<Request> {
    let mut line = || {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|count| *count > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let header = line()?;
        let Some((name, value)) = header.split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut request = Request { method, path, headers, body: Vec::new(), before: 0 };
    let length =
        request.header("Content-Length").and_then(|length| length.parse().ok()).unwrap_or(0);
    input.take(length).read_to_end(&mut request.body).ok()?;
    Some(request)
}
