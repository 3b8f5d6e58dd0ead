//! Metrics as text, in the format that the client asks for, and a thread that serves them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::time::sleep;

use crate::{Answer, Limits, Request, plain, serve};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a server of metrics bears: few clients, who ask every few seconds.
pub const METRICS_LIMITS: Limits = Limits {
    connections: 16,
    head_bytes: 8 * 1024,
    head: Duration::from_secs(5),
    connection: Duration::from_secs(10),
};

/// How often an address that another program has is tried.
const LISTEN_PAUSE: Duration = Duration::from_secs(1);

/// All values of a registry: as OpenMetrics 1.0 for whoever accepts it, as Prometheus' text format
/// 0.0.4 for others.
pub fn exposition(registry: &Registry, request: &Request) -> Answer {
    let accepted = request.headers().get_all(ACCEPT).iter();
    let is_open = accepted
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("application/openmetrics-text"));
    let mut written = String::new();
    let outcome = if is_open {
        text::encode(&mut written, registry)
    } else {
        prometheus_text::encode(&mut written, registry)
    };
    if outcome.is_err() {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "metrics cannot be written\n");
    }
    let mut answer = plain(StatusCode::OK, written);
    let format = if is_open { OPEN_METRICS } else { prometheus_text::CONTENT_TYPE };
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format));
    answer
}

/// The answer to a request that neither asks for something nor for its head.
pub fn only_get() -> Answer {
    not_allowed("GET, HEAD", "only GET is answered\n")
}

/// The answer to a request by another method than those that a path takes.
pub fn not_allowed(taken: &'static str, sentence: &'static str) -> Answer {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, sentence);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(taken));
    answer
}

/// Serves `/metrics` until the process ends, on a thread of its own, which keeps nothing else
/// waiting. `refresh` sets the values that are read when somebody asks. `say` hears once where
/// metrics are served, and once why they are not yet: the address is tried again every second.
///
/// # Errors
/// There is no thread to be had.
pub fn serve_metrics(
    address: SocketAddr,
    registry: Registry,
    refresh: impl Fn() + Send + Sync + 'static,
    say: impl Fn(io::Result<SocketAddr>) + Send + 'static,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shared = Arc::new((registry, refresh));
    let work = async move {
        let mut is_said = false;
        let listener = listen_for_metrics(address, move |outcome| {
            if outcome.is_ok() || !is_said {
                is_said = true;
                say(outcome);
            }
        });
        serve(
            listener.await,
            METRICS_LIMITS,
            std::future::pending(),
            move |request: Request, reading| {
                // A request without a body has come whole.
                drop(reading);
                let (registry, refresh) = &*shared;
                let answer = match (request.method(), request.uri().path()) {
                    (&Method::GET | &Method::HEAD, "/metrics") => {
                        refresh();
                        exposition(registry, &request)
                    }
                    (&Method::GET | &Method::HEAD, _) => {
                        plain(StatusCode::NOT_FOUND, "there is /metrics\n")
                    }
                    _ => only_get(),
                };
                async move { answer }
            },
        )
        .await;
    };
    let thread = thread::Builder::new().name("metrics".to_owned());
    thread.spawn(move || runtime.block_on(work)).map(drop)
}

/// Listens, as soon as another program leaves the address: that is no reason to end. `say` hears of
/// every attempt, at last of the address that is listened at.
pub async fn listen_for_metrics(
    address: SocketAddr,
    mut say: impl FnMut(io::Result<SocketAddr>),
) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                say(Ok(listener.local_addr().unwrap_or(address)));
                return listener;
            }
            Err(error) => say(Err(error)),
        }
        sleep(LISTEN_PAUSE).await;
    }
}
