//! What a request gets.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | the page |
//! | `GET /mails?to=…&action=…&after=…&limit=20&wait=10s` | mails as JSON, the newest first |
//! | `GET /mails/ID` | one mail as JSON |
//! | `GET /mails/ID/html?dark`, `?light` | its HTML body, without scripts and what lies elsewhere |
//! | `GET /mails/ID/source` | the bytes that a mail server would get |
//! | `POST /mails/ID/again` | the mail, written again from the templates as they are now |
//! | `DELETE /mails` | nothing; the inbox is empty |
//! | `GET /counts` | how many mails came, and how many of them came again |

use mailroom_http::hyper::body::Bytes;
use mailroom_http::hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use mailroom_http::hyper::{Method, StatusCode};
use mailroom_http::{Answer, BASE_CSS, Hosts, Request, plain, protect};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::mails::{Inbox, Mail};
use crate::scheme::Scheme;
use crate::search::Search;

/// Of everything but mails: scripts and styles of this server alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      frame-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Of a mail: no scripts, no forms, nothing that is loaded from anywhere. Its links open new tabs.
const OF_MAILS: &str = "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; \
                        style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                        form-action 'none'; frame-ancestors 'self'";

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

pub(crate) async fn answer(hosts: &Hosts, inbox: &Inbox, request: &Request) -> Answer {
    if let Some(refusal) = hosts.refusal(request) {
        return fault(StatusCode::FORBIDDEN, refusal);
    }
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or_default();
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    match (path, request.method()) {
        ("/", _) if is_get => made(HTML, include_str!("page/index.html")),
        ("/base.css", _) if is_get => made("text/css; charset=utf-8", BASE_CSS),
        ("/inbox.css", _) if is_get => {
            made("text/css; charset=utf-8", include_str!("page/inbox.css"))
        }
        ("/inbox.js", _) if is_get => {
            made("text/javascript; charset=utf-8", include_str!("page/inbox.js"))
        }
        ("/mails", _) if is_get => match Search::parse(query) {
            Ok(search) => json(&find(inbox, &search).await),
            Err(reason) => fault(StatusCode::BAD_REQUEST, reason),
        },
        ("/counts", _) if is_get => json(&inbox.counts()),
        ("/mails", &Method::DELETE) => {
            inbox.clear();
            made(TEXT, "")
        }
        _ => of_mail(inbox, path, Scheme::named(query), request.method()),
    }
}

/// Answers for one mail, `/mails/ID…`.
fn of_mail(inbox: &Inbox, path: &str, scheme: Option<Scheme>, method: &Method) -> Answer {
    let rest = path.strip_prefix("/mails/").unwrap_or_default();
    let (id, part) = rest.split_once('/').unwrap_or((rest, ""));
    // No mail has the id 0.
    let id = id.parse().unwrap_or_default();
    let mail = match (part, method) {
        ("again", &Method::POST) => inbox.write_again(id),
        ("" | "html" | "source", &Method::GET | &Method::HEAD) => inbox.mail(id),
        _ => None,
    };
    let Some(mail) = mail else {
        return fault(StatusCode::NOT_FOUND, "there is no such mail, or nothing to be done here");
    };
    match part {
        "html" => {
            let html = mail.contents.html;
            let html = scheme.map(|scheme| scheme.impose(&html)).unwrap_or(html);
            let mut answer = made(HTML, html);
            let policy = HeaderValue::from_static(OF_MAILS);
            answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
            answer
        }
        "source" => made(TEXT, mail.contents.source),
        _ => json(&mail),
    }
}

/// The mails of a search; waits for the first one as long as the search says.
async fn find(inbox: &Inbox, search: &Search) -> Vec<Mail> {
    let end = Instant::now() + search.wait;
    // Before the first look, so that no mail comes between the look and the wait.
    let mut newest = inbox.follow();
    loop {
        let found = inbox.those(search.limit, |mail| search.wants(mail));
        if !found.is_empty() || !matches!(timeout_at(end, newest.changed()).await, Ok(Ok(()))) {
            return found;
        }
    }
}

fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_string(value) {
        Ok(text) => made(JSON, text),
        Err(_) => fault(StatusCode::INTERNAL_SERVER_ERROR, "this cannot be written as JSON"),
    }
}

fn fault(status: StatusCode, sentence: &str) -> Answer {
    let mut answer = plain(status, format!("{sentence}\n"));
    protect(answer.headers_mut(), POLICY);
    answer
}

fn made(kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = plain(StatusCode::OK, body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    protect(answer.headers_mut(), POLICY);
    answer
}
