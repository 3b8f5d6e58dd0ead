//! Mails of mail servers: delivery status notifications (RFC 3464), and complaints (RFC 5965).
//!
//! Nobody signs them. What proves one is a return address that only mails to its recipient carried:
//! the one that a notification came to, or the one that a complaint names. A mail that reports
//! nothing, such as a note of absence, is done with:
//! a mail server would send a refusal of it to its author.
//!
//! `mod` → `fields` or `people` (what is reported) → `proof` (of whom) →
//! `mailroom_mail::diagnosis` (whether the address is gone).

mod feedback;
mod fields;
mod people;
mod proof;

use std::borrow::Cow;

use mail_parser::{Message, MessageParser, MessagePart, MimeHeaders as _, PartType};
use mailroom_mail::diagnosis::{Said, Step, is_gone};
use mailroom_mail::{ReturnPath, normal_address};

use crate::notice::{Notice, Reason, Refusal};
use fields::Report;
use proof::Proof;

/// The largest mail, in bytes. What is sent back with it is a mail of Mailroom's.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// The most recipients that a notification may be about. Mails have one.
const MAX_RECIPIENTS: usize = 16;

/// The headers by which a mail says where it came to.
const DESTINATIONS: [&str; 5] =
    ["To", "Delivered-To", "X-Original-To", "Envelope-To", "X-Envelope-To"];

const UNPROVEN: Refusal =
    Refusal::Unproven("it did not come to the return address of a recipient that it names");

/// Reads and proves a mail. Of one that reports nothing, or nothing for good, it returns nothing.
///
/// # Errors
/// It is no mail; or it is a notification that is damaged, or that did not come to a return address
/// of mails to a recipient that it names.
pub(crate) fn read(mail: &[u8], return_path: &ReturnPath) -> Result<Vec<Notice>, Refusal> {
    let is_whole = mail.len() <= MAX_BYTES;
    let mail = &mail[..mail.len().min(MAX_BYTES)];
    let message = MessageParser::default().parse(mail).map(Parsed);
    let message = message.filter(|message| !message.0.headers().is_empty());
    let Parsed(message) = &message.ok_or(Refusal::Unreadable("it is no mail"))?;
    let proof = Proof::of(return_path, headers(message, &DESTINATIONS));
    if let Some(complaint) = parts_of(message, "feedback-report").next() {
        return feedback::read(&text_of(complaint), message, return_path);
    }
    let mut reports = Vec::new();
    for part in status_parts(message) {
        if !is_whole {
            return Err(Refusal::Unreadable("it is larger than notifications are"));
        }
        if !ends_with_a_line(part, mail) {
            return Err(Refusal::Unreadable("it is cut off"));
        }
        let more = fields::reports(&text_of(part));
        reports.extend(
            more.ok_or(Refusal::Unreadable("it is about more recipients than a mail has"))?,
        );
    }
    if reports.len() > MAX_RECIPIENTS {
        return Err(Refusal::Unreadable("it is about more recipients than a mail has"));
    }
    if reports.is_empty() {
        return if is_whole { people::read(message, &proof) } else { Ok(Vec::new()) };
    }
    of_reports(&reports, &proof, message)
}

/// A mail that is taken apart in the end, from the outside in: mails within mails could be deeper
/// than the stack.
struct Parsed<'a>(Message<'a>);

impl Drop for Parsed<'_> {
    fn drop(&mut self) {
        let mut parts = std::mem::take(&mut self.0.parts);
        while let Some(part) = parts.pop() {
            if let PartType::Message(mut inner) = part.body {
                parts.append(&mut inner.parts);
            }
        }
    }
}

