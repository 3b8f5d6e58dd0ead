//! Who asks for what, and whether he may.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use mailroom_connect::ConnectionSettings;
use mailroom_http::hyper::body::Bytes;
use mailroom_http::hyper::header::{AUTHORIZATION, HeaderMap};
use mailroom_http::hyper::{Method, StatusCode};
use mailroom_http::{
    Answer, BodyFault, Limits, Listen, Reading, Request, media_type, read_body, termination,
};
use mailroom_pace::{LogLimit, withheld};
use mailroom_traces::{Kind, Recorder, Span, Traceparent};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::database::{CALL, Database};
use crate::function::Function;
use crate::listener::{Place, SocketFile};
use crate::members::Members;
use crate::problem::{self, Problem, of_json};
use crate::right::Right;
use crate::tls::{Tls, TlsListener};
use crate::tokens::{Token, Tokens};
use crate::wake::Collectors;
use crate::{Arguments, Error};

/// The largest body, in bytes. The database takes payloads of 8192.
const MAX_BODY: usize = 64 * 1024;

/// For the checks of load balancers.
const HEALTH: &str = "/healthz";

/// The longest time for the head of a request, and for its body.
const HEAD: Duration = Duration::from_secs(5);

const LIMITS: Limits = Limits {
    connections: 512,
    head_bytes: 16 * 1024,
    head: HEAD,
    connection: Duration::from_secs(60),
};

// A handshake, the head, the body and the call end before the connection does, so that whoever
// waits gets an answer.
const _: () = assert!(3 * HEAD.as_millis() + CALL.as_millis() < LIMITS.connection.as_millis());

struct State {
    file: PathBuf,
    tokens: Mutex<Arc<Tokens>>,
    database: Database,
    collectors: Arc<Collectors>,
    refusals: LogLimit,
    traces: Recorder,
}

/// Answers until SIGTERM or SIGINT; then those that have begun are finished.
///
/// # Errors
/// A file or the place cannot be used.
pub(crate) async fn serve(
    arguments: &Arguments,
    tokens: &Path,
    settings: ConnectionSettings,
) -> Result<(), Error> {
    let place = &arguments.listen;
    let tls = match (&arguments.tls_certificate, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::read(certificate, key)?),
        _ => None,
    };
    if tls.is_none() && !place.is_local() && !arguments.behind_tls {
        return Err(Error(format!(
            "--listen {place}: other machines reach this address, and bearer tokens and links \
             would go there in the clear; give --tls-certificate and --tls-key, or --behind-tls \
             where a proxy has TLS"
        )));
    }
    let known = Tokens::read(tokens, None)?;
    let count = known.count();
    let collectors = Arc::new(Collectors::new(arguments.wake.clone()));
    collectors.keep_waking();
    let state = Arc::new(State {
        file: tokens.to_owned(),
        tokens: Mutex::new(Arc::new(known)),
        database: Database::new(settings, arguments.connections),
        collectors,
        refusals: LogLimit::default(),
        traces: Recorder::of_environment(drop),
    });
    let traces = state.traces.clone();
    let failed = |error: std::io::Error| Error(format!("--listen {place}: {error}"));
    tokio::spawn(reload(signal(SignalKind::hangup()).map_err(failed)?, state.clone(), tls.clone()));
    // Before anybody is told that it serves: who then ends it ends it in order.
    let stop = termination().map_err(failed)?;
    match place {
        Place::Socket(path) => {
            if tls.is_some() {
                return Err(Error("TLS is for an address, not for a socket".to_owned()));
            }
            let (listener, _file) = SocketFile::listen(path).map_err(failed)?;
            listening(place, count);
            run(listener, state, stop).await;
        }
        Place::Address(address) => {
            let tcp = TcpListener::bind(address).await.map_err(failed)?;
            listening(&Place::Address(tcp.local_addr().map_err(failed)?), count);
            match tls {
                Some(tls) => run(TlsListener { tcp, tls }, state, stop).await,
                None => run(tcp, state, stop).await,
            }
        }
    }
    traces.finish();
    Ok(())
}

