//! `action,email,username,token,code` for every token of the batch, without quotes: what readers of
//! the C collector expect. A field that contains a comma or ends a line would be read as further
//! fields or lines: the user who chose it could have mails sent to any recipient. Such rows are
//! rejected, not altered: a changed address is another address.

use mailroom_verifier_core::SignedToken;

use crate::line::sign::{InvalidRow, text};
use crate::queue::Token;

/// Appends one token, with a comma before it if it is not the first.
/// Nothing is appended in case of an error.
pub(super) fn append(
    line: &mut Vec<u8>,
    token: &Token,
    signed: Option<&SignedToken>,
) -> Result<(), InvalidRow> {
    let code = token.code.as_deref().unwrap_or_default();
    check("email", &token.email)?;
    check("login", &token.login)?;
    // The signer has checked that of an action which has one. In an old schema an activation has
    // any or none.
    if token.action.digits() == 0 {
        check("code", code)?;
    }
    if !line.is_empty() {
        line.push(b',');
    }
    line.extend_from_slice(token.action.number().to_string().as_bytes());
    let signed = signed.map_or("", SignedToken::as_str);
    for field in [&token.email, &token.login, signed.as_bytes(), code] {
        line.push(b',');
        line.extend_from_slice(field);
    }
    Ok(())
}

/// Rejects what a reader could take for the end of a field or of a line, as Python's `splitlines`
/// does with several control characters, U+2028 and U+2029. A field that is not UTF-8 makes many
/// readers reject the whole line.
fn check(name: &'static str, field: &[u8]) -> Result<(), InvalidRow> {
    let contains = text(name, field)?.chars().find_map(|character| match character {
        ',' => Some("a comma"),
        '"' => Some("a quote"),
        '\r' => Some("a carriage return"),
        '\n' => Some("a line feed"),
        '\u{2028}' | '\u{2029}' => Some("a line separator"),
        _ if character.is_control() => Some("a control character"),
        _ => None,
    });
    contains.map_or(Ok(()), |contains| Err(InvalidRow::Field { name, contains }))
}