fn of_reports(
    reports: &[Report],
    proof: &Proof<'_>,
    message: &Message<'_>,
) -> Result<Vec<Notice>, Refusal> {
    if proof.is_empty() {
        return Err(Refusal::Unproven("it did not come to a return address of this configuration"));
    }
    let whole = text(message.raw_message()).to_ascii_lowercase();
    let step = step_of(message);
    let mut notices = Vec::new();
    let mut is_proven = false;
    // A recipient of whom a notification says different things is not known to be gone.
    let mut contradicted = Vec::new();
    for report in reports {
        let Some(address) = report.final_recipient().and_then(|recipient| proof.proven(recipient))
        else {
            is_proven |= report
                .original_recipient()
                .is_some_and(|recipient| proof.proven(recipient).is_some());
            continue;
        };
        is_proven = true;
        let mut answer = report.answer();
        if answer.is_empty() {
            // OpenSMTPD, Exim and others write it for people alone.
            answer = people::said_of(message, &address).unwrap_or_default();
        }
        let is_passed_on =
            report.actual_recipient().is_some_and(|actual| is_elsewhere(actual, &address));
        let sender = proof.sender_to(&address);
        let said = Said {
            status: report.status(),
            answer: &answer,
            recipient: &address,
            sender: &sender,
            step,
        };
        if report.has_failed() && !is_passed_on && is_gone(&said) {
            let said = [report.status(), answer.as_str()];
            notices.extend(Notice::all([address.as_str()], Reason::Bounce, &said)?);
        } else {
            contradicted.extend(normal_address(&address));
        }
    }
    notices.retain(|notice| !contradicted.contains(&notice.addresses[0]));
    // It may be about a mailbox that the mail was passed on to: then the mail that is sent back
    // names the recipient.
    if is_proven || proof.is_of_somebody_in(&whole) { Ok(notices) } else { Err(UNPROVEN) }
}

/// The step that the texts of a notification name. The mail that is sent back is none of them.
fn step_of(message: &Message<'_>) -> Step {
    let is_text =
        |part: &&MessagePart<'_>| matches!(part.body, PartType::Text(_) | PartType::Binary(_));
    let steps = message.parts.iter().filter(is_text).map(|part| Step::of(&text_of(part)));
    steps.max().unwrap_or(Step::Recipient)
}

/// Whether a server passed the mail on to a program, or to a mailbox of another name.
fn is_elsewhere(actual: &str, address: &str) -> bool {
    let Some((_, actual)) = actual.split_once(';') else { return false };
    let actual = actual.trim().trim_matches(['<', '>']);
    let Some((local, domain)) = actual.rsplit_once('@') else { return true };
    let Some((known, of)) = address.rsplit_once('@') else { return true };
    let domain = domain.to_ascii_lowercase();
    let of = of.to_ascii_lowercase();
    let is_within = |one: &str, other: &str| {
        one.strip_suffix(other).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    !local.eq_ignore_ascii_case(known) || !is_within(&domain, &of) && !is_within(&of, &domain)
}

/// The parts that are reports by their type, or else by what is in them:
/// some gateways change the type.
fn status_parts<'a>(message: &'a Message<'a>) -> Vec<&'a MessagePart<'a>> {
    let by_type = ["delivery-status", "global-delivery-status", "x-delivery-status"];
    let parts: Vec<_> = by_type.iter().flat_map(|subtype| parts_of(message, subtype)).collect();
    if parts
        .iter()
        .any(|part| fields::reports(&text_of(part)).is_none_or(|reports| !reports.is_empty()))
    {
        return parts;
    }
    let is_leaf =
        |part: &&MessagePart<'_>| matches!(part.body, PartType::Text(_) | PartType::Binary(_));
    message.parts.iter().filter(is_leaf).filter(|part| fields::is_report(&text_of(part))).collect()
}

fn parts_of<'a>(
    message: &'a Message<'a>,
    subtype: &str,
) -> impl Iterator<Item = &'a MessagePart<'a>> {
    message.parts.iter().filter(move |part| {
        ["message", "text", "application"].iter().any(|kind| part.is_content_type(kind, subtype))
    })
}

/// Whether a part ends at the end of a line. The parser also ends parts within a line, and the rest
/// of a line that is cut off may mean something else.
fn ends_with_a_line(part: &MessagePart<'_>, mail: &[u8]) -> bool {
    mail.split_at_checked(part.raw_end_offset() as usize).is_some_and(|(before, after)| {
        before.ends_with(b"\n") || after.starts_with(b"\n") || after.starts_with(b"\r\n")
    })
}

/// The values of headers of a mail, as they stand there.
fn headers<'a>(message: &'a Message<'a>, names: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let is_wanted = |name: &str| names.iter().any(|other| other.eq_ignore_ascii_case(name));
    message.headers_raw().filter(move |(name, _)| is_wanted(name)).map(|(_, value)| value)
}

fn text_of<'a>(part: &'a MessagePart<'a>) -> Cow<'a, str> {
    text(part.contents())
}

/// A text in whatever encoding: what counts in it is ASCII.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod shapes_tests;
#[cfg(test)]
mod tests;
