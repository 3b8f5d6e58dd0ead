//! What a request gets.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | the queue; without a cookie, the page that asks for the one-time password |
//! | `POST /sign-in` | the cookie, for the password |
//! | `GET /dead`, `/suppressed`, `/runs` | lists |
//! | `GET /tokens/ID` | the story of a mail |
//! | `POST /find` | the story of a mail, or of all mails for an address |
//!
//! An address is sent in the body of a request, so that no history has it.

use std::time::Duration;

use mailroom_http::hyper::header::{
    ALLOW, CONTENT_TYPE, HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE,
};
use mailroom_http::hyper::{Method, StatusCode};
use mailroom_http::{
    Answer, BASE_CSS, BodyFault, Hosts, Reading, Request, media_type, plain, protect, read_body,
};

use super::address::{About, Page};
use super::page::Pages;
use super::sign_in::{Attempt, SignIn};

/// Scripts, styles and forms of this server alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Bounds of a form: an address has at most 320 bytes.
const MAX_FORM: usize = 4 * 1024;
const FORM_TIME: Duration = Duration::from_secs(10);

/// What answering needs.
pub(super) struct Site {
    pub(super) hosts: Hosts,
    pub(super) sign_in: SignIn,
    pub(super) pages: Pages,
}

impl Site {
    /// `reading` is dropped when the request has come whole.
    pub(super) async fn answer(&self, request: Request, reading: Option<Reading>) -> Answer {
        let mut answer = match self.hosts.refusal(&request) {
            Some(refusal) => plain(StatusCode::FORBIDDEN, format!("{refusal}\n")),
            None => self.of_own(request, reading).await,
        };
        protect(answer.headers_mut(), POLICY);
        // Under `no-referrer` a browser says `Origin: null` for forms of these pages, too.
        answer.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        answer
    }

    /// Answers a request of this machine.
    async fn of_own(&self, request: Request, reading: Option<Reading>) -> Answer {
        let is_signed_in = self.sign_in.is_signed_in(request.headers());
        let path = request.uri().path();
        match (request.method(), path) {
            (&Method::GET | &Method::HEAD, "/base.css") => asset(CSS, BASE_CSS),
            (&Method::GET | &Method::HEAD, "/ui.css") => asset(CSS, include_str!("page/ui.css")),
            (&Method::GET | &Method::HEAD, "/sign_in.js") => {
                asset(SCRIPT, include_str!("page/sign_in.js"))
            }
            (&Method::GET | &Method::HEAD, "/live.js") => {
                asset(SCRIPT, include_str!("page/live.js"))
            }
            (&Method::GET | &Method::HEAD, path) => match Page::at(path) {
                None => self.pages.fault(StatusCode::NOT_FOUND, "There is no such page."),
                Some(_) if !is_signed_in => self.pages.sign_in(StatusCode::UNAUTHORIZED, ""),
                Some(page) => {
                    drop(reading);
                    self.pages.show(page).await
                }
            },
            (&Method::POST, "/sign-in") => match field(request, "password").await {
                Err(fault) => fault,
                Ok(password) => self.attempt(&password),
            },
            (&Method::POST, "/find") if is_signed_in => match field(request, "about").await {
                Err(fault) => fault,
                Ok(about) => {
                    drop(reading);
                    match About::parse(&about) {
                        None => self.pages.fault(
                            StatusCode::BAD_REQUEST,
                            "Give the id of a token, which is a whole number, or an address.",
                        ),
                        // Its page has an address of its own, which can be kept.
                        Some(About::Token(id)) => see_other(&format!("/tokens/{id}")),
                        Some(about) => self.pages.show(Page::Story(about)).await,
                    }
                }
            },
            (&Method::POST, "/find") => self.pages.sign_in(StatusCode::UNAUTHORIZED, ""),
            _ => {
                let sentence = "Pages are read here, and nothing is changed.";
                let mut answer = self.pages.fault(StatusCode::METHOD_NOT_ALLOWED, sentence);
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                answer
            }
        }
    }

    fn attempt(&self, password: &str) -> Answer {
        match self.sign_in.sign_in(password) {
            Ok(Attempt::Granted(cookie)) => {
                let mut answer = see_other("/");
                answer.headers_mut().insert(SET_COOKIE, cookie);
                answer
            }
            Ok(Attempt::Wrong) => self.pages.sign_in(
                StatusCode::FORBIDDEN,
                "That is not the password, which the link has behind the sign #.",
            ),
            Ok(Attempt::Used) => self.pages.sign_in(
                StatusCode::FORBIDDEN,
                "A browser has used the password. If that was not yours, somebody else sees these \
                 pages: end the program. Start it again for another browser.",
            ),
            Err(error) => self.pages.fault(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}.")),
        }
    }
}

/// A field of a form; empty if it has none of this name.
async fn field(request: Request, name: &str) -> Result<String, Answer> {
    if media_type(request.headers()) != "application/x-www-form-urlencoded" {
        let sentence = "only the forms of these pages are taken\n";
        return Err(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, sentence));
    }
    let body = read_body(request.into_body(), MAX_FORM, FORM_TIME).await.map_err(|fault| {
        let (status, sentence) = match fault {
            BodyFault::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the form is too long\n"),
            BodyFault::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the form came too slowly\n"),
            BodyFault::Incomplete => (StatusCode::BAD_REQUEST, "the form did not come whole\n"),
        };
        plain(status, sentence)
    })?;
    let mut fields = form_urlencoded::parse(&body);
    let found = fields.find_map(|(key, value)| (key == name).then(|| value.into_owned()));
    Ok(found.unwrap_or_default())
}

fn see_other(to: &str) -> Answer {
    let mut answer = plain(StatusCode::SEE_OTHER, "");
    let to = HeaderValue::from_str(to).expect("paths of these pages are ASCII");
    answer.headers_mut().insert(LOCATION, to);
    answer
}

fn asset(kind: &'static str, body: &'static str) -> Answer {
    let mut answer = plain(StatusCode::OK, body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
