//! Postmark: webhooks that authenticate by HTTP Basic, with what stands in their URL.
//! They are not signed.
//!
//! <https://postmarkapp.com/developer/webhooks/bounce-webhook>,
//! <https://postmarkapp.com/developer/webhooks/spam-complaint-webhook>

use base64ct::{Base64, Encoding as _};
use mailroom_mail::diagnosis::{self, Said, Step};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{Provider, Request, parse};
use crate::Error;
use crate::notice::{Notice, Reason, Refusal};

const SHORTEST_PASSWORD: usize = 16;

/// Postmark.
pub(crate) struct Postmark {
    /// The SHA-256 of `username:password`, so that a comparison does not tell the length.
    credentials: [u8; 32],
}

impl Postmark {
    /// # Errors
    /// A username or a password that HTTP Basic cannot carry, or that can be guessed.
    pub(crate) fn new(username: &str, password: &str) -> Result<Self, Error> {
        if username.is_empty() || username.contains(':') || username.chars().any(char::is_control) {
            return Err(Error("[postmark] username must be a word without colons".to_owned()));
        }
        if password.len() < SHORTEST_PASSWORD {
            let fault = format!(
                "[postmark] password_file must hold at least {SHORTEST_PASSWORD} bytes, \
                 made at random"
            );
            return Err(Error(fault));
        }
        Ok(Self { credentials: Sha256::digest(format!("{username}:{password}")).into() })
    }

