//! Notifications of bounces, compared with what the documents of their senders call certain.

use idna::domain_to_ascii;
use mailroom_bounces::unproven::{self, Notice, Reason, Webhook};
use mailroom_mail::ReturnPath;
use serde_json::{Value, json};

/// Reads the body of a webhook, behind a letter that says whose it is: `p` for Postmark, `r` for
/// Resend, `s` for a message of Amazon SNS, `e` for an event of Amazon SES in one.
///
/// # Panics
/// If an address is suppressed that was not reported, or one that was certainly is left out
/// of what is understood.
pub fn bounce_webhook(data: &[u8]) {
    let Some((of, body)) = data.split_first() else { return };
    let message;
    let (webhook, body) = match of {
        b'p' => (Webhook::Postmark, body),
        b'r' => (Webhook::Resend, body),
        b's' => (Webhook::Ses, body),
        b'e' => {
            message = sns_message(&String::from_utf8_lossy(body));
            (Webhook::Ses, message.as_bytes())
        }
        _ => return,
    };
    let Ok(notices) = unproven::webhook(webhook, body) else { return };
    // What is skipped unread may be more than a value can hold.
    let Some(written) = value(body) else { return };
    let reported = match webhook {
        Webhook::Postmark => of_postmark(&written),
        Webhook::Resend => of_resend(&written),
        Webhook::Ses if written["Type"] == "Notification" => {
            let text = written["Message"].as_str().unwrap_or_default();
            let is_of_topic = text.starts_with("Successfully validated SNS topic");
            let Some(event) = value(text.as_bytes()).or(is_of_topic.then_some(Value::Null)) else {
                return;
            };
            of_ses(&event)
        }
        Webhook::Ses => Vec::new(),
    };
    // Notices have the one form that the database compares; others stay as they are.
    let bare = |reported: &str| {
        let inner =
            reported.trim_end().strip_suffix('>').and_then(|text| Some(text.rsplit_once('<')?.1));
        let inner = inner.unwrap_or(reported);
        let form = || {
            let (local, domain) = inner.rsplit_once('@')?;
            let quoted = local.strip_prefix('"').and_then(|local| local.strip_suffix('"'));
            let local: String =
                quoted.unwrap_or(local).chars().flat_map(char::to_lowercase).collect();
            Some(format!("{local}@{}", domain_to_ascii(domain).ok()?))
        };
        form().unwrap_or_else(|| inner.to_owned())
    };
    let certain: Vec<_> = reported.iter().filter(|(_, said)| *said == Said::Certain).collect();
    for (address, _) in certain {
        assert!(notices.iter().any(|notice| notice.addresses[0] == bare(address)), "{written}");
    }
    for notice in &notices {
        check(notice);
        let is_reported = reported.iter().any(|(address, _)| notice.addresses[0] == bare(address));
        assert!(is_reported, "{written}");
    }
}

fn value(text: &[u8]) -> Option<Value> {
    serde_json::from_slice(text).ok()
}

fn sns_message(event: &str) -> String {
    let message = json!({
        "Type": "Notification",
        "MessageId": "1",
        "TopicArn": "arn:aws:sns:eu-west-1:123456789012:bounces",
        "Message": event,
        "Timestamp": "2026-11-23T12:00:00.000Z",
        "Signature": "",
        "SignatureVersion": "2",
        "SigningCertURL": "",
    });
    message.to_string()
}

/// How sure a provider is that an address is to be suppressed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Certain,
    /// It depends on what the next server said.
    Perhaps,
}

fn of_postmark(event: &Value) -> Vec<(String, Said)> {
    let said = match (event["RecordType"].as_str(), event["Type"].as_str()) {
        (Some("Bounce"), Some("HardBounce")) if !event["Details"].is_null() => Some(Said::Perhaps),
        (Some("Bounce"), Some("HardBounce" | "BadEmailAddress" | "SpamComplaint"))
        | (Some("SpamComplaint"), _) => Some(Said::Certain),
        _ => None,
    };
    let address = event["Email"].as_str().map(str::to_owned);
    address.into_iter().filter_map(|address| Some((address, said?))).collect()
}

fn of_resend(event: &Value) -> Vec<(String, Said)> {
    let (data, bounce) = (&event["data"], &event["data"]["bounce"]);
    let said = match event["type"].as_str() {
        Some("email.bounced") => of_bounce(&bounce["type"], bounce["diagnosticCode"].is_null()),
        Some("email.complained") => Some(Said::Certain),
        _ => None,
    };
    let all = texts(&data["to"]).filter(|all| all.len() == 1).unwrap_or_default();
    all.into_iter().filter_map(|address| Some((address, said?))).collect()
}

