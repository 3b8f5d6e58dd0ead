//! Resend, by its HTTP API. An idempotency key is remembered for 24 hours, and a repeat gets the
//! answer of the first request.

use std::time::Duration;

use mailroom_mail::{Error, Secret};
use serde_json::json;

use super::Verdict;
use super::api::{self, Answer, Api, Client, Request};
use super::keyed::KeyedConfig;
use super::refusal;
use crate::mail::Mail;

const NAME: &str = "resend";

pub(super) struct Resend {
    key: Secret,
}

/// The provider of a table.
pub(super) fn of(config: &KeyedConfig) -> Result<Client<Resend>, Error> {
    let settings = config.settings(NAME, "https://api.resend.com", "/emails");
    Client::new(settings, Resend { key: config.key(NAME)? })
}

impl Api for Resend {
    const KEY_WINDOW: Option<Duration> = Some(Duration::from_secs(24 * 60 * 60));

    fn headers(&self, request: &Request<'_>) -> Vec<(String, String)> {
        let mut headers =
            vec![("Authorization".to_owned(), format!("Bearer {}", self.key.expose()))];
        headers.extend(request.key.map(|key| ("Idempotency-Key".to_owned(), key.to_string())));
        headers
    }

    fn body(&self, mail: &Mail) -> Result<String, String> {
        let mut body = json!({
            "from": mail.from.to_string(),
            "to": [mail.to.address().to_string()],
            "subject": mail.subject.as_str(),
            "text": mail.text,
            "html": mail.html,
            "headers": {"Auto-Submitted": "auto-generated"},
        });
        if let Some(reply_to) = &mail.reply_to {
            body["reply_to"] = json!(reply_to.to_string());
        }
        Ok(body.to_string())
    }

    fn id(&self, answer: &Answer) -> Option<String> {
        answer.body["id"].as_str().map(str::to_owned)
    }

    fn judge(&self, answer: &Answer) -> Option<Verdict> {
        let name = answer.body["name"].as_str().unwrap_or_default();
        let text = answer.body["message"].as_str().unwrap_or_default();
        match (answer.status, name) {
            (200..300, _) if !answer.body["id"].is_string() => Some(api::unproven(answer)),
            (409, "concurrent_idempotent_requests") => {
                Some(Verdict::InDoubt { reason: answer.reason(name) })
            }
            // The one of 409 is documented as a refusal, not as a sign that the earlier request was
            // accepted: somebody has to look.
            (400 | 401 | 403 | 422 | 429 | 451, _)
            | (409, "invalid_idempotent_request")
            | (_, "invalid_from_address" | "invalid_access" | "invalid_region") => {
                Some(answer.refused(refusal::table::RESEND, name, text, name))
            }
            _ => None,
        }
    }
}
