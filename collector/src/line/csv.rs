//! `action,email,username,token,code`, repeated for every token of the batch: the format that readers of the existing
//! collector expect, without quoting and without a header.
//!
//! A field that contains a comma or ends a line would be read as further fields or lines: the user who chose it could have
//! mails sent to any recipient. Such rows are rejected, not altered: a changed address is another address.

use mailroom_verifier_core::{Action, SignedToken};

use crate::line::sign::InvalidRow;
use crate::queue::Token;

/// Appends one token, with a comma before it if it is not the first. Nothing is appended in case of an error.
pub(super) fn append(line: &mut Vec<u8>, token: &Token, signed: &SignedToken) -> Result<(), InvalidRow> {
    let code = token.code.as_deref().unwrap_or_default();
    check("email", &token.email)?;
    check("login", &token.login)?;
    // The signer has checked that of a recovery. That of an activation is not signed, and `#####` or missing in an old
    // schema.
    if token.action == Action::Activate {
        check("code", code)?;
    }
    if !line.is_empty() {
        line.push(b',');
    }
    line.push(b'0' + token.action.number());
    for field in [&token.email, &token.login, signed.as_str().as_bytes(), code] {
        line.push(b',');
        line.extend_from_slice(field);
    }
    Ok(())
}

/// Rejects what a reader could take for the end of a field or of a line, or could not decode.
///
/// That includes all control characters and U+2028 and U+2029, at several of which Python's `splitlines` and other line
/// splitters end a line. A field that is not UTF-8 makes many readers reject the whole line.
fn check(name: &'static str, field: &[u8]) -> Result<(), InvalidRow> {
    let contains = match str::from_utf8(field) {
        Err(_) => Some("bytes that are not UTF-8"),
        Ok(text) => text.chars().find_map(|character| match character {
            ',' => Some("a comma"),
            '"' => Some("a quote"),
            '\r' => Some("a carriage return"),
            '\n' => Some("a line feed"),
            '\u{2028}' | '\u{2029}' => Some("a line separator"),
            _ if character.is_control() => Some("a control character"),
            _ => None,
        }),
    };
    contains.map_or(Ok(()), |contains| Err(InvalidRow::Field { name, contains }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{sample, sample_signature};
    use proptest::prelude::*;

    fn token(email: &[u8], login: &[u8], code: Option<&[u8]>) -> Token {
        let code = code.map(<[u8]>::to_vec);
        Token { email: email.to_vec(), login: login.to_vec(), code, ..sample(1) }
    }

    fn appended(email: &[u8], login: &[u8], code: Option<&[u8]>) -> Result<String, InvalidRow> {
        let mut line = Vec::new();
        append(&mut line, &token(email, login, code), &sample_signature())?;
        Ok(String::from_utf8(line).unwrap())
    }

    #[test]
    fn ordinary_fields_are_printed_as_they_are() {
        let signature = sample_signature();
        for code in ["24735", "#####", "1234", ""] {
            let line = appended("jörg+x@bücher.test".as_bytes(), b"o'neill; -- ", Some(code.as_bytes()));
            assert_eq!(line.unwrap(), format!("1,jörg+x@bücher.test,o'neill; -- ,{signature},{code}"));
        }
        assert_eq!(appended(b"a@b.test", b"", None).unwrap(), format!("1,a@b.test,,{signature},"));
    }

    #[test]
    fn a_field_that_could_forge_a_recipient_is_rejected() {
        for (bytes, contains) in [
            (&b"a,b"[..], "a comma"),
            (b"a\"b", "a quote"),
            (b"a\rb", "a carriage return"),
            (b"a\nb", "a line feed"),
            (b"a\tb", "a control character"),
            (b"a\x0bb", "a control character"),
            (b"a\x1cb", "a control character"),
            (b"a\x7fb", "a control character"),
            ("a\u{85}b".as_bytes(), "a control character"),
            ("a\u{2028}b".as_bytes(), "a line separator"),
            (b"a\xffb", "bytes that are not UTF-8"),
        ] {
            let rejected = |name| Err(InvalidRow::Field { name, contains });
            assert_eq!(appended(bytes, b"x", None), rejected("email"));
            assert_eq!(appended(b"x", bytes, None), rejected("login"));
            assert_eq!(appended(b"x", b"y", Some(bytes)), rejected("code"));
        }
    }

    proptest! {
        #[test]
        fn whatever_is_printed_reads_back_as_five_fields_a_token(
            rows in prop::collection::vec((".{0,20}", ".{0,20}", ".{0,5}"), 0..5)
        ) {
            let mut line = Vec::new();
            let mut expected: Vec<Vec<u8>> = Vec::new();
            for (email, login, code) in &rows {
                let token = token(email.as_bytes(), login.as_bytes(), Some(code.as_bytes()));
                if append(&mut line, &token, &sample_signature()).is_ok() {
                    let link = sample_signature().to_string().into_bytes();
                    expected.extend([b"1".to_vec(), token.email, token.login, link, code.clone().into_bytes()]);
                }
            }
            let fields: Vec<_> = line.split(|byte| *byte == b',').map(<[u8]>::to_vec).collect();
            prop_assert_eq!(fields, if expected.is_empty() { vec![Vec::new()] } else { expected });
            prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r') && !line.contains(&b'"'));
        }
    }
}
