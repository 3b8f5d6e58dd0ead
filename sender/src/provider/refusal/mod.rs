//! Whose fault a refusal is: the recipient's, the mail's, or ours.
//!
//! One table decides for mail servers and HTTP APIs alike (`table`): the step at which the refusal
//! came, its code, its enhanced code and, where these are silent, known words. What the table
//! cannot place is left to the guard, which compares refusals of several recipients.

mod known;
pub(super) mod table;
mod words;

use std::time::Duration;

use mailroom_mail::diagnosis;

use super::{About, Refusal, Suspicion, Verdict};
use table::{Codes, ROWS, Row};
pub(crate) use words::signature;

/// When a refusal came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Greeting, EHLO, STARTTLS.
    Hello,
    /// AUTH.
    Login,
    /// MAIL.
    Sender,
    /// MAIL with the parameter SMTPUTF8, which few mails have.
    SenderUtf8,
    /// RCPT.
    Recipient,
    /// DATA.
    Data,
    /// The content and its end.
    Content,
    /// A request to an HTTP API that has rows of its own.
    Api(Api),
    /// A request to another HTTP API.
    Http,
}

/// An HTTP API that has names for its refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Api {
    pub(super) name: &'static str,
    pub(super) of_one: OfOne,
}

/// Which of an API's refusals about us may be said over some recipients only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfOne {
    /// All but those with these statuses.
    OtherThan(&'static [u16]),
    /// Those of these names.
    Named(&'static [&'static str]),
}

/// What a refusal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The address does not exist: no mail will ever reach it.
    Unknown,
    /// The recipient gets no mail.
    Recipient,
    /// This mail is not taken.
    Mail,
    /// This mail is not taken for now.
    Later,
    /// No mail of ours is taken.
    Ours,
    /// Nothing can be said.
    Unplaced,
}

/// A refusal as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) step: Step,
    /// The code of the reply, or the status of the response.
    pub(crate) code: u16,
    /// The name or number that an HTTP API has for it.
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    /// Whom the mail is to: a stranger's text, which may be repeated in the refusal.
    pub(crate) recipient: &'a str,
    /// Our own address in the envelope; empty if there is none.
    pub(crate) sender: &'a str,
}

/// What a refusal means.
pub(crate) fn judge(said: &Said<'_>) -> Meaning {
    let text = words::simplify(said.text, said.recipient);
    let code = words::enhanced_code(said.text);
    let enhanced = code.map(|(_, subject, detail)| (subject, detail));
    let names_us = words::names_us(said.text, said.sender, said.recipient);
    let row =
        ROWS.iter().find(|row| fits(row, said, enhanced, &text) && (names_us || !row.names_us));
    // `550 4.1.1` contradicts itself, and its code alone proves nothing about the address.
    let is_contradictory = code.is_some_and(|(class, ..)| class != said.code / 100);
    match row {
        Some(Row { meaning: Meaning::Unknown, words, .. }) if is_contradictory => {
            if words.is_empty() { Meaning::Unplaced } else { Meaning::Recipient }
        }
        row => row.map_or(Meaning::Unplaced, |row| row.meaning),
    }
}

/// The verdict of a refusal, with a reason for people, and the pause that was asked for.
pub(crate) fn verdict(said: &Said<'_>, after: Option<Duration>, reason: String) -> Verdict {
    let about = match judge(said) {
        Meaning::Later => return Verdict::Retry { after, reason },
        Meaning::Ours => {
            return match suspicion(said) {
                Some(suspicion) => Verdict::Suspected { suspicion, after, reason },
                None => Verdict::Unavailable { after, reason },
            };
        }
        Meaning::Unknown => About::Recipient { is_unknown: says_nobody_is_there(said) },
        Meaning::Recipient => About::Recipient { is_unknown: false },
        Meaning::Mail => About::Content,
        Meaning::Unplaced => About::Unplaced,
    };
    Verdict::Dead(Refusal { reason, about })
}

/// Whether the words of a refusal agree with its code that nobody has the address: then it may be
/// suppressed, as after a report with the same words. Servers have the code for other reasons, too.
fn says_nobody_is_there(said: &Said<'_>) -> bool {
    let answer = format!("{} {}", said.code, said.text);
    said.step == Step::Recipient
        && diagnosis::is_gone(&diagnosis::Said {
            status: "",
            answer: &answer,
            recipient: said.recipient,
            sender: said.sender,
            step: diagnosis::Step::Recipient,
        })
}

/// What the guard is to look at if words about us may be said over some recipients only: by a relay
/// that serves some domains, by a provider that lets new customers write to addresses of their own,
/// by a server that passes on what the recipient's said. Limits that pass are everybody's unless
/// that is disproved: each further trial would be another mail too many.
fn suspicion(said: &Said<'_>) -> Option<Suspicion> {
    let is_of_one = match said.step {
        Step::Hello | Step::Login | Step::Sender => false,
        Step::SenderUtf8 | Step::Recipient | Step::Data | Step::Content | Step::Http => true,
        Step::Api(Api { of_one: OfOne::OtherThan(codes), .. }) => !codes.contains(&said.code),
        Step::Api(Api { of_one: OfOne::Named(names), .. }) => names.contains(&said.name),
    };
    let is_dialogue = matches!(said.step, Step::Recipient | Step::Data | Step::Content);
    let passes = is_dialogue && said.code < 500 && {
        let text = words::simplify(said.text, said.recipient);
        known::LIMITS.list.iter().any(|pattern| words::has(&text, pattern))
    };
    is_of_one.then_some(if passes { Suspicion::Limit } else { Suspicion::Words })
}

fn fits(row: &Row, said: &Said<'_>, enhanced: Option<(u16, u16)>, text: &str) -> bool {
    let is_code = |codes: &Codes| codes.contains(said.code);
    let is_enhanced =
        |pattern: &&str| enhanced.is_some_and(|code| words::is_enhanced(pattern, code));
    let is_step = row.steps.contains(&said.step) || (row.apis && matches!(said.step, Step::Api(_)));
    is_step
        && row.codes.iter().any(is_code)
        && (row.names.is_empty() || row.names.contains(&said.name))
        && (row.enhanced.is_empty()
            || row.enhanced.iter().any(is_enhanced)
            || (enhanced.is_none() && row.enhanced.contains(&"none")))
        && row.words.iter().all(|kind| kind.list.iter().any(|pattern| words::has(text, pattern)))
}

#[cfg(test)]
mod document;
#[cfg(test)]
mod everybodys;
#[cfg(test)]
mod tests;
