//! What notifications say to people: mails of qmail and old ones of Exim have nothing else, and
//! some reports leave the answer out.

use std::borrow::Cow;

use mail_parser::{Message, MessagePart, PartType};
use mailroom_mail::diagnosis::{Said, Step, is_gone};

use super::proof::Proof;
use super::{headers, text_of};
use crate::notice::{Notice, Reason, Refusal};

/// How mails of qmail begin; its author described it as a format.
const QMAIL: &str = "Hi. This is the ";

/// Where Exim names the recipients.
const FAILED: [&str; 1] = ["X-Failed-Recipients"];

/// The most lines that are said of a recipient, and the most lines that are looked at.
const MAX_SAID: usize = 12;
const MAX_LINES: usize = 1_000;

/// The most recipients that are looked at.
const MAX_PEOPLE: usize = 16;

/// Reads a mail without a report; of one that is no notification either, nothing.
pub(super) fn read(message: &Message<'_>, proof: &Proof<'_>) -> Result<Vec<Notice>, Refusal> {
    let Some(text) = first_text(message) else { return Ok(Vec::new()) };
    let mut named: Vec<String> = headers(message, &FAILED)
        .flat_map(|value| value.split(','))
        .take(MAX_PEOPLE)
        .map(str::to_owned)
        .collect();
    if text.trim_start().starts_with(QMAIL) {
        let lines = text.lines().take(MAX_LINES).map(str::trim);
        let recipients = lines.filter_map(|line| line.strip_prefix('<')?.strip_suffix(">:"));
        named.extend(recipients.take(MAX_PEOPLE).map(str::to_owned));
    }
    let mut notices: Vec<Notice> = Vec::new();
    for address in named.iter().filter_map(|recipient| proof.proven(recipient)) {
        let is_known = notices.iter().any(|notice| notice.addresses[0] == address);
        let Some(said) = find(&text, &address).filter(|_| !is_known) else { continue };
        let sender = proof.sender_to(&address);
        let of = Said {
            status: "",
            answer: &said,
            recipient: &address,
            sender: &sender,
            step: Step::Recipient,
        };
        if is_gone(&of) {
            notices.extend(Notice::all([address.as_str()], Reason::Bounce, &[&said])?);
        }
    }
    Ok(notices)
}

/// What the part for people says of a recipient; if nothing, what the next server answered first,
/// which sendmail writes below.
pub(super) fn said_of(message: &Message<'_>, address: &str) -> Option<String> {
    let text = first_text(message)?;
    find(&text, address).filter(|said| !said.is_empty()).or_else(|| refusal_in(&text))
}

/// The first refusal in a transcript of sendmail.
fn refusal_in(transcript: &str) -> Option<String> {
    let answer_in = |line: &str| line.trim_start().strip_prefix("<<< ").map(str::to_owned);
    let mut lines = transcript.lines().take(MAX_LINES).map(answer_in);
    let is_refusal = |line: &String| line.starts_with(['4', '5']);
    let first = lines.find_map(|line| line.filter(is_refusal))?;
    let rest = lines.take(MAX_SAID).map_while(|line| line.filter(is_refusal));
    Some(std::iter::once(first).chain(rest).collect::<Vec<_>>().join(" "))
}

/// The rest of the line that begins with an address, and the lines below it up to an empty one.
fn find(text: &str, address: &str) -> Option<String> {
    let rest_of = |line: &str| {
        let line = line.trim_start().trim_start_matches('<');
        let (start, rest) = line.split_at_checked(address.len())?;
        let rest = start.eq_ignore_ascii_case(address).then_some(rest)?;
        let rest = rest.strip_prefix('>').unwrap_or(rest);
        (rest.is_empty() || rest.starts_with([':', ' ', '\t']))
            .then(|| rest.trim_start_matches(':').trim().to_owned())
    };
    let mut lines = text.lines().take(MAX_LINES);
    let mut said = lines.find_map(rest_of)?;
    for line in
        lines.take(MAX_SAID).take_while(|line| !line.trim().is_empty() && !names_somebody(line))
    {
        said.push(' ');
        said.push_str(line.trim());
    }
    Some(said.trim().to_owned())
}

/// Whether a line begins with what is said of the next recipient.
fn names_somebody(line: &str) -> bool {
    let line = line.trim();
    let (first, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let name = first.trim_end_matches(':');
    let is_address = name.contains('@') && !name.contains("://");
    is_address && (rest.is_empty() || first.ends_with(':'))
}

fn first_text<'a>(message: &'a Message<'a>) -> Option<Cow<'a, str>> {
    let is_text = |part: &&MessagePart<'_>| matches!(part.body, PartType::Text(_));
    message.parts.iter().find(is_text).map(|part| text_of(part))
}
