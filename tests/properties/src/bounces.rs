//! Notifications of bounces, compared with what the documents of their senders call certain.

use idna::domain_to_ascii;
use mailroom_bounces::unproven::{self, Notice, Webhook};
use mailroom_sender::ReturnPath;
use serde_json::{Value, json};

/// Reads the body of a webhook, behind a letter that says whose it is: `p` for Postmark, `r` for Resend, `s` for a message of Amazon
/// SNS, `e` for an event of Amazon SES in one.
///
/// # Panics
/// If an address is suppressed that was not certainly reported, or one that was is left out of what is understood.
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
            let Some(event) = value(text.as_bytes()).or(is_of_topic.then_some(Value::Null)) else { return };
            of_ses(&event)
        }
        Webhook::Ses => Vec::new(),
    };
    assert_eq!(notices.len(), reported.len(), "{written}");
    for (notice, reported) in notices.iter().zip(&reported) {
        check(notice);
        let bare = reported.trim_end().strip_suffix('>').and_then(|text| Some(text.rsplit_once('<')?.1));
        assert_eq!(notice.addresses[0], bare.unwrap_or(reported), "{written}");
    }
}

fn value(text: &[u8]) -> Option<Value> {
    serde_json::from_slice(text).ok()
}

fn sns_message(event: &str) -> String {
    let message = json!({
        "Type": "Notification", "MessageId": "1", "TopicArn": "arn:aws:sns:eu-west-1:123456789012:bounces", "Message": event,
        "Timestamp": "2026-11-23T12:00:00.000Z", "Signature": "", "SignatureVersion": "2", "SigningCertURL": "",
    });
    message.to_string()
}

fn of_postmark(event: &Value) -> Vec<String> {
    let is_certain = match (event["RecordType"].as_str(), event["Type"].as_str()) {
        (Some("Bounce"), Some(kind)) => ["HardBounce", "BadEmailAddress", "SpamComplaint"].contains(&kind),
        (record, _) => record == Some("SpamComplaint"),
    };
    event["Email"].as_str().filter(|_| is_certain).map(str::to_owned).into_iter().collect()
}

fn of_resend(event: &Value) -> Vec<String> {
    let is_certain = match event["type"].as_str() {
        Some("email.bounced") => event["data"]["bounce"]["type"] == "Permanent",
        kind => kind == Some("email.complained"),
    };
    texts(&event["data"]["to"], |to| to).filter(|all| is_certain && all.len() == 1).unwrap_or_default()
}

fn of_ses(event: &Value) -> Vec<String> {
    let kind = ["notificationType", "eventType"].into_iter().find_map(|name| event[name].as_str());
    let (list, is_certain) = match kind {
        Some("Bounce") => {
            (&event["bounce"]["bouncedRecipients"], event["bounce"]["bounceType"] == "Permanent")
        }
        Some("Complaint") => {
            let complaint = &event["complaint"];
            let is_of_person = !["not-spam", "auth-failure", "virus"]
                .contains(&complaint["complaintFeedbackType"].as_str().unwrap_or_default());
            let recipients = &complaint["complainedRecipients"];
            (recipients, is_of_person && recipients.as_array().is_some_and(|all| all.len() == 1))
        }
        _ => return Vec::new(),
    };
    texts(list, |recipient| &recipient["emailAddress"]).filter(|_| is_certain).unwrap_or_default()
}

fn texts(list: &Value, text: impl Fn(&Value) -> &Value) -> Option<Vec<String>> {
    list.as_array()?.iter().map(|item| text(item).as_str().map(str::to_owned)).collect()
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
            !character.is_whitespace() && !character.is_control() && !"\",;:<>()[]\\".contains(character)
        };
        assert!(address.len() <= 254 && address.matches('@').count() == 1 && address.chars().all(is_plain));
    }
    let is_plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    assert!(notice.addresses.len() <= 3 && notice.detail.len() <= 500 && notice.detail.bytes().all(is_plain));
}

/// Whose return addresses can be written as `bounces+NAME@example.org`, since nobody can make up their proofs.
const PEOPLE: [(&str, &str); 2] = [("ada", "ada@x.test"), ("bob", "bob@xn--bcher-kva.test")];

/// Reads a mail as a delivery status notification.
///
/// # Panics
/// If an address is suppressed whose return address is not in the mail, or of which no group of fields says exactly once that mails
/// to it have failed for good.
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
    for notice in &notices {
        check(notice);
        let address = &notice.addresses[0];
        assert!(lower.contains(&path.of(address)), "{text:?}");
        // What is encoded cannot be looked for.
        let is_encoded = lower.contains("content-transfer-encoding");
        let is_reported = [false, true]
            .into_iter()
            .any(|has_parts| groups(&lower, has_parts).iter().any(|group| reports(group, address)));
        assert!(is_encoded || is_reported, "{text:?}");
    }
}

/// Paragraphs, as fields without their folds; a line that begins as a boundary does may be one.
fn groups(text: &str, has_parts: bool) -> Vec<Vec<String>> {
    let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    lines.fold(vec![Vec::<String>::new()], |mut groups, line| {
        let group = groups.last_mut().expect("there is one");
        match group.last_mut() {
            _ if line.trim().is_empty() || has_parts && line.starts_with("--") => groups.push(Vec::new()),
            Some(field) if line.starts_with([' ', '\t']) => field.push_str(line),
            _ => group.push(line.to_owned()),
        }
        groups
    })
}

/// RFC 3464, 2.3: each field stands there once.
fn reports(group: &[String], address: &str) -> bool {
    let values = |name: &str| -> Vec<&str> {
        let fields = group.iter().filter_map(|field| field.split_once(':'));
        fields.filter(|(other, _)| *other == name).map(|(_, value)| value.trim()).collect()
    };
    let (actions, statuses, recipients) = (values("action"), values("status"), values("final-recipient"));
    let ([action], [status], [recipient]) = (&actions[..], &statuses[..], &recipients[..]) else {
        return false;
    };
    let code: String = status.chars().take_while(|one| one.is_ascii_digit() || *one == '.').collect();
    let recipient = recipient.split_once(';').map_or("", |(_, text)| text.trim().trim_matches(['<', '>']));
    *action == "failed"
        && ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"].contains(&code.as_str())
        && recipient == address.to_ascii_lowercase()
}
