//! What is answered instead of an answer: problem details (RFC 9457), with a code.

use std::time::Duration;

use mailroom_http::Answer;
use mailroom_http::http_body_util::Full;
use mailroom_http::hyper::Response;
use mailroom_http::hyper::StatusCode;
use mailroom_http::hyper::body::Bytes;
use mailroom_http::hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use serde_json::json;

/// Why a request is refused. Nothing was done, except where `code` is [`UNKNOWN`].
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// What programs read: one of these, or the SQLSTATE of what the database refuses.
    pub(crate) code: String,
    /// What people read. It repeats nothing that was sent but names of members.
    pub(crate) detail: String,
    /// A header that belongs to the status.
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
}

/// The request cannot be understood.
pub(crate) const REQUEST: &str = "MAILROOM_REQUEST";
/// The bearer token is missing or unknown.
pub(crate) const TOKEN: &str = "MAILROOM_TOKEN";
/// The bearer token has no right to that.
pub(crate) const RIGHT: &str = "MAILROOM_RIGHT";
/// The bearer token's rate is used up.
pub(crate) const RATE: &str = "MAILROOM_RATE";
/// The database, or each collector that is to be woken, is away. Nothing was done.
pub(crate) const AWAY: &str = "MAILROOM_AWAY";
/// The connection was lost before the answer came. Whether it was done is not known.
pub(crate) const UNKNOWN: &str = "MAILROOM_UNKNOWN";
/// The database is not set up as this needs it. Nothing was done.
pub(crate) const SETUP: &str = "MAILROOM_SETUP";

/// When to come again while the database is away.
const AWAY_PAUSE: Duration = Duration::from_secs(5);

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), detail: detail.into(), header: None }
    }

    /// A request that has a fault of its own.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, REQUEST, detail)
    }

    pub(crate) fn away(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, AWAY, detail).after(AWAY_PAUSE)
    }

    pub(crate) fn without_token() -> Self {
        let mut problem = Self::new(
            StatusCode::UNAUTHORIZED,
            TOKEN,
            "this needs a bearer token that is in the file of bearer tokens",
        );
        problem.header = Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        problem
    }

    pub(crate) fn of_method(allowed: &'static str) -> Self {
        let mut problem = Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            REQUEST,
            format!("this path takes {allowed} alone"),
        );
        problem.header = Some((ALLOW, HeaderValue::from_static(allowed)));
        problem
    }

    /// Says when to come again.
    pub(crate) fn after(mut self, pause: Duration) -> Self {
        let seconds = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
        self.header = Some((RETRY_AFTER, HeaderValue::from(seconds.max(1))));
        self
    }

    pub(crate) fn into_answer(self) -> Answer {
        let body = json!({
            "title": self.status.canonical_reason().unwrap_or("Refused"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        let mut answer = of_json(self.status, &body, "application/problem+json");
        answer.headers_mut().extend(self.header);
        answer
    }
}

/// An answer in JSON, which nobody keeps or takes for something else.
pub(crate) fn of_json(
    status: StatusCode,
    body: &serde_json::Value,
    media_type: &'static str,
) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    *answer.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, media_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
