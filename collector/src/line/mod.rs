//! Batches as lines for the reader.

mod csv;
mod ndjson;
pub mod sign;

use std::fmt;

use mailroom_verifier_core::Signer;

use crate::config::LineFormat;
use crate::line::sign::{InvalidRow, sign};
use crate::queue::Batch;

/// A signed batch, written out.
#[derive(PartialEq, Eq)]
pub struct Line {
    /// The bytes with the line feed at the end; empty if no token of the batch can be sent.
    pub bytes: Vec<u8>,
    /// The ids of the tokens in the line, in their order.
    pub ids: Vec<i64>,
    /// The rows that were left out, by id.
    pub rejected: Vec<(i64, InvalidRow)>,
}

impl Line {
    /// Signs the tokens of `batch` and writes the valid ones, in their order, as one line.
    pub fn of(batch: &Batch, signer: &Signer, format: LineFormat) -> Self {
        let mut bytes = Vec::with_capacity(64 + 320 * batch.tokens.len());
        let (mut ids, mut rejected) = (Vec::with_capacity(batch.tokens.len()), Vec::new());
        if format == LineFormat::Ndjson {
            ndjson::begin(&mut bytes, batch.id);
        }
        for token in &batch.tokens {
            let written = sign(signer, token).and_then(|signed| match format {
                LineFormat::Csv => csv::append(&mut bytes, token, &signed),
                LineFormat::Ndjson => ndjson::append(&mut bytes, ids.is_empty(), token, &signed),
            });
            match written {
                Ok(()) => ids.push(token.id),
                Err(reason) => rejected.push((token.id, reason)),
            }
        }
        match format {
            _ if ids.is_empty() => bytes.clear(),
            LineFormat::Csv => bytes.push(b'\n'),
            LineFormat::Ndjson => ndjson::end(&mut bytes),
        }
        // Lines of thousands of tokens are in memory at a time.
        bytes.shrink_to_fit();
        Self { bytes, ids, rejected }
    }
}

/// Without the bytes, which hold addresses and tokens.
impl fmt::Debug for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Line");
        shown.field("ids", &self.ids).field("rejected", &self.rejected).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) fn sample(id: i64) -> crate::queue::Token {
    crate::queue::Token {
        id,
        attempt: 1,
        action: mailroom_verifier_core::Action::Activate,
        email: b"a@b.test".to_vec(),
        login: b"x".to_vec(),
        secret: vec![9; 32],
        code: Some(b"00420".to_vec()),
        expires_at: 1_800_000_900,
    }
}

#[cfg(test)]
fn sample_signature() -> mailroom_verifier_core::SignedToken {
    sign(&Signer::V1((&[0; 32]).into()), &sample(1)).expect("it is valid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{BatchId, Token};

    fn token(id: i64, login: &str) -> Token {
        Token { login: login.as_bytes().to_vec(), ..sample(id) }
    }

    fn written(tokens: Vec<Token>, format: LineFormat) -> Line {
        let batch = Batch { id: BatchId::from(1), tokens };
        Line::of(&batch, &Signer::V1((&[7; 32]).into()), format)
    }

    #[test]
    fn an_invalid_row_leaves_the_others_as_they_are_and_one_alone_is_no_line() {
        let both = written(vec![token(1, "x"), token(2, "y")], LineFormat::Csv);
        assert_eq!(both.rejected, []);
        let bad = vec![token(4, "x,y"), token(1, "x"), token(5, "x\ny"), token(2, "y"), token(6, "\"")];
        let line = written(bad, LineFormat::Csv);
        assert_eq!((&line.bytes, &line.ids), (&both.bytes, &vec![1, 2]));
        assert_eq!(line.rejected.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [4, 5, 6]);
        assert_eq!(written(vec![token(1, ",")], LineFormat::Csv).bytes, b"");
        let short = Token { secret: vec![9; 31], ..sample(1) };
        assert_eq!(written(vec![short], LineFormat::Ndjson).bytes, b"");
    }

    #[test]
    fn ndjson_carries_what_csv_cannot_and_rejects_what_is_no_text() {
        let bad = Token { email: b"a\xff@b.test".to_vec(), ..token(5, "z") };
        let line = written(vec![bad, token(4, "x,\ny"), token(1, "x")], LineFormat::Ndjson);
        assert_eq!((line.ids, line.rejected.len()), (vec![4, 1], 1));
        let read: serde_json::Value = serde_json::from_slice(&line.bytes).unwrap();
        assert_eq!(read["batch"], "00000000-0000-0000-0000-000000000001");
        assert_eq!((&read["items"][0]["login"], &read["items"][1]["id"]), (&"x,\ny".into(), &1.into()));
    }

    #[test]
    fn debug_output_shows_no_address_login_token_or_code() {
        let line = written(vec![token(1, "ada"), token(2, "x,y")], LineFormat::Csv);
        assert!(line.bytes.starts_with(b"1,a@b.test,ada,"));
        // As a list of numbers it would begin with `1,a@`.
        let shown = format!("{line:?} {line:#?}");
        for secret in ["a@b.test", "ada", "00420", "49, 44, 97, 64", "97"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
