//! One JSON object a batch: `{"v":1,"batch":"…","items":[{"id":…,"attempt":1,…}]}`.
//!
//! A line is ASCII: all other characters, and control characters, are escaped. So no text of a row can end a line,
//! whichever characters a reader takes for line ends, and no reader depends on its locale.

use std::io;

use mailroom_verifier_core::SignedToken;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::line::sign::InvalidRow;
use crate::queue::{BatchId, Token};

/// A token as the reader gets it. The order of the fields is part of the format.
#[derive(Serialize)]
struct Item<'a> {
    id: i64,
    attempt: u32,
    action: &'static str,
    path: &'static str,
    email: &'a str,
    login: &'a str,
    token: &'a str,
    code: &'a str,
    expires_at: i64,
}

/// Begins the line of a batch.
pub(super) fn begin(line: &mut Vec<u8>, batch: BatchId) {
    line.extend_from_slice(format!(r#"{{"v":1,"batch":"{batch}","items":["#).as_bytes());
}

/// Appends one token, with a comma before it if it is not the first. Nothing is appended in case of an error.
pub(super) fn append(
    line: &mut Vec<u8>,
    is_first: bool,
    token: &Token,
    signed: &SignedToken,
) -> Result<(), InvalidRow> {
    let item = Item {
        id: token.id,
        attempt: token.attempt,
        action: token.action.name(),
        path: token.action.path(),
        email: text("email", &token.email)?,
        login: text("login", &token.login)?,
        token: signed.as_str(),
        code: text("code", token.code.as_deref().unwrap_or_default())?,
        expires_at: token.expires_at,
    };
    if !is_first {
        line.push(b',');
    }
    item.serialize(&mut Serializer::with_formatter(line, Ascii)).expect("memory takes all that is written");
    Ok(())
}

/// Ends the line.
pub(super) fn end(line: &mut Vec<u8>) {
    line.extend_from_slice(b"]}\n");
}

fn text<'a>(name: &'static str, bytes: &'a [u8]) -> Result<&'a str, InvalidRow> {
    str::from_utf8(bytes).map_err(|_| InvalidRow::Field { name, contains: "bytes that are not UTF-8" })
}

/// Compact JSON that escapes everything but printable ASCII.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return writer.write_all(fragment.as_bytes());
        }
        for character in fragment.chars() {
            if let plain @ ' '..='~' = character {
                write!(writer, "{plain}")?;
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{sample, sample_signature};
    use mailroom_verifier_core::Action;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn token(email: &[u8], login: &[u8], code: Option<&[u8]>) -> Token {
        let code = code.map(<[u8]>::to_vec);
        Token { attempt: 2, email: email.to_vec(), login: login.to_vec(), code, ..sample(7) }
    }

    fn line(tokens: &[Token]) -> Result<String, InvalidRow> {
        let mut line = Vec::new();
        begin(&mut line, BatchId::from(0xabc));
        for (number, token) in tokens.iter().enumerate() {
            append(&mut line, number == 0, token, &sample_signature())?;
        }
        end(&mut line);
        Ok(String::from_utf8(line).unwrap())
    }

    #[test]
    fn a_line_has_these_fields_in_this_order_and_nothing_else() {
        let recovery =
            Token { action: Action::Recover, id: 8, attempt: 1, ..token(b"b@x.test", b"b", Some(b"01234")) };
        assert_eq!(
            line(&[token(b"a@x.test", b"a", None), recovery]).unwrap(),
            format!(
                concat!(
                    r#"{{"v":1,"batch":"00000000-0000-0000-0000-000000000abc","items":["#,
                    r#"{{"id":7,"attempt":2,"action":"activate","path":"/activate","email":"a@x.test","login":"a","#,
                    r#""token":"{token}","code":"","expires_at":1800000900}},"#,
                    r#"{{"id":8,"attempt":1,"action":"recover","path":"/recover","email":"b@x.test","login":"b","#,
                    r#""token":"{token}","code":"01234","expires_at":1800000900}}]}}"#,
                    "\n"
                ),
                token = sample_signature()
            )
        );
    }

    #[test]
    fn no_text_can_end_a_line_or_a_string() {
        let login = "a\",\n\r\0\t\\\u{7f}\u{85}\u{2028}ü😀";
        let line = line(&[token(b"a@x.test", login.as_bytes(), None)]).unwrap();
        assert!(line.ends_with("]}\n"));
        assert!(line.trim_end().bytes().all(|byte| matches!(byte, b' '..=b'~')), "{line}");
        assert!(
            line.contains(r#""login":"a\",\n\r\u0000\t\\\u007f\u0085\u2028\u00fc\ud83d\ude00""#),
            "{line}"
        );
    }

    #[test]
    fn a_text_that_is_not_utf_8_is_rejected_and_leaves_nothing_behind() {
        let rejected = |name| Err(InvalidRow::Field { name, contains: "bytes that are not UTF-8" });
        assert_eq!(line(&[token(b"a\xff", b"x", None)]), rejected("email"));
        assert_eq!(line(&[token(b"a", b"\xc3", None)]), rejected("login"));
        assert_eq!(line(&[token(b"a", b"x", Some(b"\xed\xa0\x80"))]), rejected("code"));
        let mut bytes = Vec::new();
        append(&mut bytes, false, &token(b"a\xff", b"x", None), &sample_signature()).unwrap_err();
        assert!(bytes.is_empty());
    }

    proptest! {
        #[test]
        fn every_text_reads_back_as_it_was(texts in prop::collection::vec((any::<String>(), any::<String>()), 1..4)) {
            let tokens: Vec<_> =
                texts.iter().map(|(email, login)| token(email.as_bytes(), login.as_bytes(), None)).collect();
            let line = line(&tokens).unwrap();
            prop_assert_eq!(line.find('\n'), Some(line.len() - 1));
            let read: Value = serde_json::from_str(&line).unwrap();
            for (item, (email, login)) in read["items"].as_array().unwrap().iter().zip(&texts) {
                prop_assert_eq!(&item["email"], &json!(email));
                prop_assert_eq!(&item["login"], &json!(login));
            }
        }
    }
}
