//! The HTTP server: `POST /NAME` is a notification of that provider,
//! `GET /healthz` says that the program listens.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::Error;
use crate::database::Database;
use crate::notice::Refusal;
use crate::provider::{self, Provider};
use crate::unread::{Reading, Unread};

/// The largest notification, in bytes.
const LARGEST: usize = 256 * 1024;

/// Connections at a time. One more takes the place of the oldest whose request has not come yet.
const CONNECTIONS: usize = 64;

/// For the checks of load balancers.
const HEALTH: &str = "healthz";

/// The longest time for the head of a request, and for a connection, which takes one request.
const HEAD: Duration = Duration::from_secs(5);
const CONNECTION: Duration = Duration::from_secs(30);

/// How often refusals are logged at most.
const LOG_PAUSE: Duration = Duration::from_secs(1);

struct State {
    providers: Vec<Box<dyn Provider>>,
    database: Database,
    logged: Mutex<Option<Instant>>,
}

/// Takes notifications until SIGTERM or SIGINT; then those that have begun are finished.
///
/// # Errors
/// The address cannot be listened at.
pub(crate) async fn serve(
    address: SocketAddr,
    providers: Vec<Box<dyn Provider>>,
    database: Database,
) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error(format!("--listen {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let names = providers.iter().map(|provider| provider.name()).collect::<Vec<_>>().join(", ");
    tracing::warn!(event = "listening", %address, providers = names, "notifications are taken");
    let state = Arc::new(State { providers, database, logged: Mutex::new(None) });
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let unread = Unread::default();
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
            _ = terminated.recv() => break,
            _ = interrupted.recv() => break,
        };
        let Ok((stream, _)) = accepted else {
            // No file descriptor is free, for example.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let state = Arc::clone(&state);
        unread.spawn(|reading| async move {
            timeout(CONNECTION, connection(stream, state, reading)).await.ok();
            drop(place);
        });
    }
    drop(listener);
    // Each place comes back within the longest time for a connection.
    places.acquire_many(u32::try_from(CONNECTIONS).unwrap_or(u32::MAX)).await.ok();
    Ok(())
}

async fn connection(stream: TcpStream, state: Arc<State>, reading: Reading) {
    // A connection takes one request.
    let reading = Mutex::new(Some(reading));
    let service = service_fn(|request| {
        let state = Arc::clone(&state);
        let reading = reading.lock().unwrap_or_else(PoisonError::into_inner).take();
        async move { Ok::<_, Infallible>(answer(state, request, reading).await) }
    });
    let mut builder = http1::Builder::new();
    let builder = builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(false)
        .max_buf_size(64 * 1024);
    // How a client ends its connection is of no interest.
    builder.serve_connection(TokioIo::new(stream), service).await.ok();
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
    reading: Option<Reading>,
) -> Response<Full<Bytes>> {
    let (status, sentence) = match take(&state, request, reading).await {
        Ok(()) => return Response::new(Full::from("ok\n")),
        Err(refused) => refused,
    };
    let mut response = Response::new(Full::from(format!("{sentence}\n")));
    *response.status_mut() = status;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}

/// Takes a notification, or says with which status and why it is refused.
async fn take(
    state: &Arc<State>,
    request: Request<Incoming>,
    reading: Option<Reading>,
) -> Result<(), (StatusCode, &'static str)> {
    let name = request.uri().path().strip_prefix('/').unwrap_or_default();
    let name = name.strip_suffix('/').unwrap_or(name);
    if name == HEALTH && matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let index = state.providers.iter().position(|provider| provider.name() == name);
    let index = index.ok_or((StatusCode::NOT_FOUND, "there is no such provider"))?;
    let provider = &state.providers[index];
    if request.method() != Method::POST {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "notifications are sent by POST"));
    }
    let media_type = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !provider.media_types().contains(&media_type.as_str()) {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "this provider sends another media type"));
    }
    let too_large = (StatusCode::PAYLOAD_TOO_LARGE, "it is larger than notifications are");
    if request.body().size_hint().lower() > LARGEST as u64 {
        return Err(too_large);
    }
    let (head, body) = request.into_parts();
    let body = timeout(HEAD, Limited::new(body, LARGEST).collect()).await;
    let body = body
        .map_err(|_| (StatusCode::REQUEST_TIMEOUT, "its body comes too slowly"))?
        .map_err(|error| {
            let is_large = error.is::<LengthLimitError>();
            if is_large { too_large } else { (StatusCode::BAD_REQUEST, "it ended too early") }
        })?;
    // It has come: from here on nobody takes its place.
    drop(reading);
    let shared = Arc::clone(state);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let read = tokio::task::spawn_blocking(move || {
        let now = now.map_or(0, |now| now.as_secs());
        shared.providers[index].read(&provider::Request {
            headers: &head.headers,
            body: &body.to_bytes(),
            now,
        })
    });
    let read = read.await.unwrap_or(Err(Refusal::Unavailable("it could not be read")));
    let (provider, outcome) = (
        provider.name(),
        match read {
            Ok(notices) => state.database.suppress(provider.name(), &notices).await,
            Err(refusal) => Err(refusal),
        },
    );
    let (status, reason) = match outcome {
        Ok(count) => {
            tracing::info!(event = "notification", provider, count, "a notification was taken");
            return Ok(());
        }
        Err(Refusal::Unproven(reason)) => (StatusCode::UNAUTHORIZED, reason),
        Err(Refusal::Unreadable(reason)) => (StatusCode::BAD_REQUEST, reason),
        Err(Refusal::Unavailable(reason)) => (StatusCode::SERVICE_UNAVAILABLE, reason),
    };
    // Anybody can have them written.
    let mut logged = state.logged.lock().unwrap_or_else(PoisonError::into_inner);
    if logged.is_none_or(|logged| logged.elapsed() >= LOG_PAUSE) {
        *logged = Some(Instant::now());
        tracing::warn!(
            event = "notification_refused",
            provider,
            status = status.as_u16(),
            reason,
            "a notification was refused"
        );
    }
    Err((status, reason))
}
