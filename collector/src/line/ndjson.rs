//! One JSON object a batch: `{"v":1,"batch":"…","items":[{"id":…,"attempt":1,…}]}`. A line is
//! ASCII: all other characters, and control characters, are escaped. So no text of a row can end a
//! line, whichever characters a reader takes for line ends, and no reader depends on its locale.

use std::io;

use mailroom_verifier_core::{ConsumedId, SignedToken};
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;
use serde_json::value::RawValue;

use crate::line::payload;
use crate::line::sign::{InvalidRow, secret, text};
use crate::queue::{BatchId, Token, Traceparent};

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
    /// The idempotency key, the same at every attempt, also after a rotation of the signing key:
    /// the consumed-token id.
    key: String,
    /// How many earlier attempts ended in doubt.
    #[serde(skip_serializing_if = "Option::is_none")]
    doubts: Option<u32>,
    /// Which mails it goes before: a sender with a queue of its own has to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
}

/// What the parser of answers understands beyond what every collector does.
const KNOWS: &str = concat!(
    r#""knows":["in_doubt","working","exact","receipts","unknown_address","untried","slow","#,
    r#""handed_over"],"#,
);

pub(super) fn begin(line: &mut Vec<u8>, batch: BatchId, is_for_sender: bool) {
    let knows = if is_for_sender { KNOWS } else { "" };
    line.extend_from_slice(format!(r#"{{"v":1,"batch":"{batch}",{knows}"items":["#).as_bytes());
}

/// Appends one token, with a comma before it if it is not the first.
/// Nothing is appended in case of an error.
pub(super) fn append<'a>(
    line: &mut Vec<u8>,
    is_first: bool,
    is_for_sender: bool,
    token: &'a Token,
    signed: Option<&SignedToken>,
) -> Result<(), InvalidRow> {
    let json = |bytes: &'a [u8]| {
        let written = text("payload", bytes)?;
        payload::check(written)
            .map_err(|contains| InvalidRow::Field { name: "payload", contains })?;
        let json = serde_json::from_str(written);
        json.map_err(|_| InvalidRow::Field { name: "payload", contains: payload::NOT_JSON })
    };
    let item = Item {
        id: token.id,
        attempt: token.attempt,
        action: token.action.name(),
        path: token.action.path(),
        email: text("email", &token.email)?,
        login: text("login", &token.login)?,
        token: signed.map_or("", SignedToken::as_str),
        code: text("code", token.code.as_deref().unwrap_or_default())?,
        expires_at: token.expires_at,
        key: ConsumedId::of(&secret(token)?).as_bytes().map(|byte| format!("{byte:02x}")).concat(),
        doubts: Some(token.doubts).filter(|doubts| is_for_sender && *doubts > 0),
        priority: token.priority.filter(|_| is_for_sender),
        language: token.language.as_deref(),
        payload: token.payload.as_deref().map(json).transpose()?,
        traceparent: token.traceparent.as_ref().map(Traceparent::as_str),
    };
    if !is_first {
        line.push(b',');
    }
    item.serialize(&mut Serializer::with_formatter(line, Ascii))
        .expect("memory takes all that is written");
    Ok(())
}

pub(super) fn end(line: &mut Vec<u8>) {
    line.extend_from_slice(b"]}\n");
}

/// JSON that escapes everything but printable ASCII.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Copies runs of printable ASCII, each with the character that ends it. Almost every text
        // is a single run.
        for run in fragment.split_inclusive(|character| !matches!(character, ' '..='~')) {
            let plain = run.trim_end_matches(|character| !matches!(character, ' '..='~'));
            writer.write_all(plain.as_bytes())?;
            for unit in run[plain.len()..].encode_utf16() {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }

    /// PostgreSQL writes a `jsonb` on one line, so that other characters than printable ASCII are
    /// in strings only.
    fn write_raw_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        self.write_string_fragment(writer, fragment)
    }
}
