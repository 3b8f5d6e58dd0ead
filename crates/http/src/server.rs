//! The server itself: it accepts connections, and bounds them.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::listen::Listen;
use crate::unread::{Reading, Unread};

/// A request whose body has not been read.
pub type Request = hyper::Request<Incoming>;

/// An answer, whole.
pub type Answer = Response<Full<Bytes>>;

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. One more takes the place of the oldest whose request has not come.
    pub connections: usize,
    /// The longest head of a request, in bytes; at least 8192.
    pub head_bytes: usize,
    /// The longest time for the head of a request.
    pub head: Duration,
    /// The longest time for a connection.
    pub connection: Duration,
}

/// An answer in plain text.
pub fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, plain);
    answer
}

/// Answers requests until `stop` is done; then those that have begun are finished.
///
/// `answer` drops its [`Reading`] when the request has come whole: until then another connection
/// may take its place.
pub async fn serve<L, A, F>(listener: L, limits: Limits, stop: impl Future<Output = ()>, answer: A)
where
    L: Listen,
    A: Fn(Request, Option<Reading>) -> F + Send + Sync + 'static,
    F: Future<Output = Answer> + Send,
{
    let answer = Arc::new(answer);
    let places = Arc::new(Semaphore::new(limits.connections));
    let unread = Unread::default();
    let mut stop = std::pin::pin!(stop);
    loop {
        let next = async {
            let accepted = listener.accept().await;
            let place = Arc::clone(&places).try_acquire_owned();
            let place = if let Ok(place) = place {
                Ok(place)
            } else {
                unread.drop_oldest();
                Arc::clone(&places).acquire_owned().await
            };
            (place, accepted)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = &mut stop => break,
        };
        let Ok(opening) = accepted else {
            // No file descriptor is free, for example.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let answer = Arc::clone(&answer);
        unread.spawn(|reading| async move {
            let served = async {
                // A handshake is as slow as its client.
                if let Ok(Ok(stream)) = timeout(limits.head, opening).await {
                    connection(stream, limits, &*answer, reading).await;
                }
            };
            timeout(limits.connection, served).await.ok();
            drop(place);
        });
    }
    drop(listener);
    // Each place comes back within the longest time for a connection.
    places.acquire_many(u32::try_from(limits.connections).unwrap_or(u32::MAX)).await.ok();
}

async fn connection<S, A, F>(stream: S, limits: Limits, answer: &A, reading: Reading)
where
    S: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Request, Option<Reading>) -> F,
    F: Future<Output = Answer>,
{
    // A connection takes one request.
    let reading = Mutex::new(Some(reading));
    let service = service_fn(|request| {
        let reading = reading.lock().unwrap_or_else(PoisonError::into_inner).take();
        let answered = answer(request, reading);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let mut builder = http1::Builder::new();
    let builder = builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .keep_alive(false)
        .max_buf_size(limits.head_bytes);
    // How a client ends its connection is of no interest.
    builder.serve_connection(TokioIo::new(stream), service).await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::oneshot;

    const LIMITS: Limits = Limits {
        connections: 8,
        head_bytes: 8192,
        head: Duration::from_secs(100),
        connection: Duration::from_secs(200),
    };

    async fn path(request: Request, _reading: Option<Reading>) -> Answer {
        plain(StatusCode::OK, request.uri().path().to_owned())
    }

    /// A server that answers every request with its path, where it listens, and what stops it.
    async fn started(limits: Limits) -> (SocketAddr, oneshot::Sender<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async { _ = stopped.await };
        tokio::spawn(serve(listener, limits, stopped, path));
        (address, stop)
    }

    /// All that comes back for these bytes until the connection ends.
    async fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // It may end the connection before it has read all.
        stream.write_all(bytes).await.ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn is_served(address: SocketAddr) -> bool {
        exchange(address, b"GET /here HTTP/1.1\r\nhost: x\r\n\r\n").await.ends_with("\r\n\r\n/here")
    }

    #[tokio::test]
    async fn whatever_is_sent_is_answered_or_ended_and_the_next_request_is_served() {
        let (address, _stop) = started(LIMITS).await;
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(9_000));
        for bytes in [
            &b"\0\0\0\0\r\n\r\n"[..],
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
            b"GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\nxyz",
            long.as_bytes(),
            many.as_bytes(),
        ] {
            let answer = exchange(address, bytes).await;
            assert!(!answer.starts_with("HTTP/1.1 5"), "{answer}");
            assert!(is_served(address).await);
        }
    }

    #[tokio::test]
    async fn connections_that_say_nothing_keep_nobody_out() {
        let (address, _stop) = started(LIMITS).await;
        let mut silent = Vec::new();
        for number in 0..200 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            if number % 2 == 0 {
                stream.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
            }
            silent.push(stream);
        }
        assert!(is_served(address).await);
    }

    #[tokio::test]
    async fn a_connection_ends_when_its_time_is_over_and_takes_one_request() {
        let short = Duration::from_millis(50);
        let (address, _stop) = started(Limits { head: short, connection: short, ..LIMITS }).await;
        assert!(!exchange(address, b"GET / HTTP/1.1\r\n").await.contains("200 OK"));
        let twice = b"GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n";
        let (address, _stop) = started(LIMITS).await;
        let answer = exchange(address, twice).await;
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1, "{answer}");
    }

    #[tokio::test]
    async fn a_stop_ends_the_server() {
        let (address, stop) = started(LIMITS).await;
        assert!(is_served(address).await);
        stop.send(()).unwrap();
        while TcpStream::connect(address).await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    }
}
