//! What the last server of several said: others pass its answer on behind words of their own, which
//! they write for any refusal.

use super::codes;

/// An answer without the words of servers that passed it on.
pub(super) struct Innermost<'a> {
    pub(super) said: &'a str,
    /// Whether it is a part of the whole answer. Then silence says nothing: the words around it
    /// stand for all refusals.
    pub(super) is_quoted: bool,
}

/// What Postfix writes before the outcome of its own probe of an address; others, before an answer.
const BEFORE: [&str; 6] = [
    "undeliverable address:",
    "unverified address:",
    " said:",
    "response was:",
    "response from the remote server was:",
    " ->",
];

impl<'a> Innermost<'a> {
    pub(super) fn of(answer: &'a str) -> Self {
        let mut said = answer.trim();
        let lower = said.to_ascii_lowercase();
        let ends = BEFORE.iter().filter_map(|before| Some(lower.rfind(before)? + before.len()));
        if let Some(end) = ends.max() {
            said = said[end..].trim();
        }
        said = of_ironport(said).unwrap_or(said);
        said = behind_recipient(said).unwrap_or(said);
        said = of_exim(said).unwrap_or(said);
        said = said.split_once(" Giving up on ").map_or(said, |(said, _)| said);
        Self { said, is_quoted: said.len() < answer.trim().len() }
    }
}

/// `5.1.0 - Unknown address error 550-'Message refused' (delivery attempts: 0)`, with the code
/// before the quotation, and `5.1.0 - Unknown address error ('550', ['Message refused']) []`.
fn of_ironport(said: &str) -> Option<&str> {
    let (code, rest) = said.split_once(" - ")?;
    codes::codes(code).next().filter(|_| !code.contains(char::is_whitespace))?;
    let quotation = rest.find('\'')?;
    let before = rest[..quotation].trim_end_matches(['-', '(']);
    let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    let said = &rest[before.len() - digits..];
    Some(said.split_once("' (delivery attempts").map_or(said, |(said, _)| said))
}

/// `SMTP error from remote mail server after RCPT TO:<ada@x.test>: 550 no such user`, of Exim.
fn behind_recipient(said: &str) -> Option<&str> {
    let at = said.find("after RCPT TO:").or_else(|| said.find("after pipelined RCPT TO:"))?;
    said[at..].split_once(">:").map(|(_, said)| said.trim())
}

/// `host mx.x.test [192.0.2.1]: 550 no such user`.
fn of_exim(said: &str) -> Option<&str> {
    let at = said.rfind("]: ")?;
    let (before, answer) = (&said[..at], &said[at + 3..]);
    let host = before.rfind("host ")?;
    (before[host..].split_whitespace().count() <= 3).then(|| answer.trim())
}
