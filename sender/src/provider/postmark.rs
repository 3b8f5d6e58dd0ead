//! Postmark, by its HTTP API. It has no idempotency keys: what is promised is what SMTP can promise.

use serde_json::json;

use super::api::{Answer, Api, Client, Request};
use super::keyed::KeyedConfig;
use super::{About, Verdict};
use crate::error::Error;
use crate::mail::Mail;
use crate::secret::Secret;

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

    fn judge(&self, answer: &Answer) -> Option<Verdict> {
        let code = answer.body["ErrorCode"].as_u64()?;
        let reason = answer.reason(&format!("ErrorCode {code}"));
        match (answer.status, code) {
            // An address that is none, and one that has bounced, complained or unsubscribed.
            (422, 300 | 406) => Some(Verdict::dead(reason, About::Recipient { is_unknown: false })),
            // The sender's signature, the account, its credits, its approval: the same for every mail.
            (422, 400 | 401 | 405 | 412 | 413) => {
                Some(Verdict::Unavailable { after: answer.retry_after(), reason })
            }
            (422, _) => Some(Verdict::Retry { after: answer.retry_after(), reason }),
            _ => None,
        }
    }
}
