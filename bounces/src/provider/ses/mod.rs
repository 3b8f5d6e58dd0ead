//! Amazon SES: notifications by Amazon SNS.
//!
//! <https://docs.aws.amazon.com/ses/latest/dg/notification-contents.html>,
//! <https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html>

mod date;
mod https;
mod sns;

use mailroom_mail::diagnosis::{self, Said, Step};
use serde::Deserialize;

use super::{Object, Provider, Request, parse};
use crate::Error;
use crate::notice::{Notice, Reason, Refusal};
use https::{Fetch, Https};
use sns::{Kind, Message, Signatures, Topic};

/// Amazon SES.
pub(crate) struct Ses {
    topics: Vec<Topic>,
    signatures: Signatures,
}

impl Ses {
    /// # Errors
    /// No topic, or what is no ARN of one; no certificates of authorities on this machine.
    pub(crate) fn new(topics: &[String]) -> Result<Self, Error> {
        Self::fetching_by(topics, Box::new(Https::new()?))
    }

    fn fetching_by(topics: &[String], fetch: Box<dyn Fetch>) -> Result<Self, Error> {
        let known: Option<Vec<_>> = topics.iter().map(|topic| Topic::parse(topic)).collect();
        let topics = known.filter(|topics| !topics.is_empty()).ok_or_else(|| {
            Error(
                "[ses] topics must list topics such as \
                 \"arn:aws:sns:eu-west-1:123456789012:bounces\""
                    .to_owned(),
            )
        })?;
        Ok(Self { topics, signatures: Signatures::new(fetch) })
    }
}

#[derive(Deserialize)]
struct Event {
    /// The first name is of notifications of an identity, the second of a configuration set.
    #[serde(rename = "notificationType", alias = "eventType")]
    kind: Option<String>,
    mail: Option<Object<Mail>>,
    bounce: Option<Object<Bounce>>,
    complaint: Option<Object<Complaint>>,
}

#[derive(Deserialize)]
struct Mail {
    /// The sender.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Bounce {
    #[serde(rename = "bounceType")]
    kind: String,
    #[serde(rename = "bounceSubType")]
    sub_kind: Option<String>,
    #[serde(rename = "bouncedRecipients")]
    recipients: Vec<Object<Recipient>>,
}

#[derive(Deserialize)]
struct Complaint {
    #[serde(rename = "complainedRecipients")]
    recipients: Vec<Object<Recipient>>,
    #[serde(rename = "complaintFeedbackType")]
    feedback: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recipient {
    email_address: String,
    status: Option<String>,
    diagnostic_code: Option<String>,
}

impl Bounce {
    /// Whether a recipient is gone. SES calls a bounce `Permanent` by the first digit, and unknown
    /// users also `Transient` or `Undetermined`; so what the next server said counts, except where
    /// SES itself sends nothing to the address.
    fn is_gone(&self, recipient: &Recipient, sender: &str) -> bool {
        let said = Said {
            status: recipient.status.as_deref().unwrap_or_default(),
            answer: recipient.diagnostic_code.as_deref().unwrap_or_default(),
            recipient: &recipient.email_address,
            sender,
            step: Step::Recipient,
        };
        let sub_kind = self.sub_kind.as_deref().unwrap_or_default();
        match self.kind.as_str() {
            "Permanent"
                if matches!(sub_kind, "Suppressed" | "OnAccountSuppressionList" | "NoEmail") =>
            {
                true
            }
            "Permanent" => !diagnosis::speaks_against(&said),
            // Other subtypes of `Transient` name their cause: a full mailbox, a mail that is too
            // large, refused content.
            "Transient" if sub_kind == "General" => diagnosis::is_gone(&said),
            "Undetermined" => diagnosis::is_gone(&said),
            _ => false,
        }
    }
}

impl Event {
    fn notices(&self) -> Result<Vec<Notice>, Refusal> {
        const INCOMPLETE: Refusal = Refusal::Unreadable("it lacks what its type has");
        match self.kind.as_deref() {
            Some("Bounce") => {
                let Object(bounce) = self.bounce.as_ref().ok_or(INCOMPLETE)?;
                if bounce.recipients.is_empty() && bounce.kind == "Permanent" {
                    return Err(INCOMPLETE);
                }
                let detail = |Object(recipient): &Object<Recipient>| {
                    let said = [&bounce.sub_kind, &recipient.status, &recipient.diagnostic_code];
                    Notice::all(
                        [&*recipient.email_address],
                        Reason::Bounce,
                        &said.map(|text| text.as_deref().unwrap_or_default()),
                    )
                };
                let mail = self.mail.as_ref().and_then(|Object(mail)| mail.source.as_deref());
                let sender = mail.unwrap_or_default();
                let is_gone = |recipient: &&Object<Recipient>| bounce.is_gone(&recipient.0, sender);
                let gone = bounce.recipients.iter().filter(is_gone);
                let notices: Result<Vec<_>, _> = gone.map(detail).collect();
                Ok(notices?.into_iter().flatten().collect())
            }
            Some("Complaint") => {
                let Object(complaint) = self.complaint.as_ref().ok_or(INCOMPLETE)?;
                let feedback = complaint.feedback.as_deref().unwrap_or_default();
                // The person withdraws the complaint, or a machine reports something else. Of
                // several recipients SES does not know who complained; mails of Mailroom have one.
                if matches!(feedback, "not-spam" | "auth-failure" | "virus")
                    || complaint.recipients.len() > 1
                {
                    return Ok(Vec::new());
                }
                let recipients = complaint.recipients.iter();
                let recipients =
                    recipients.map(|Object(recipient)| recipient.email_address.as_str());
                Notice::all(recipients, Reason::Complaint, &[feedback])
            }
            Some(_) => Ok(Vec::new()),
            None => Err(Refusal::Unreadable("it has no type")),
        }
    }
}

impl Provider for Ses {
    fn name(&self) -> &'static str {
        "ses"
    }

    fn media_types(&self) -> &'static [&'static str] {
        // SNS says that its JSON is plain text, unless it is told otherwise.
        &["text/plain", "application/json"]
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Notice>, Refusal> {
        let message: Message = parse(request.body)?;
        // Anybody can have SNS sign something, for a topic of their own.
        let topic = self.topics.iter().find(|topic| topic.is_of(&message));
        let topic = topic.ok_or(Refusal::Unproven("its topic is none of [ses] topics"))?;
        self.signatures.prove(&message, topic, request.now)?;
        match message.kind {
            Kind::Notification => of(&message),
            Kind::SubscriptionConfirmation => {
                self.signatures.subscribe(&message, topic).map(|()| Vec::new())
            }
            Kind::UnsubscribeConfirmation => {
                tracing::warn!(
                    event = "unsubscribed",
                    provider = "ses",
                    "a topic sends no notifications any more"
                );
                Ok(Vec::new())
            }
        }
    }
}

/// What a message of SNS says, whoever signed it.
#[cfg(feature = "unproven")]
pub(crate) fn notices(body: &[u8]) -> Result<Vec<Notice>, Refusal> {
    let message: Message = parse(body)?;
    message.time().ok_or(Refusal::Unproven("it does not say when it was signed"))?;
    if message.kind == Kind::Notification { of(&message) } else { Ok(Vec::new()) }
}

/// What a notification says.
fn of(message: &Message) -> Result<Vec<Notice>, Refusal> {
    // What SES sends when the topic is chosen for a configuration set.
    if message.text.starts_with("Successfully validated SNS topic") {
        return Ok(Vec::new());
    }
    parse::<Event>(message.text.as_bytes())?.notices()
}

#[cfg(test)]
mod tests;
