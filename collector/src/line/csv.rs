//! `action,email,username,token,code`, repeated for every token of the batch: the form that readers of the existing
//! collector expect, without quoting and without a header.
//!
//! Nothing in a line is quoted, so a field that contains a comma or ends a line would be read as further fields or
//! further lines: whoever chose it could have mails sent to recipients of their choice. Such rows are passed, not
//! altered: an address that was changed is another address.

use mailroom_verifier_core::{Action, SignedToken};

use crate::queue::Token;
use crate::signer::Unfit;

/// Appends one token, with a comma before it if it is not the first.
///
/// # Errors
/// [`Unfit::Field`]; nothing was appended then.
pub(super) fn append(line: &mut Vec<u8>, token: &Token, signed: &SignedToken) -> Result<(), Unfit> {
    let code = token.code.as_deref().unwrap_or_default();
    check("email", &token.email)?;
    check("login", &token.login)?;
    // The code of a recovery is digits by now. That of an activation is printed for the reader alone, signed by
    // nobody, and in an old schema may be `#####` or missing.
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

/// Refuses what a reader could take for the end of a field or of a line, or could not decode.
///
/// Besides comma, quote, carriage return and line feed these are all other control characters and the separators
/// U+2028 and U+2029: much used line splitters, Python's `splitlines` among them, end a line at several of them, and
/// no mail address has one. A field that is not UTF-8 makes many readers reject the whole line.
fn check(name: &'static str, field: &[u8]) -> Result<(), Unfit> {
    let unfit = |contains| Err(Unfit::Field { name, contains });
    let Ok(text) = str::from_utf8(field) else { return unfit("bytes that are not UTF-8") };
    for character in text.chars() {
        match character {
            ',' => return unfit("a comma"),
            '"' => return unfit("a quote"),
            '\r' => return unfit("a carriage return"),
            '\n' => return unfit("a line feed"),
            '\u{2028}' | '\u{2029}' => return unfit("a line separator"),
            _ if character.is_control() => return unfit("a control character"),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailroom_verifier_core::{Secret, SharedKey, v1};
    use proptest::prelude::*;

    fn token(email: &[u8], login: &[u8], code: Option<&[u8]>) -> Token {
        Token {
            id: 1,
            attempt: 1,
            action: Action::Activate,
            email: email.to_vec(),
            login: login.to_vec(),
            secret: vec![0; 32],
            code: code.map(<[u8]>::to_vec),
            expires_at: 0,
        }
    }

    fn signed() -> SignedToken {
        v1::sign_activation(&SharedKey::from(&[0; 32]), &Secret::from([0; 32]))
    }

    fn appended(email: &[u8], login: &[u8], code: Option<&[u8]>) -> Result<String, Unfit> {
        let mut line = Vec::new();
        append(&mut line, &token(email, login, code), &signed())?;
        Ok(String::from_utf8(line).unwrap())
    }

    #[test]
    fn ordinary_fields_are_printed_as_they_are() {
        let signature = signed();
        for code in ["24735", "#####", "1234", ""] {
            let line = appended("jörg+x@bücher.test".as_bytes(), b"o'neill; -- ", Some(code.as_bytes()));
            assert_eq!(line.unwrap(), format!("1,jörg+x@bücher.test,o'neill; -- ,{signature},{code}"));
        }
        assert_eq!(appended(b"a@b.test", b"", None).unwrap(), format!("1,a@b.test,,{signature},"));
    }

    #[test]
    fn a_field_that_could_forge_a_recipient_is_refused() {
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
            let refused = |name| Err(Unfit::Field { name, contains });
            assert_eq!(appended(bytes, b"x", None), refused("email"));
            assert_eq!(appended(b"x", bytes, None), refused("login"));
            assert_eq!(appended(b"x", b"y", Some(bytes)), refused("code"));
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
                if append(&mut line, &token, &signed()).is_ok() {
                    let link = signed().to_string().into_bytes();
                    expected.extend([b"1".to_vec(), token.email, token.login, link, code.clone().into_bytes()]);
                }
            }
            let fields: Vec<_> = line.split(|byte| *byte == b',').map(<[u8]>::to_vec).collect();
            prop_assert_eq!(fields, if expected.is_empty() { vec![Vec::new()] } else { expected });
            prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r') && !line.contains(&b'"'));
        }
    }
}
