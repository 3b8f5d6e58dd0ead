//! Delivery status notifications: mails of mail servers, as RFC 3464 describes them.
//!
//! Nobody signs them. What proves one is the return address that it came to, which only mails to its recipient carried.

use mail_parser::{MessageParser, MimeHeaders as _};
use mailroom_sender::ReturnPath;

use crate::notice::{Notice, Reason, Refusal};

/// The largest mail, in bytes. What is sent back with it is a mail of Mailroom's.
pub(crate) const LARGEST: usize = 1024 * 1024;

/// The most recipients that a notification may be about. Mails have one.
const MOST_RECIPIENTS: usize = 16;

/// The headers by which a mail says where it came to.
const DESTINATIONS: [&str; 4] = ["To", "Delivered-To", "X-Original-To", "Envelope-To"];

/// What a notification says of a recipient.
#[derive(Default)]
struct Report {
    action: Option<String>,
    status: Option<String>,
    diagnostic: Option<String>,
    /// Whom this is about.
    final_recipient: Option<String>,
    /// Whom the mail was for, where it was passed on: who may have other mailboxes.
    original_recipient: Option<String>,
}

impl Report {
    /// Whether no mail can reach the address. Other permanent errors are about the mail, its sender or a network.
    fn is_for_good(&self) -> bool {
        let code: Vec<_> = self.status().split('.').collect();
        let is_of_address = match code[..] {
            // No such mailbox, system or form of address; moved; no mail is taken there (RFC 3463, 7505). 5.1.0 is used for refused
            // senders, too, and 5.2.1 for mailboxes that get too much.
            ["5", "1", detail] => matches!(detail, "1" | "2" | "3" | "6" | "10"),
            _ => false,
        };
        self.action.as_deref().is_some_and(|action| action.eq_ignore_ascii_case("failed")) && is_of_address
    }

    fn status(&self) -> &str {
        self.status.as_deref().unwrap_or_default()
    }

    /// Takes a field; nothing if it contradicts another one or cannot be read.
    fn set(&mut self, field: &str) -> Option<()> {
        let Some((name, value)) = field.split_once(':') else { return Some(()) };
        let value = value.trim();
        let address = || Some(value.split_once(';')?.1.trim().trim_start_matches('<').trim_end_matches('>'));
        let (place, value) = match name.to_ascii_lowercase().as_str() {
            "action" => (&mut self.action, value),
            "status" => (&mut self.status, value.split([' ', '\t', '(']).next().unwrap_or_default()),
            "diagnostic-code" => (&mut self.diagnostic, value),
            "final-recipient" => (&mut self.final_recipient, address()?),
            "original-recipient" => (&mut self.original_recipient, address()?),
            _ => return Some(()),
        };
        place.replace(value.to_owned()).is_none().then_some(())
    }
}

