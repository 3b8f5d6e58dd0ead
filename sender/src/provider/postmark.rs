//! Postmark, by its HTTP API. It has no idempotency keys: what is promised is what SMTP can
//! promise.

use mailroom_mail::{Error, Secret};
use serde_json::json;

use super::Verdict;
use super::api::{self, Answer, Api, Client, Request};
use super::keyed::KeyedConfig;
use super::refusal;
use crate::mail::Mail;

const NAME: &str = "postmark";

pub(super) struct Postmark {
    key: Secret,
}

/// The provider of a table.
pub(super) fn of(config: &KeyedConfig) -> Result<Client<Postmark>, Error> {
    let settings = config.settings(NAME, "https://api.postmarkapp.com", "/email");
    Client::new(settings, Postmark { key: config.key(NAME)? })
}

impl Api for Postmark {
    fn headers(&self, _: &Request<'_>) -> Vec<(String, String)> {
        vec![("X-Postmark-Server-Token".to_owned(), self.key.expose().to_owned())]
    }

    fn body(&self, mail: &Mail) -> Result<String, String> {
        let mut body = json!({
            "From": mail.from.to_string(),
            "To": mail.to.address().to_string(),
            "Subject": mail.subject.as_str(),
            "TextBody": mail.text,
            "HtmlBody": mail.html,
            "MessageStream": "outbound",
            "TrackOpens": false,
            "TrackLinks": "None",
            "Headers": [{"Name": "Auto-Submitted", "Value": "auto-generated"}],
        });
        if let Some(reply_to) = &mail.reply_to {
            body["ReplyTo"] = json!(reply_to.to_string());
        }
        Ok(body.to_string())
    }

    fn id(&self, answer: &Answer) -> Option<String> {
        answer.body["MessageID"].as_str().map(str::to_owned)
    }

    fn judge(&self, answer: &Answer) -> Option<Verdict> {
        let code = answer.body["ErrorCode"].as_u64();
        let has_id = answer.body["MessageID"].is_string();
        if matches!(answer.status, 200..300) && !has_id && code != Some(0) {
            return Some(api::unproven(answer));
        }
        let code = code?;
        let words = format!("ErrorCode {code}");
        (answer.status == 422).then(|| {
            let text = answer.body["Message"].as_str().unwrap_or_default();
            answer.refused(refusal::table::POSTMARK, &code.to_string(), text, &words)
        })
    }
}
