//! Complaints: reports of people who called a mail unwanted,
//! as their providers pass them on (RFC 5965).

use mail_parser::{Message, PartType};
use mailroom_mail::ReturnPath;

use super::proof::Proof;
use super::{DESTINATIONS, headers, text};
use crate::notice::{Notice, Reason, Refusal};

/// What counts as a complaint of a person: `not-spam` says the opposite, and machines report
/// `auth-failure` and `virus`.
const COMPLAINTS: [&str; 5] = ["abuse", "fraud", "opt-out", "opt-out-list", "other"];

/// The most values of a field that are looked at.
const MAX_VALUES: usize = 16;

/// Reads a complaint. The return address that the mail had proves it: the report names it, or the
/// mail that is sent back.
///
/// Providers often leave the recipient out. Such a report, and one that nothing proves, changes
/// nothing; it is not refused, since the refusal would go to the provider.
pub(super) fn read(
    report: &str,
    message: &Message<'_>,
    return_path: &ReturnPath,
) -> Result<Vec<Notice>, Refusal> {
    let values = |name: &str| -> Vec<String> {
        let mut unfolded: Vec<String> = Vec::new();
        for line in report.lines() {
            match unfolded.last_mut() {
                Some(last) if line.starts_with([' ', '\t']) => last.push_str(line),
                _ => unfolded.push(line.to_owned()),
            }
        }
        let fields = unfolded.iter().filter_map(|line| line.split_once(':'));
        let of_name = fields.filter(|(other, _)| other.trim_end().eq_ignore_ascii_case(name));
        of_name.map(|(_, value)| value.trim().to_owned()).take(MAX_VALUES).collect()
    };
    let kinds = values("Feedback-Type");
    let [kind] = &kinds[..] else { return Ok(Vec::new()) };
    let kind = kind.split([' ', '\t', ';', '(']).next().unwrap_or_default().to_ascii_lowercase();
    if !COMPLAINTS.contains(&kind.as_str()) {
        return Ok(Vec::new());
    }
    // The mail itself, or its headers alone.
    let parsed;
    let mail = message.parts.iter().find_map(|part| match &part.body {
        PartType::Message(mail) => Some(mail),
        _ => None,
    });
    let mail = if let Some(mail) = mail {
        Some(mail)
    } else {
        let part = super::parts_of(message, "rfc822-headers").next();
        parsed = part
            .and_then(|part| mail_parser::MessageParser::default().parse_headers(part.contents()));
        parsed.as_ref()
    };
    let of_mail = |names: &'static [&'static str]| -> Vec<String> {
        let values = mail.into_iter().flat_map(|mail| headers(mail, names));
        values.map(str::to_owned).take(MAX_VALUES).collect()
    };
    let mut senders = values("Original-Mail-From");
    senders.extend(of_mail(&["Return-Path", "X-Original-Mail-From"]));
    senders.extend(headers(message, &DESTINATIONS).map(str::to_owned));
    let proof = Proof::of(return_path, senders.iter().map(String::as_str));
    let mut recipients = values("Original-Rcpt-To");
    recipients.extend(values("Removal-Recipient"));
    recipients.extend(of_mail(&["To", "Delivered-To", "X-Original-To", "Envelope-To"]));
    let Some(address) = recipients.iter().find_map(|recipient| proof.proven(recipient)) else {
        tracing::warn!(
            event = "complaint_unproven",
            provider = "mail",
            "a complaint names no recipient whose return address it has"
        );
        return Ok(Vec::new());
    };
    Notice::all([address.as_str()], Reason::Complaint, &[&text(kind.as_bytes())])
}
