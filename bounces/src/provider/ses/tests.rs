//! Messages as SNS documents them, signed with a key of the test, whose certificate a stand-in for
//! the network has.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use base64ct::{Base64, Encoding as _};
use hyper::HeaderMap;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const TOPIC: &str = "arn:aws:sns:us-west-2:123456789012:MyTopic";
const CERTIFICATE: &str = "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem";
const CONFIRM: &str = "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription\
                       &TopicArn=arn:aws:sns:us-west-2:123456789012:MyTopic&Token=2336412f37";
const TIME: &str = "2012-05-02T00:54:06.655Z";
const NOW: u64 = 1_335_920_046;

/// A network that has one certificate, and remembers what it was asked for.
struct Network {
    pem: Vec<u8>,
    status: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fetch for Network {
    fn get(&self, url: &str) -> Option<(u16, Vec<u8>)> {
        self.asked.lock().unwrap().push(url.to_owned());
        match self.status {
            0 => None,
            status => Some((status, self.pem.clone())),
        }
    }
}

struct Stage {
    folder: TempDir,
    ses: Ses,
    asked: Arc<Mutex<Vec<String>>>,
}

fn openssl(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("openssl")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("openssl is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

impl Stage {
    fn new(status: u16) -> Self {
        Self::for_topic(TOPIC, status)
    }

    fn for_topic(topic: &str, status: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let make = [
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "key",
            "-out",
            "pem",
            "-subj",
            "/CN=sns.amazonaws.com",
        ];
        openssl(folder.path(), &make);
        let (pem, asked) = (fs::read(folder.path().join("pem")).unwrap(), Arc::default());
        let network = Network { pem, status, asked: Arc::clone(&asked) };
        let ses = Ses::fetching_by(&[topic.to_owned()], Box::new(network)).unwrap();
        Self { folder, ses, asked }
    }

    /// Signs a message as its version says: names and values, a line each.
    fn sign(&self, mut message: Value) -> Value {
        let names: &[&str] = if message["Type"] == "Notification" {
            &["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
        } else {
            &["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
        };
        let lines =
            names.iter().filter_map(|name| Some(format!("{name}\n{}\n", message[*name].as_str()?)));
        fs::write(self.folder.path().join("text"), lines.collect::<String>()).unwrap();
        let digest = if message["SignatureVersion"] == "1" { "-sha1" } else { "-sha256" };
        let signature = openssl(self.folder.path(), &["dgst", digest, "-sign", "key", "text"]);
        message["Signature"] = Base64::encode_string(&signature).into();
        message
    }

    fn read(&self, message: &Value, now: u64) -> Result<Vec<Notice>, Refusal> {
        self.ses.read(&Request {
            headers: &HeaderMap::new(),
            body: message.to_string().as_bytes(),
            now,
        })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn notification(version: &str, event: &Value) -> Value {
    json!({
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": TOPIC,
        "Subject": "Amazon SES \u{fc}\n",
        "Message": event.to_string(),
        "Timestamp": TIME,
        "SignatureVersion": version,
        "SigningCertURL": CERTIFICATE,
        "UnsubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=Unsubscribe",
    })
}

fn bounce(kind: &str) -> Value {
    json!({
        "notificationType": "Bounce",
        "bounce": {
            "bounceType": kind,
            "bounceSubType": "General",
            "reportingMTA": "dns; email.example.com",
            "timestamp": "2016-01-27T14:59:38.237Z",
            "bouncedRecipients": [
                {
                    "emailAddress": "jane@example.com",
                    "status": "5.1.1",
                    "action": "failed",
                    "diagnosticCode": "smtp; 550 5.1.1 <jane@example.com>... User",
                },
                {"emailAddress": "Joe <joe@example.com>"},
            ],
        },
        "mail": {"destination": ["other@example.com"]},
    })
}

fn said_of(kind: &str, sub_kind: &str, status: &str, answer: &str) -> Value {
    json!({
        "eventType": "Bounce",
        "bounce": {
            "bounceType": kind,
            "bounceSubType": sub_kind,
            "bouncedRecipients": [{
                "emailAddress": "\"Ada L.\" <Ada@X.TEST>",
                "action": "failed",
                "status": status,
                "diagnosticCode": answer,
            }],
        },
    })
}

#[test]
fn what_the_next_server_said_counts_whatever_the_bounce_is_called() {
    let stage = Stage::new(200);
    for event in [
        said_of("Transient", "General", "5.1.1", "smtp; 550 5.1.1 <ada@x.test>: no such user"),
        said_of("Transient", "General", "5.3.0", "smtp; 550 5.3.0 <ada@x.test>: user unknown"),
        said_of("Undetermined", "Undetermined", "5.0.0", "smtp; 550 5.1.1 no such user"),
        said_of("Permanent", "General", "5.1.1", "smtp; 550 5.1.1 user unknown"),
        said_of(
            "Permanent",
            "General",
            "5.5.0",
            "smtp; 550 Requested action not taken: mailbox unavailable",
        ),
        said_of("Permanent", "General", "", ""),
        // SES itself sends nothing there, and says why.
        said_of(
            "Permanent",
            "Suppressed",
            "5.1.1",
            "Amazon SES has suppressed sending to this address: policy",
        ),
        said_of(
            "Permanent",
            "OnAccountSuppressionList",
            "5.1.1",
            "on the list of the account, sender",
        ),
    ] {
        let notices = stage.read(&stage.sign(notification("2", &event)), NOW).ok().unwrap();
        assert!(notices.len() == 1 && notices[0].addresses == ["ada@x.test"], "{event}");
    }
}

fn complaint(feedback: Option<&str>) -> Value {
    json!({
        "eventType": "Complaint",
        "complaint": {
            "complainedRecipients": [{"emailAddress": "richard@example.com"}],
            "complaintFeedbackType": feedback,
        },
    })
}

#[test]
fn both_versions_of_signatures_are_checked_with_a_certificate_that_is_fetched_once() {
    let stage = Stage::new(200);
    for version in ["1", "2"] {
        let signed = stage.sign(notification(version, &bounce("Permanent")));
        for now in [NOW, NOW + 7_200, NOW - 300] {
            let notices = stage.read(&signed, now).ok().unwrap();
            let [jane, joe] = &notices[..] else { panic!("two recipients") };
            assert_eq!(
                (&jane.addresses[..], &joe.addresses[..]),
                (&["jane@example.com".to_owned()][..], &["joe@example.com".to_owned()][..])
            );
            assert!(
                jane.reason == Reason::Bounce
                    && jane.detail.starts_with("General: 5.1.1: smtp; 550"),
                "{}",
                jane.detail
            );
        }
        // Without a subject there is no line for it.
        let mut plain = notification(version, &complaint(Some("abuse")));
        plain.as_object_mut().unwrap().remove("Subject");
        let notices = stage.read(&stage.sign(plain), NOW).ok().unwrap();
        assert!(
            notices.len() == 1
                && notices[0].reason == Reason::Complaint
                && notices[0].detail == "abuse"
        );
    }
    assert_eq!(stage.asked(), [CERTIFICATE]);
}

#[test]
fn what_is_not_for_good_or_no_complaint_suppresses_nobody() {
    let stage = Stage::new(200);
    for event in [
        bounce("permanent"),
        said_of("Transient", "General", "4.4.7", "smtp; 554 4.4.7 Message expired"),
        said_of("Transient", "General", "5.2.2", "smtp; 552 5.2.2 Mailbox full"),
        said_of("Transient", "General", "5.3.0", ""),
        said_of("Transient", "MailboxFull", "5.1.1", "smtp; 550 5.1.1 user unknown"),
        said_of("Transient", "ContentRejected", "5.1.1", "smtp; 550 5.1.1 user unknown"),
        said_of("Undetermined", "Undetermined", "5.0.0", "smtp; 550 rejected"),
        said_of("Undetermined", "Undetermined", "", ""),
        said_of(
            "Permanent",
            "General",
            "5.7.1",
            "smtp; 550 5.7.1 Service unavailable, client host blocked",
        ),
        said_of(
            "Permanent",
            "General",
            "5.1.1",
            "smtp; 550 5.1.1 your IP has sent to too many recipients",
        ),
        said_of("Permanent", "General", "5.2.2", "smtp; 552 5.2.2 over quota"),
        complaint(Some("not-spam")),
        complaint(Some("auth-failure")),
        complaint(Some("virus")),
        json!({"eventType": "Complaint", "complaint": {"complainedRecipients": [
            {"emailAddress": "richard@example.com"}, {"emailAddress": "jane@example.com"},
        ]}}),
        json!({"eventType": "Delivery", "delivery": {"recipients": ["jane@example.com"]}}),
        json!({
            "notificationType": "AmazonSnsSubscriptionSucceeded",
            "message": "You have subscribed",
        }),
    ] {
        assert!(
            stage
                .read(&stage.sign(notification("2", &event)), NOW)
                .is_ok_and(|notices| notices.is_empty()),
            "{event}"
        );
    }
    let mut validated = notification("2", &json!({}));
    validated["Message"] =
        "Successfully validated SNS topic for Amazon SES event publishing.".into();
    assert!(stage.read(&stage.sign(validated), NOW).is_ok_and(|notices| notices.is_empty()));
    let bounced = |recipients: Value| {
        json!({
            "notificationType": "Bounce",
            "bounce": {"bounceType": "Permanent", "bouncedRecipients": recipients},
        })
    };
    for event in [
        json!({}),
        json!("Bounce"),
        json!({"notificationType": "Bounce"}),
        bounced(json!([])),
        bounced(json!([{"emailAddress": "a@x.test\nb@x.test"}])),
        json!({
            "notificationType": "Complaint",
            "complaint": {"complainedRecipients": [{"emailAddress": 1}]},
        }),
    ] {
        let refusal = stage.read(&stage.sign(notification("2", &event)), NOW).err();
        assert!(matches!(refusal, Some(Refusal::Unreadable(_))), "{event}: {refusal:?}");
    }
}

#[test]
fn what_sns_has_not_signed_now_for_this_topic_is_refused() {
    let stage = Stage::new(200);
    let signed = stage.sign(notification("2", &bounce("Permanent")));
    let old = stage.sign(notification("1", &bounce("Permanent")));
    let mut cases = Vec::new();
    for (member, value) in [
        ("Message", complaint(None).to_string()),
        ("MessageId", "x".to_owned()),
        ("Subject", "x".to_owned()),
        ("Timestamp", "2012-05-02T00:54:07.655Z".to_owned()),
        ("TopicArn", "arn:aws:sns:us-west-2:999999999999:MyTopic".to_owned()),
        ("Type", "UnsubscribeConfirmation".to_owned()),
        ("SignatureVersion", "1".to_owned()),
        ("SignatureVersion", "3".to_owned()),
        ("Signature", String::new()),
        ("Signature", "AAAA".to_owned()),
        ("Signature", "not base64".to_owned()),
    ] {
        let mut forged = signed.clone();
        forged[member] = value.into();
        cases.push(forged);
    }
    let mut downgraded = old.clone();
    downgraded["SignatureVersion"] = "2".into();
    // Signed for a topic of somebody else's, or with a time that is none.
    let mut other = notification("2", &bounce("Permanent"));
    other["TopicArn"] = "arn:aws:sns:us-west-2:999999999999:MyTopic".into();
    let mut timeless = notification("2", &bounce("Permanent"));
    timeless["Timestamp"] = "yesterday".into();
    // By another key.
    let by_another = Stage::new(200).sign(notification("2", &bounce("Permanent")));
    cases.extend([downgraded, stage.sign(other), stage.sign(timeless), by_another]);
    for case in cases {
        let refusal = stage.read(&case, NOW).err();
        assert!(matches!(refusal, Some(Refusal::Unproven(_))), "{case}: {refusal:?}");
    }
    for now in [NOW + 7_201, NOW - 301, 0, u64::MAX] {
        assert!(matches!(stage.read(&signed, now), Err(Refusal::Unproven(_))), "{now}");
    }
    assert!(matches!(
        stage.read(&json!({"Type": "Notification"}), NOW),
        Err(Refusal::Unreadable(_))
    ));
}

#[test]
fn certificates_and_confirmations_come_from_the_topics_own_host_alone() {
    let stage = Stage::new(200);
    for url in [
        "https://evil.test/SimpleNotificationService-0.pem",
        "http://sns.us-west-2.amazonaws.com/SimpleNotificationService-0.pem",
        "https://sns.us-west-2.amazonaws.com.evil.test/SimpleNotificationService-0.pem",
        "https://sns.us-west-2.amazonaws.com@evil.test/SimpleNotificationService-0.pem",
        "https://sns.us-west-2.amazonaws.com:444/SimpleNotificationService-0.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0.pem",
        "https://bucket.s3.amazonaws.com/SimpleNotificationService-0.pem",
        "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-../x.pem",
        "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-0.pem?x=.pem",
        "https://sns.us-west-2.amazonaws.com/other.pem",
        "HTTPS://SNS.us-west-2.amazonaws.com/SimpleNotificationService-0.pem",
        "file:///etc/passwd",
        "",
    ] {
        let mut message = stage.sign(notification("2", &bounce("Permanent")));
        message["SigningCertURL"] = url.into();
        assert!(matches!(stage.read(&message, NOW), Err(Refusal::Unproven(_))), "{url}");
    }
    assert!(stage.asked().is_empty());

    let confirmation = |url: &str| {
        stage.sign(json!({
            "Type": "SubscriptionConfirmation",
            "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
            "Token": "2336412f37",
            "TopicArn": TOPIC,
            "Message": "You have chosen to subscribe to the topic.",
            "SubscribeURL": url,
            "Timestamp": TIME,
            "SignatureVersion": "1",
            "SigningCertURL": CERTIFICATE,
        }))
    };
    let host = "https://sns.us-west-2.amazonaws.com/";
    for url in [
        CONFIRM.replace(host, "https://evil.test/"),
        CONFIRM.replace(host, "http://sns.us-west-2.amazonaws.com/"),
        CONFIRM.replace(host, "https://sns.us-west-2.amazonaws.com@evil.test/"),
        CONFIRM.replace(host, "https://sns.eu-west-1.amazonaws.com/"),
        CONFIRM.replace("ConfirmSubscription", "Unsubscribe"),
        format!("{CONFIRM}\r\nx: y"),
        String::new(),
    ] {
        assert!(matches!(stage.read(&confirmation(&url), NOW), Err(Refusal::Unproven(_))), "{url}");
    }
    assert_eq!(stage.asked(), [CERTIFICATE]);
    assert!(stage.read(&confirmation(CONFIRM), NOW).is_ok_and(|notices| notices.is_empty()));
    assert_eq!(stage.asked(), [CERTIFICATE, CONFIRM]);
    let mut unsigned = confirmation(CONFIRM);
    unsigned["Signature"] = "AAAA".into();
    assert!(matches!(stage.read(&unsigned, NOW), Err(Refusal::Unproven(_))));
    assert_eq!(stage.asked().len(), 2);
}

#[test]
fn a_message_comes_again_while_the_certificate_cannot_be_had() {
    for status in [0, 500, 301, 404, 403] {
        let stage = Stage::new(status);
        let refusal = stage.read(&stage.sign(notification("2", &bounce("Permanent"))), NOW).err();
        assert!(matches!(refusal, Some(Refusal::Unavailable(_))), "{status}: {refusal:?}");
    }
}

#[test]
fn topics_are_arns_of_sns_whose_region_is_of_their_partition() {
    let network = || Box::new(Network { pem: Vec::new(), status: 0, asked: Arc::default() });
    for topics in [
        &[][..],
        &["MyTopic"],
        &[TOPIC, "arn:aws:sqs:us-west-2:1:x"],
        &["arn:aws:sns:evil.test/:1:x"],
        &["arn:aws:sns::1:x"],
        &["xrn:aws:sns:us-west-2:1:x"],
        &["arn:aws-evil:sns:us-west-2:1:x"],
        &["arn:aws-cn:sns:us-west-2:1:x"],
        &["arn:aws:sns:cn-north-1:1:x"],
        &["arn:aws-us-gov:sns:us-east-1:1:x"],
        &["arn:aws:sns:us-gov-west-1:1:x"],
        &["arn:aws-cn:sns:cn-north-1.evil.test:1:x"],
    ] {
        let topics: Vec<_> = topics.iter().map(|topic| (*topic).to_owned()).collect();
        assert!(Ses::fetching_by(&topics, network()).is_err(), "{topics:?}");
    }
}

#[test]
fn the_partition_of_a_topic_determines_the_host_of_its_certificates() {
    let hosts = [
        ("arn:aws:sns:eu-west-1:1:x", "sns.eu-west-1.amazonaws.com"),
        ("arn:aws-us-gov:sns:us-gov-west-1:1:x", "sns.us-gov-west-1.amazonaws.com"),
        ("arn:aws-cn:sns:cn-north-1:1:x", "sns.cn-north-1.amazonaws.com.cn"),
        ("arn:aws-cn:sns:cn-northwest-1:1:x", "sns.cn-northwest-1.amazonaws.com.cn"),
        ("arn:aws-eusc:sns:eusc-de-east-1:1:x", "sns.eusc-de-east-1.amazonaws.eu"),
    ];
    for (topic, host) in hosts {
        let stage = Stage::for_topic(topic, 200);
        let message = |host: &str| {
            let mut message = notification("2", &bounce("Permanent"));
            message["TopicArn"] = topic.into();
            message["SigningCertURL"] =
                format!("https://{host}/SimpleNotificationService-0.pem").into();
            stage.sign(message)
        };
        assert!(stage.read(&message(host), NOW).is_ok_and(|notices| notices.len() == 2), "{topic}");
        let others = hosts.iter().map(|(_, other)| *other).filter(|other| *other != host);
        for other in
            others.chain([&*format!("{host}.cn"), &host.replace("amazonaws.", "amazonaws.com.")])
        {
            assert!(
                matches!(stage.read(&message(other), NOW), Err(Refusal::Unproven(_))),
                "{topic} {other}"
            );
        }
    }
}