/// Reads and proves a mail; of one that is not for good, nothing.
///
/// # Errors
/// It is no notification, or did not come to the return address of mails to the recipients that it names.
pub(crate) fn read(mail: &[u8], return_path: &ReturnPath) -> Result<Vec<Notice>, Refusal> {
    const NONE: Refusal = Refusal::Unreadable("it is no delivery status notification");
    let message = MessageParser::default().parse(mail).ok_or(NONE)?;
    let is_destination = |name: &str| DESTINATIONS.iter().any(|other| other.eq_ignore_ascii_case(name));
    let destinations: Vec<&str> = message
        .headers_raw()
        .filter(|(name, _)| is_destination(name))
        .flat_map(|(_, value)| {
            value.split(|character: char| character.is_whitespace() || "<>,;\"()".contains(character))
        })
        .filter(|word| return_path.is_of_form(word))
        .take(MOST_RECIPIENTS)
        .collect();
    if destinations.is_empty() {
        return Err(Refusal::Unproven("it did not come to a return address of this configuration"));
    }
    let is_status = |part: &&mail_parser::MessagePart<'_>| {
        part.is_content_type("message", "delivery-status")
            || part.is_content_type("message", "global-delivery-status")
    };
    let part = message.parts.iter().find(is_status).ok_or(NONE)?;
    // Of a line that is cut off, what is left may say something else. The parser also ends a part within a line.
    let (before, after) = mail.split_at_checked(part.raw_end_offset() as usize).ok_or(NONE)?;
    if !before.ends_with(b"\n") && !after.starts_with(b"\n") && !after.starts_with(b"\r\n") {
        return Err(NONE);
    }
    let text = str::from_utf8(part.contents()).map_err(|_| NONE)?;
    let statuses = statuses(text).ok_or(NONE)?;
    let mut notices = Vec::new();
    for status in &statuses {
        let is_proven =
            |recipient: &str| destinations.iter().any(|address| return_path.proves(address, recipient));
        let recipient = status.final_recipient.as_deref().unwrap_or_default();
        if is_proven(recipient) {
            if status.is_for_good() {
                let said = [status.status(), status.diagnostic.as_deref().unwrap_or_default()];
                notices.extend(Notice::all([recipient], Reason::Bounce, &said)?);
            }
        } else if !status.original_recipient.as_deref().is_some_and(is_proven) {
            return Err(Refusal::Unproven(
                "it did not come to the return address of the recipient that it names",
            ));
        }
    }
    Ok(notices)
}