    fn prove(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let header = request.header("authorization").and_then(|value| value.split_once(' '));
        let given = header.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
        let given = given.and_then(|(_, text)| Base64::decode_vec(text).ok()).unwrap_or_default();
        let given: [u8; 32] = Sha256::digest(given).into();
        let is_right = given.ct_eq(&self.credentials).into();
        if is_right {
            Ok(())
        } else {
            Err(Refusal::Unproven("its username and password are not right"))
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    record_type: String,
    r#type: Option<String>,
    email: Option<String>,
    /// The sender of the mail.
    from: Option<String>,
    description: Option<String>,
    details: Option<String>,
}

impl Provider for Postmark {
    fn name(&self) -> &'static str {
        "postmark"
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Notice>, Refusal> {
        self.prove(request)?;
        notices(request.body)
    }
}

/// What a notification says, whoever sent it.
pub(crate) fn notices(body: &[u8]) -> Result<Vec<Notice>, Refusal> {
    let Event { record_type, r#type: kind, email, from, description, details } = parse(body)?;
    let [kind, email, from] = [kind, email, from].map(Option::unwrap_or_default);
    let reason = match (record_type.as_str(), kind.as_str()) {
        // Postmark calls refusals of all kinds hard: the next server's answer may speak against it.
        ("Bounce", "HardBounce")
            if diagnosis::speaks_against(&Said {
                status: "",
                answer: details.as_deref().unwrap_or_default(),
                recipient: &email,
                sender: &from,
                step: Step::Recipient,
            }) =>
        {
            return Ok(Vec::new());
        }
        ("Bounce", "HardBounce" | "BadEmailAddress") => Reason::Bounce,
        ("SpamComplaint", _) | ("Bounce", "SpamComplaint") => Reason::Complaint,
        // All other kinds are for now, or about the mail: blocked, virus, automatic answers.
        // Postmark deactivates some addresses of soft bounces (`Inactive`) for as long as it sees
        // fit, a full mailbox among them: that is no reason to give an address up.
        _ => return Ok(Vec::new()),
    };
    let said = [Some(kind), description, details].map(Option::unwrap_or_default);
    Notice::all([email.as_str()], reason, &said.each_ref().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::HeaderMap;

    const PASSWORD: &str = "a password of 24 bytes..";

    fn read(authorization: Option<&str>, body: &str) -> Result<Vec<Notice>, Refusal> {
        let mut headers = HeaderMap::new();
        if let Some(value) = authorization {
            headers.insert("authorization", value.parse().unwrap());
        }
        Postmark::new("postmark", PASSWORD).unwrap().read(&Request {
            headers: &headers,
            body: body.as_bytes(),
            now: 0,
        })
    }

    fn basic(credentials: &str) -> String {
        format!("Basic {}", Base64::encode_string(credentials.as_bytes()))
    }

    fn right() -> String {
        basic(&format!("postmark:{PASSWORD}"))
    }

    #[test]
    fn only_the_right_username_and_password_are_let_in() {
        let body = r#"{"RecordType":"Open"}"#;
        assert!(read(Some(&right()), body).is_ok());
        assert!(read(Some(&right().replace("Basic", "basic")), body).is_ok());
        let bearer = right().replace("Basic", "Bearer");
        let wrong = [
            "postmark:",
            ":",
            "",
            PASSWORD,
            "postmark:a password of 24 bytes.",
            "postmark:a password of 24 bytes...",
        ];
        for authorization in
            wrong.map(basic).iter().chain([&bearer, &"Basic".to_owned(), &"Basic !".to_owned()])
        {
            assert!(
                matches!(read(Some(authorization), body), Err(Refusal::Unproven(_))),
                "{authorization}"
            );
        }
        assert!(matches!(read(None, body), Err(Refusal::Unproven(_))));
    }

    #[test]
    fn hard_bounces_and_complaints_are_for_good_and_all_else_is_not() {
        let description = "The server was unable to deliver your message (ex: unknown user, \
                           mailbox not found).";
        let event = |record: &str, kind: &str| {
            // As documented, with further members.
            format!(
                r#"{{"RecordType":"{record}","ID":42,"Type":"{kind}","TypeCode":1,
                "Name":"Hard bounce","Tag":"Test","Email":"john@example.com",
                "Description":"{description}","Inactive":true,
                "Details":"Test bounce details","BouncedAt":"2019-11-05T16:33:54.9070259Z",
                "Metadata":{{"a":"b"}},"Subject":null,"From":null}}"#
            )
        };
        let suppressed =
            |record: &str, kind: &str| read(Some(&right()), &event(record, kind)).ok().unwrap();
        for (record, kind, reason) in [
            ("Bounce", "HardBounce", Reason::Bounce),
            ("Bounce", "BadEmailAddress", Reason::Bounce),
            ("SpamComplaint", "SpamComplaint", Reason::Complaint),
            ("Bounce", "SpamComplaint", Reason::Complaint),
        ] {
            let notices = suppressed(record, kind);
            assert!(
                notices.len() == 1
                    && notices[0].reason == reason
                    && notices[0].addresses == ["john@example.com"]
            );
            assert!(notices[0].detail.starts_with(&format!("{kind}: The server was")));
        }
        for (record, kind) in [
            ("Bounce", "SoftBounce"),
            ("Bounce", "Transient"),
            ("Bounce", "DnsError"),
            ("Bounce", "Blocked"),
            ("Bounce", "SpamNotification"),
            ("Bounce", "AutoResponder"),
            ("Bounce", "hardbounce"),
            ("Bounce", ""),
            ("Delivery", "HardBounce"),
            ("SubscriptionChange", ""),
        ] {
            assert!(suppressed(record, kind).is_empty(), "{record} {kind}");
        }
    }

    #[test]
    fn a_hard_bounce_counts_unless_the_answer_in_its_details_is_about_something_else() {
        let suppressed = |kind: &str, details: &str| {
            let body = serde_json::json!({
                "RecordType": "Bounce",
                "Type": kind,
                "Email": "ada@x.test",
                "From": "us@example.org",
                "Description": "The server was unable to deliver your message (ex: unknown user, \
                                mailbox not found).",
                "Details": details,
            });
            !notices(body.to_string().as_bytes()).ok().unwrap().is_empty()
        };
        for details in [
            "",
            "Test bounce details",
            "smtp;550 5.1.1 The email account that you tried to reach does not exist",
            "smtp;550 5.4.1 All recipient addresses rejected : Access denied",
            "smtp;550 Requested action not taken: mailbox unavailable",
            "action: failed",
        ] {
            assert!(suppressed("HardBounce", details), "{details}");
        }
        for details in [
            "smtp;552 5.2.2 mailbox full",
            "smtp;550 5.7.1 Service unavailable, Client host [192.0.2.1] blocked using Spamhaus",
            "smtp;554 5.7.1 <ada@x.test>: Relay access denied",
            "smtp;450 4.1.1 user unknown",
            "smtp;550 5.1.1 <us@example.org>: user unknown",
            "smtp;550 domain example.org does not exist",
            "smtp;550 Host unknown (in reply to MAIL FROM command)",
            "smtp;550 Server busy",
            "smtp;550 5.4.4 Unable to route",
            "smtp;550 SMTP service is not enabled for this account",
            "smtp;550 The user us has reached its daily email sending cap",
        ] {
            assert!(!suppressed("HardBounce", details), "{details}");
        }
        assert!(suppressed("BadEmailAddress", "smtp;552 5.2.2 mailbox full"));
    }
}