fn listening(address: &Place, bearer_tokens: usize) {
    tracing::info!(
        event = "listening",
        %address,
        bearer_tokens,
        "the functions of the database are served"
    );
}

async fn run(listener: impl Listen, state: Arc<State>, stop: impl Future<Output = ()>) {
    let answer = move |request, reading| answer(Arc::clone(&state), request, reading);
    mailroom_http::serve(listener, LIMITS, stop, answer).await;
}

/// Reads the files again at every signal. One that cannot be used changes nothing.
async fn reload(mut hangup: tokio::signal::unix::Signal, state: Arc<State>, tls: Option<Tls>) {
    while hangup.recv().await.is_some() {
        let before = state.tokens();
        match Tokens::read(&state.file, Some(&before)) {
            Ok(tokens) => {
                let count = tokens.count();
                *state.tokens.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
                tracing::info!(
                    event = "bearer_tokens_reloaded",
                    bearer_tokens = count,
                    "the bearer tokens were read again"
                );
            }
            Err(reason) => tracing::error!(
                event = "bearer_tokens_kept",
                %reason,
                "the bearer tokens from before are used further"
            ),
        }
        match tls.as_ref().map(Tls::reload) {
            None => {}
            Some(Ok(())) => {
                tracing::info!(event = "certificate_reloaded", "the certificate was read again");
            }
            Some(Err(reason)) => tracing::error!(
                event = "certificate_kept",
                %reason,
                "the certificate from before is used further"
            ),
        }
    }
}

impl State {
    fn tokens(&self) -> Arc<Tokens> {
        Arc::clone(&self.tokens.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Who asks: whoever has a bearer token that is known.
    fn token(&self, headers: &HeaderMap) -> Result<Arc<Token>, Problem> {
        let mut sent = headers.get_all(AUTHORIZATION).iter();
        let (Some(sent), None) = (sent.next(), sent.next()) else {
            return Err(Problem::without_token());
        };
        let (scheme, token) = sent
            .to_str()
            .ok()
            .and_then(|text| text.split_once(' '))
            .ok_or_else(Problem::without_token)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Problem::without_token());
        }
        self.tokens().find(token.as_bytes()).cloned().ok_or_else(Problem::without_token)
    }
}

async fn answer(state: Arc<State>, request: Request, reading: Option<Reading>) -> Answer {
    let path = request.uri().path();
    if path == HEALTH {
        return match *request.method() {
            Method::GET | Method::HEAD => {
                of_json(StatusCode::OK, &json!({ "status": "ok" }), "application/json")
            }
            _ => Problem::of_method("GET, HEAD").into_answer(),
        };
    }
    let right = Right::of_path(path).filter(|_| request.uri().query().is_none());
    let Some(right) = right else {
        let detail = "there is no such path; no path takes a query";
        return Problem::new(StatusCode::NOT_FOUND, problem::REQUEST, detail).into_answer();
    };
    if request.method() != Method::POST {
        return Problem::of_method("POST").into_answer();
    }
    let token = match state.token(request.headers()) {
        Ok(token) => token,
        Err(problem) => {
            refused(&state, right, None, &problem);
            return problem.into_answer();
        }
    };
    match take(&state, right, &token, request, reading).await {
        Ok((status, body)) => of_json(status, &body, "application/json"),
        Err(problem) => {
            refused(&state, right, Some(&token.name), &problem);
            problem.into_answer()
        }
    }
}

/// The trace that a request belongs to. More than one, and what is none, count as none.
fn trace(headers: &HeaderMap) -> Option<Traceparent> {
    let mut sent = headers.get_all("traceparent").iter();
    let (Some(sent), None) = (sent.next(), sent.next()) else { return None };
    Traceparent::parse(sent.to_str().ok()?)
}