/// The recipients' groups of fields; the first group is about the mail. A field goes on in lines that begin with a blank.
fn statuses(text: &str) -> Option<Vec<Report>> {
    let mut groups: Vec<Vec<String>> = vec![Vec::new()];
    for line in text.lines() {
        let group = groups.last_mut()?;
        if line.trim().is_empty() {
            if !group.is_empty() {
                groups.push(Vec::new());
            }
        } else if line.starts_with([' ', '\t']) {
            group.last_mut()?.push_str(line);
        } else {
            group.push(line.to_owned());
        }
        if groups.len() > MOST_RECIPIENTS + 2 {
            return None;
        }
    }
    let groups = groups.iter().skip(1).filter(|group| !group.is_empty());
    let reports = groups.map(|group| {
        let mut report = Report::default();
        group.iter().try_for_each(|field| report.set(field))?;
        let is_whole = [&report.action, &report.final_recipient]
            .iter()
            .all(|field| field.as_deref().is_some_and(|text| !text.is_empty()));
        Some(report).filter(|_| is_whole)
    });
    let reports: Vec<_> = reports.collect::<Option<_>>()?;
    Some(reports).filter(|reports| (1..=MOST_RECIPIENTS).contains(&reports.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> ReturnPath {
        ReturnPath::new("bounces@example.org", "0123456789abcdef0123456789abcdef").unwrap()
    }

    /// As postfix writes it.
    fn mail(to: &str, recipient: &str, action: &str, status: &str) -> String {
        format!(
            "Return-Path: <>\r\nReceived: by mx.example.org (Postfix)\r\n\tid 4F2C81; Mon, 23 Nov 2026 12:00:00 +0000 (UTC)\r\nFrom: MAILER-DAEMON@mx.example.org (Mail Delivery System)\r\n\
             Subject: Undelivered Mail Returned to Sender\r\nTo: {to}\r\nAuto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n\
             Content-Type: multipart/report; report-type=delivery-status;\r\n\tboundary=\"4F2C81.1/mx.example.org\"\r\n\r\n\
             This is a MIME-encapsulated message.\r\n\r\n--4F2C81.1/mx.example.org\r\nContent-Description: Notification\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n\
             I'm sorry to have to inform you that your message could not be delivered to <other@x.test>.\r\n\r\n\
             --4F2C81.1/mx.example.org\r\nContent-Description: Delivery report\r\nContent-Type: message/delivery-status\r\n\r\n\
             Reporting-MTA: dns; mx.example.org\r\nX-Postfix-Queue-ID: 4F2C81\r\nArrival-Date: Mon, 23 Nov 2026 12:00:00 +0000 (UTC)\r\n\r\n\
             Final-Recipient: rfc822; {recipient}\r\nOriginal-Recipient: rfc822;{recipient}\r\nAction: {action}\r\nStatus: {status}\r\n\
             Remote-MTA: dns; mx.x.test\r\nDiagnostic-Code: smtp; 550 5.1.1 <{recipient}>: Recipient address rejected:\r\n    User unknown in\r\n    table\r\n\r\n\
             --4F2C81.1/mx.example.org\r\nContent-Description: Undelivered Message\r\nContent-Type: message/rfc822\r\n\r\nFrom: us@example.org\r\nTo: {recipient}\r\n\r\nhello\r\n\r\n--4F2C81.1/mx.example.org--\r\n"
        )
    }

    fn suppressed(mail: &str) -> Result<Vec<Vec<String>>, Refusal> {
        Ok(read(mail.as_bytes(), &path())?.into_iter().map(|notice| notice.addresses).collect())
    }

    #[test]
    fn what_is_for_good_suppresses_the_recipient_that_the_return_address_proves() {
        let to = path().of("ada@x.test");
        let notices = read(mail(&to, "Ada@x.test", "failed", "5.1.1").as_bytes(), &path()).ok().unwrap();
        let [notice] = &notices[..] else { panic!("one recipient") };
        assert!(notice.addresses == ["Ada@x.test"] && notice.reason == Reason::Bounce);
        assert!(
            notice.detail.starts_with("5.1.1: smtp; 550 5.1.1 <Ada@x.test>: Recipient address rejected:"),
            "{}",
            notice.detail
        );
        assert!(notice.detail.ends_with("User unknown in    table"), "{}", notice.detail);
        // Line ends as a pipe may have them, other forms of the address.
        let original = mail(&to, "ada@x.test", "failed", "5.1.1");
        for mail in [
            original.replace("\r\n", "\n"),
            original.replace(&to, &format!("Sender <{}>", to.to_uppercase())),
            original.replace("To: bounces", "X-Original-To: bounces"),
            original.replace("message/delivery-status", "Message/Global-Delivery-Status"),
            original.replace("5.1.1\r\n", "5.1.6 (moved)\r\n").replace("failed", "Failed"),
        ] {
            assert_eq!(suppressed(&mail).unwrap(), [["ada@x.test"]], "{mail}");
        }
    }

    #[test]
    fn what_is_for_now_or_about_the_mail_suppresses_nobody() {
        let to = path().of("ada@x.test");
        for (action, status) in [
            ("delayed", "4.4.1"),
            ("delayed", "5.1.1"),
            ("failed", "4.4.7"),
            ("failed", "5.2.2"),
            ("failed", "5.7.1"),
            ("failed", "5.1.8"),
            ("failed", "5.1.0"),
            ("failed", "5.1.5"),
            ("failed", "5.2.1"),
            ("failed", "5.0.0"),
            ("failed", ""),
            ("failed", "5"),
            ("failed", "55.1.1"),
            ("delivered", "2.1.5"),
            ("relayed", "5.1.1"),
            ("expanded", "5.1.1"),
        ] {
            assert_eq!(
                suppressed(&mail(&to, "ada@x.test", action, status)),
                Ok(Vec::new()),
                "{action} {status}"
            );
        }
        // Passed on to a mailbox that is gone: the person may have others.
        let passed_on = mail(&to, "ada@x.test", "failed", "5.1.1")
            .replace("Final-Recipient: rfc822; ada@x.test", "Final-Recipient: rfc822; a.l@elsewhere.test");
        assert_eq!(suppressed(&passed_on), Ok(Vec::new()));
    }

    #[test]
    fn what_did_not_come_to_the_recipients_return_address_is_refused() {
        let other = ReturnPath::new("bounces@example.org", "another secret of thirty-two bytes..").unwrap();
        for to in [
            "us@example.org".to_owned(),
            "bounces@example.org".to_owned(),
            path().of("bob@x.test"),
            other.of("ada@x.test"),
            path().of("ada@x.test").replace("example.org", "evil.test"),
            format!("bounces+{}@example.org", "0".repeat(32)),
            String::new(),
        ] {
            for action in ["failed", "delayed"] {
                let refusal = suppressed(&mail(&to, "ada@x.test", action, "5.1.1")).unwrap_err();
                assert!(matches!(refusal, Refusal::Unproven(_)), "{to}: {refusal:?}");
            }
        }
        // One recipient is proven, another one is not; and an address in the text proves nothing.
        let to = path().of("ada@x.test");
        let two = mail(&to, "ada@x.test", "failed", "5.1.1").replace(
            "Final-Recipient: rfc822; ada",
            "Final-Recipient: rfc822; bob@x.test\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\nFinal-Recipient: rfc822; ada",
        );
        assert!(matches!(suppressed(&two), Err(Refusal::Unproven(_))));
        let quoted = mail("us@example.org", "ada@x.test", "failed", "5.1.1")
            .replace("I'm sorry", &format!("To: {to}\r\n"));
        assert!(matches!(suppressed(&quoted), Err(Refusal::Unproven(_))));
    }

    #[test]
    fn what_is_no_notification_is_refused() {
        let to = path().of("ada@x.test");
        let good = mail(&to, "ada@x.test", "failed", "5.1.1");
        let nested = format!(
            "To: {to}\r\n{}",
            "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\n".repeat(5_000)
        );
        let many = good.replace(
            "Remote-MTA: dns; mx.x.test\r\n",
            &"\r\nFinal-Recipient: rfc822; ada@x.test\r\nAction: failed\r\n".repeat(1_000),
        );
        for mail in [
            String::new(),
            "\0".repeat(1_000),
            format!("To: {to}\r\n\r\nI am out of office until Monday."),
            good.replace("message/delivery-status", "text/plain"),
            good.replace(
                "Final-Recipient: rfc822; ada@x.test\r\nOriginal-Recipient: rfc822;ada@x.test\r\n",
                "",
            ),
            good.replace("rfc822; ada@x.test", "ada@x.test"),
            good.replace("Action: failed\r\n", ""),
            good[..good.find("Final-Recipient").unwrap()].to_owned(),
            nested,
            many,
        ] {
            assert!(suppressed(&mail).is_err(), "{mail:.300}");
        }
        // Fields that contradict each other, though only one of them is relied upon.
        let and = |field: &str| good.replace("Status: 5.1.1\r\n", &format!("Status: 5.1.1\r\n{field}\r\n"));
        let others = ["Status: 4.2.2", "Action: delayed", "Final-Recipient: rfc822; bob@x.test"];
        for field in others {
            assert!(suppressed(&and(field)).is_err(), "{field}");
        }
        assert!(suppressed(&and("x--4F2C81.1/mx.example.org")).is_err(), "no boundary stands within a line");
        // A line without anything in it ends a group, whatever the other lines end with.
        let two = good
            .replace("\r\n", "\n")
            .replace("Status: 5.1.1", "\r\nFinal-Recipient: rfc822; ada@x.test\nStatus: 5.1.1");
        assert!(suppressed(&two).is_err());
        assert!(
            suppressed(good.split_once("1\r\nRemote").unwrap().0).is_err(),
            "5.1. may be the beginning of anything"
        );
        // Cut off anywhere, it suppresses nobody else.
        for end in 0..good.len() {
            if let Ok(found) = suppressed(&good[..end]) {
                assert!(found.is_empty() || found == [["ada@x.test"]], "{end}");
            }
        }
    }
}
