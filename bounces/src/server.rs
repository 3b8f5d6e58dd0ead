//! The HTTP server: `POST /NAME` is a notification of that provider,
//! `GET /healthz` says that the program listens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http_body_util::Full;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Response, StatusCode};
use mailroom_http::{
    Answer, BodyFault, Limits, Reading, Request, media_type, read_body, termination,
};
use mailroom_pace::{LogLimit, withheld};
use tokio::net::TcpListener;

use crate::Error;
use crate::database::Database;
use crate::metrics::{Metrics, Verdict};
use crate::notice::Refusal;
use crate::provider::{self, Provider};

/// The largest notification, in bytes.
const MAX_BODY: usize = 256 * 1024;

/// For the checks of load balancers.
const HEALTH: &str = "healthz";

/// The longest time for the head of a request, and for its body.
const HEAD: Duration = Duration::from_secs(5);

const LIMITS: Limits = Limits {
    connections: 64,
    head_bytes: 64 * 1024,
    head: HEAD,
    connection: Duration::from_secs(30),
};

struct State {
    providers: Vec<Box<dyn Provider>>,
    database: Database,
    metrics: Metrics,
    refusals: LogLimit,
}

/// Takes notifications until SIGTERM or SIGINT; then those that have begun are finished.
///
/// # Errors
/// The address cannot be listened at.
pub(crate) async fn serve(
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    providers: Vec<Box<dyn Provider>>,
    database: Database,
) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error(format!("--listen {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let stop = termination().map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let names = providers.iter().map(|provider| provider.name()).collect::<Vec<_>>().join(", ");
    tracing::warn!(event = "listening", %address, providers = names, "notifications are taken");
    let metrics = Metrics::of(providers.iter().map(|provider| provider.name()));
    if let Some(address) = metrics_address {
        let say = move |outcome| say_of_metrics(address, outcome);
        mailroom_http::serve_metrics(address, metrics.registry(), || {}, say)
            .map_err(|error| Error(format!("--metrics-address {address}: {error}")))?;
    }
    let state = Arc::new(State { providers, database, metrics, refusals: LogLimit::default() });
    let answer = move |request, reading| answer(Arc::clone(&state), request, reading);
    mailroom_http::serve(listener, LIMITS, stop, answer).await;
    Ok(())
}

fn say_of_metrics(address: SocketAddr, outcome: std::io::Result<SocketAddr>) {
    match outcome {
        Ok(address) => {
            tracing::warn!(event = "metrics_served", %address, "metrics are served");
        }
        Err(error) => tracing::error!(
            event = "metrics_not_served",
            %address,
            reason = %error,
            "metrics are not served yet: the address is tried again"
        ),
    }
}

async fn answer(state: Arc<State>, request: Request, reading: Option<Reading>) -> Answer {
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
    request: Request,
    reading: Option<Reading>,
) -> Result<(), (StatusCode, &'static str)> {
    let name = request.uri().path().strip_prefix('/').unwrap_or_default();
    let name = name.strip_suffix('/').unwrap_or(name);
    if name == HEALTH && matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let index = state.providers.iter().position(|provider| provider.name() == name);
    let index = index.ok_or((StatusCode::NOT_FOUND, "there is no such provider"))?;
    let outcome = take_of(state, index, request, reading).await;
    if let Err((status, _)) = outcome {
        let verdict = match status {
            StatusCode::UNAUTHORIZED => Verdict::Unproven,
            StatusCode::SERVICE_UNAVAILABLE => Verdict::Unavailable,
            _ => Verdict::Unreadable,
        };
        state.metrics.refused(state.providers[index].name(), verdict);
    }
    outcome
}

/// Takes a notification of this provider, or says with which status and why it is refused.
async fn take_of(
    state: &Arc<State>,
    index: usize,
    request: Request,
    reading: Option<Reading>,
) -> Result<(), (StatusCode, &'static str)> {
    let provider = &state.providers[index];
    if request.method() != Method::POST {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "notifications are sent by POST"));
    }
    if !provider.media_types().contains(&media_type(request.headers()).as_str()) {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "this provider sends another media type"));
    }
    let (head, body) = request.into_parts();
    let body = read_body(body, MAX_BODY, HEAD).await.map_err(|fault| match fault {
        BodyFault::TooLarge => {
            (StatusCode::PAYLOAD_TOO_LARGE, "it is larger than notifications are")
        }
        BodyFault::TooSlow => (StatusCode::REQUEST_TIMEOUT, "its body comes too slowly"),
        BodyFault::Incomplete => (StatusCode::BAD_REQUEST, "it ended too early"),
    })?;
    // It has come: from here on nobody takes its place.
    drop(reading);
    let shared = Arc::clone(state);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let read = tokio::task::spawn_blocking(move || {
        let now = now.map_or(0, |now| now.as_secs());
        shared.providers[index].read(&provider::Request {
            headers: &head.headers,
            body: &body,
            now,
        })
    });
    let read = read.await.unwrap_or(Err(Refusal::Unavailable("it could not be read")));
    let (provider, outcome) = (
        provider.name(),
        match read {
            Ok(notices) => {
                let written = state.database.suppress(provider.name(), &notices).await;
                written.map(|count| (count, notices))
            }
            Err(refusal) => Err(refusal),
        },
    );
    let (status, reason) = match outcome {
        Ok((count, notices)) => {
            state.metrics.took(provider, &notices, count);
            tracing::info!(event = "notification", provider, count, "a notification was taken");
            return Ok(());
        }
        Err(Refusal::Unproven(reason)) => (StatusCode::UNAUTHORIZED, reason),
        Err(Refusal::Unreadable(reason)) => (StatusCode::BAD_REQUEST, reason),
        Err(Refusal::Unavailable(reason)) => (StatusCode::SERVICE_UNAVAILABLE, reason),
    };
    // Anybody can have them written.
    if let Some(others) = state.refusals.admit(Instant::now()) {
        tracing::warn!(
            event = "notification_refused",
            provider,
            status = status.as_u16(),
            reason,
            withheld = withheld(others),
            "a notification was refused"
        );
    }
    Err((status, reason))
}