/// Records a call for the trace of its request.
fn record(
    traces: &Recorder,
    trace: Traceparent,
    function: Function,
    began: SystemTime,
    outcome: &Result<(StatusCode, serde_json::Value), Problem>,
) {
    const VERDICTS: [&str; 7] =
        ["ok", "unknown", "used", "expired", "not_eligible", "too_many_attempts", "wrong_code"];
    let mut span = Span::until_now(function.name(), Kind::Server, began);
    match outcome {
        Ok((_, body)) => {
            let verdict = body["verdict"].as_str();
            span.outcome = VERDICTS.into_iter().find(|known| verdict == Some(known));
        }
        Err(_) => span.failure = Some("the database has not done it, or has not answered"),
    }
    // Nothing else belongs to it.
    let _: Option<_> = traces.begin(&[(0, trace)], span);
}

/// Does what is asked for, or says why not.
async fn take(
    state: &State,
    right: Right,
    token: &Token,
    request: Request,
    reading: Option<Reading>,
) -> Result<(StatusCode, serde_json::Value), Problem> {
    if !token.may(right) {
        let detail = format!("this bearer token has no right to {}", right.name());
        return Err(Problem::new(StatusCode::FORBIDDEN, problem::RIGHT, detail));
    }
    if media_type(request.headers()) != "application/json" {
        let detail = "the body must be of the type application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem::REQUEST, detail));
    }
    let trace = trace(request.headers());
    let body = read(request).await?;
    // It has come: from here on nobody takes its place.
    drop(reading);
    let members = Members::read(&body)?;
    let Right::Call(function) = right else {
        members.end()?;
        spend(token, right)?;
        return wake(&state.collectors).await;
    };
    let call = function.call(members, trace)?;
    drop(body);
    if let Some(action) = &call.action
        && !token.may_name(action)
    {
        let detail = "this bearer token has no right to this action";
        return Err(Problem::new(StatusCode::FORBIDDEN, problem::RIGHT, detail));
    }
    spend(token, right)?;
    let began = SystemTime::now();
    let outcome = state.database.call(call).await;
    if let Some(trace) = trace {
        record(&state.traces, trace, function, began, &outcome);
    }
    let is_done = match &outcome {
        Ok(_) => true,
        // Whether it was is not known.
        Err(problem) => problem.code == problem::UNKNOWN,
    };
    if is_done && function.queues() {
        state.collectors.wake_soon();
    }
    outcome
}

fn spend(token: &Token, right: Right) -> Result<(), Problem> {
    token.spend(right).map_err(|wait| {
        let detail = "the rate of this bearer token is used up";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, problem::RATE, detail).after(wait)
    })
}

/// Wakes the collectors, of which one is enough.
async fn wake(collectors: &Collectors) -> Result<(StatusCode, serde_json::Value), Problem> {
    if collectors.is_empty() {
        let detail = "this server knows no collector to wake; --wake names one";
        return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, problem::SETUP, detail));
    }
    match collectors.wake().await {
        0 => Err(Problem::away(
            "no collector was reached: mails are sent when the poll interval of one is over",
        )),
        woken => Ok((StatusCode::ACCEPTED, json!({ "collectors": woken }))),
    }
}

async fn read(request: Request) -> Result<Bytes, Problem> {
    read_body(request.into_body(), MAX_BODY, HEAD).await.map_err(|fault| match fault {
        BodyFault::TooLarge => {
            let detail = format!("the body is larger than {MAX_BODY} bytes");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, problem::REQUEST, detail)
        }
        BodyFault::TooSlow => {
            let detail = "the body comes too slowly";
            Problem::new(StatusCode::REQUEST_TIMEOUT, problem::REQUEST, detail)
        }
        BodyFault::Incomplete => Problem::bad("the body ended too early"),
    })
}

/// Logs a refusal, of which anybody can have many written.
fn refused(state: &State, right: Right, name: Option<&str>, problem: &Problem) {
    if let Some(others) = state.refusals.admit(Instant::now()) {
        tracing::warn!(
            event = "request_refused",
            function = right.name(),
            bearer_token = name,
            status = problem.status.as_u16(),
            code = problem.code,
            withheld = withheld(others),
            "a request was refused"
        );
    }
}
