//! A mail as RFC 5322 and MIME write it.

use lettre::Message;
use lettre::address::Envelope;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Body, Mailbox, MultiPart, SinglePart};

use crate::encoding;
use crate::mail::Mail;

/// The text of a mail: ASCII but for a recipient's name in other letters (RFC 6532), lines ended by
/// CR LF, text and HTML as alternatives.
///
/// The same mail always has the same bytes: what could differ, its Message-ID and the boundary of
/// its parts, follows from the key.
pub(crate) fn encode(mail: &Mail) -> String {
    let to = Mailbox::new(None, mail.to.address().clone());
    // Given, because it would otherwise be read from the headers,
    // by a parser that knows fewer addresses.
    let envelope = Envelope::new(Some(mail.from.email.clone()), vec![mail.to.address().clone()]);
    let envelope = envelope.expect("there is a recipient");
    let mut builder =
        Message::builder().envelope(envelope).from(mail.from.clone()).to(to).date(mail.date);
    if let Some(reply_to) = &mail.reply_to {
        builder = builder.reply_to(reply_to.clone());
    }
    let message = builder
        .subject(mail.subject.as_str())
        .message_id(Some(format!("<{}@{}>", mail.key, mail.from.email.domain())))
        // RFC 3834: so that no absence note answers, and no list forwards.
        .raw_header(HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        ))
        .multipart(
            MultiPart::alternative()
                .boundary(format!("mailroom-{}", mail.key))
                .singlepart(part(ContentType::TEXT_PLAIN, encoding::text(&mail.text)))
                .singlepart(part(ContentType::TEXT_HTML, encoding::html(&mail.html))),
        )
        .expect("a mail has a sender and a recipient");
    String::from_utf8(message.formatted()).expect("headers and bodies are encoded")
}

fn part(kind: ContentType, body: Body) -> SinglePart {
    SinglePart::builder().header(kind).body(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::mail::{HeaderText, Recipient};
    use std::time::{Duration, UNIX_EPOCH};

    fn mail(to: &str, subject: &str) -> Mail {
        Mail {
            key: Key::parse("b9a16650bbdcba5dd0298fef5dd25661").unwrap(),
            from: "\"B\u{fc}cher, Inc\" <us@x.test>".parse().unwrap(),
            reply_to: Some("help@x.test".parse().unwrap()),
            to: Recipient::parse(to).unwrap(),
            subject: HeaderText::new(subject).unwrap(),
            text: format!("Gr\u{fc}\u{df}e\n.\nFrom here\n{}\n", "x".repeat(2_000)),
            html: "<p>Gr\u{fc}\u{df}e</p>".to_owned(),
            date: UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        }
    }

    #[test]
    fn a_mail_has_both_bodies_and_says_that_a_program_made_it() {
        let text = encode(&mail("ada@x.test", "Activate"));
        for line in [
            "To: ada@x.test\r\n",
            "Reply-To: help@x.test\r\n",
            "Subject: Activate\r\n",
            "Message-ID: <b9a16650bbdcba5dd0298fef5dd25661@x.test>\r\n",
            "Auto-Submitted: auto-generated\r\n",
            "MIME-Version: 1.0\r\n",
            "Date: Fri, 15 Jan 2027 08:00:00 +0000\r\n",
            "Content-Type: text/plain; charset=utf-8\r\n",
            "Content-Type: text/html; charset=utf-8\r\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        // These are no lists, so there is nothing to unsubscribe from.
        assert!(!text.contains("List-"));
        assert!(text.is_ascii());
        assert!(text.lines().all(|line| line.len() <= 998));
    }

    #[test]
    fn a_link_stands_unbroken_in_each_shipped_mail() {
        let templates = crate::templates::Templates::read(None).unwrap();
        let token = "AgFf-_9".repeat(24);
        let link = format!("https://example.org/activate?token={token}");
        for (language, action) in templates.mails() {
            let rendered = templates.render(&crate::templates::Variables {
                product: "Example",
                language,
                action,
                link: &link,
                code: "01234",
                email: "ada@x.test",
                login: "ada",
                expires: "2027-01-15 08:15 UTC",
                payload: &serde_json::Value::Null,
            });
            let rendered = rendered.unwrap();
            let (text, html) = (rendered.text, rendered.html);
            let text = encode(&Mail { text, html, ..mail("ada@x.test", "Activate") });
            let links = if action == "notice" { 0 } else { 3 };
            assert!(text.matches(&link).count() >= links, "{text}");
            assert!(!text.contains("token=3D") && !text.contains("quoted-printable"), "{text}");
            assert!(text.lines().all(|line| line.len() <= 900), "{text}");
        }
    }

    #[test]
    fn the_same_mail_has_the_same_bytes() {
        assert_eq!(
            encode(&mail("ada@x.test", "Activate")),
            encode(&mail("ada@x.test", "Activate"))
        );
    }

    #[test]
    fn no_recipient_and_no_subject_adds_a_header() {
        let plain = encode(&mail("ada@x.test", "Activate"));
        let names = |text: &str| -> Vec<String> {
            let headers = text.split("\r\n\r\n").next().unwrap().split("\r\n");
            let headers = headers.filter(|line| !line.starts_with([' ', '\t']));
            headers.map(|line| line.split(':').next().unwrap().to_owned()).collect()
        };
        let long = format!("{} \u{fc} =?utf-8?q?=0D=0ABcc:_victim@x.test?=", "word ".repeat(100));
        for (to, subject) in [
            ("ada@x.test", "Bcc: victim@x.test"),
            ("Bcc=victim@x.test", "x"),
            ("\u{938}\u{902}\u{92a}\u{930}\u{94d}\u{915}@x.test", "x"),
            ("\u{e1c}\u{e39}\u{e49}\u{1f4a9}@x.test", "x"),
            ("ada@x.test", long.as_str()),
            ("ada@x.test", "\u{1f600}\u{202e}\u{feff}"),
        ] {
            let text = encode(&mail(to, subject));
            assert_eq!(names(&text), names(&plain), "{to} {subject}");
            assert!(text.contains(&format!("\r\nTo: {to}\r\n")), "{text}");
        }
    }
}