fn of_ses(event: &Value) -> Vec<(String, Said)> {
    let kind = ["notificationType", "eventType"].into_iter().find_map(|name| event[name].as_str());
    let bounce = &event["bounce"];
    let list = match kind {
        Some("Bounce") => &bounce["bouncedRecipients"],
        Some("Complaint") => &event["complaint"]["complainedRecipients"],
        _ => return Vec::new(),
    };
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let said = |recipient: &Value| {
        if kind == Some("Bounce") {
            let is_silent = recipient["status"].is_null() && recipient["diagnosticCode"].is_null();
            of_bounce(&bounce["bounceType"], is_silent)
        } else {
            let feedback = event["complaint"]["complaintFeedbackType"].as_str().unwrap_or_default();
            let is_of_person = !["not-spam", "auth-failure", "virus"].contains(&feedback);
            (is_of_person && list.len() == 1).then_some(Said::Certain)
        }
    };
    let recipients = list.iter();
    recipients
        .filter_map(|one| Some((one["emailAddress"].as_str()?.to_owned(), said(one)?)))
        .collect()
}

fn of_bounce(kind: &Value, is_silent: bool) -> Option<Said> {
    match kind.as_str()? {
        "Permanent" if is_silent => Some(Said::Certain),
        "Permanent" | "Transient" | "Undetermined" => Some(Said::Perhaps),
        _ => None,
    }
}

fn texts(list: &Value) -> Option<Vec<String>> {
    list.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// What every notice is, whoever sent it.
fn check(notice: &Notice) {
    let domain = |address: &str| {
        let (local, domain) = address.split_once('@').expect("an address has an @");
        (local.to_owned(), domain_to_ascii(domain).ok())
    };
    let first = domain(&notice.addresses[0]);
    for address in &notice.addresses {
        assert_eq!(domain(address), first, "another form of the address is another address");
        let is_plain = |character: char| {
            !character.is_whitespace()
                && !character.is_control()
                && !"\",;:<>()[]\\".contains(character)
        };
        assert!(
            address.len() <= 254
                && address.matches('@').count() == 1
                && address.chars().all(is_plain)
        );
    }
    let is_plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    assert!(
        notice.addresses.len() <= 3
            && notice.detail.len() <= 500
            && notice.detail.bytes().all(is_plain)
    );
}

/// Whose return addresses can be written as `bounces+NAME@example.org`,
/// since nobody can make up their proofs.
const PEOPLE: [(&str, &str); 2] = [("ada", "ada@x.test"), ("bob", "bob@xn--bcher-kva.test")];

/// Reads a mail as a delivery status notification.
///
/// # Panics
/// If an address is suppressed whose return address is not in the mail, or of which the mail does
/// not say that it is gone.
pub fn bounce_mail(data: &[u8]) {
    let path = ReturnPath::new("bounces@example.org", "a secret of at least thirty-two bytes");
    let path = path.expect("it is a return address");
    let text: String = data.iter().copied().map(char::from).collect();
    let text = PEOPLE.into_iter().fold(text, |text, (name, address)| {
        text.replace(&format!("bounces+{name}@example.org"), &path.of(address))
    });
    let mail: Vec<u8> = text.chars().map(|one| u8::try_from(one).expect("it was a byte")).collect();
    let Ok(notices) = unproven::mail(&mail, &path) else { return };
    let lower = text.to_ascii_lowercase();
    // What is encoded cannot be looked for.
    let is_encoded = lower.contains("content-transfer-encoding");
    for notice in &notices {
        check(notice);
        let address = &notice.addresses[0];
        assert!(lower.contains(&path.of(address)), "{text:?}");
        let is_reported = match notice.reason {
            Reason::Bounce => is_bounce(&lower, address),
            Reason::Complaint => {
                ["abuse", "fraud", "opt-out", "other"].iter().any(|kind| lower.contains(kind))
            }
        };
        assert!(is_encoded || is_reported, "{text:?}");
    }
}

/// Whether a mail has what a bounce for good needs, wherever it stands: a report that names the
/// address in any spelling and says that it failed, or a notification of qmail or Exim; and a
/// status or words by which the address is gone.
fn is_bounce(text: &str, address: &str) -> bool {
    let local = address.split_once('@').map_or("", |(local, _)| local);
    let is_report = text.contains("final-recipient") && text.contains("fail");
    let is_for_people = text.contains("x-failed-recipients") || text.contains("hi. this is the ");
    let is_escaped = text.contains("\\x{") || text.contains('+');
    let names_it = text.contains(&local.to_ascii_lowercase()) || is_escaped;
    let has_status =
        ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"].iter().any(|code| text.contains(code));
    let words = [
        "unknown",
        "no such",
        "not ",
        "invalid",
        "no mailbox",
        "doesn't have a",
        "no longer",
        "moved",
    ];
    let words = words
        .iter()
        .chain(&["rout", "illegal", "null", "point to", "bad dest", "rejected", "found"])
        .chain(&["unavailable", "nxdomain", "unbekannt", "nicht ", "bestaat", "onbekend", "ukendt"])
        .chain(&["finns", "inconnu", "introuvable", "desconoc", "encontrado", "desconhec"])
        .chain(&["esiste", "inesist", "sconosciut", "istnieje", "nieznany", "deleted"]);
    let mut said = words.chain(&["exist"]);
    let is_foreign = !text.is_ascii();
    let has_status = has_status || is_foreign;
    (is_report || is_for_people) && names_it && (has_status || said.any(|word| text.contains(word)))
}
