//! Batches as lines for the reader.

mod batch_name;
mod csv;
mod ndjson;

use std::fmt;

use mailroom_verifier_core::Signer;

pub use batch_name::BatchName;

use crate::queue::Batch;
use crate::signer::{Unfit, sign};

/// How a batch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// Five fields a token, for readers of the existing collector.
    Csv,
    /// A JSON object a batch.
    Ndjson,
}

impl LineFormat {
    /// As the setting spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
        }
    }
}

/// A signed batch, written out.
#[derive(PartialEq, Eq)]
pub struct Line {
    /// The bytes with the line feed at the end; empty if no token of the batch is fit to be sent.
    pub bytes: Vec<u8>,
    /// The tokens that it carries, by id, in their order.
    pub ids: Vec<i64>,
    /// The rows that were left out, by id.
    pub passed: Vec<(i64, Unfit)>,
}

impl Line {
    /// Signs the tokens of `batch` and writes the sound ones, in their order, as one line.
    pub fn of(batch: &Batch, signer: &Signer, format: LineFormat) -> Self {
        let mut bytes = Vec::with_capacity(64 + 320 * batch.tokens.len());
        let (mut ids, mut passed) = (Vec::with_capacity(batch.tokens.len()), Vec::new());
        if format == LineFormat::Ndjson {
            ndjson::begin(&mut bytes, BatchName(batch.name));
        }
        for token in &batch.tokens {
            let written = sign(signer, token).and_then(|signed| match format {
                LineFormat::Csv => csv::append(&mut bytes, token, &signed),
                LineFormat::Ndjson => ndjson::append(&mut bytes, ids.is_empty(), token, &signed),
            });
            match written {
                Ok(()) => ids.push(token.id),
                Err(reason) => passed.push((token.id, reason)),
            }
        }
        match format {
            _ if ids.is_empty() => bytes.clear(),
            LineFormat::Csv => bytes.push(b'\n'),
            LineFormat::Ndjson => ndjson::end(&mut bytes),
        }
        // Thousands of tokens are in such lines at a time.
        bytes.shrink_to_fit();
        Self { bytes, ids, passed }
    }
}

/// Without the bytes, which hold addresses and tokens.
impl fmt::Debug for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Line");
        shown.field("ids", &self.ids).field("passed", &self.passed).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{BatchId, Token};
    use mailroom_verifier_core::{Action, SharedKey};

    fn token(id: i64, login: &str) -> Token {
        Token {
            id,
            attempt: 1,
            action: Action::Activate,
            email: b"a@b.test".to_vec(),
            login: login.as_bytes().to_vec(),
            secret: vec![9; 32],
            code: Some(b"00420".to_vec()),
            expires_at: 0,
        }
    }

    fn written(tokens: Vec<Token>, format: LineFormat) -> Line {
        let batch = Batch { id: BatchId(1), name: 1, tokens };
        Line::of(&batch, &Signer::V1(SharedKey::from(&[7; 32])), format)
    }

    fn line(tokens: Vec<Token>) -> (String, Vec<i64>) {
        let line = written(tokens, LineFormat::Csv);
        (String::from_utf8(line.bytes).unwrap(), line.passed.iter().map(|(id, _)| *id).collect())
    }

    #[test]
    fn a_row_that_is_not_fit_leaves_the_others_as_they_are() {
        let (both, passed) = line(vec![token(1, "x"), token(2, "y")]);
        assert_eq!(passed, [0_i64; 0]);
        let bad = vec![token(4, "x,y"), token(1, "x"), token(5, "x\ny"), token(2, "y"), token(6, "\"")];
        assert_eq!(line(bad), (both, vec![4, 5, 6]));
    }

    #[test]
    fn a_batch_without_a_fit_row_is_no_line() {
        assert_eq!(line(vec![token(1, ",")]), (String::new(), vec![1]));
        let unsound = Token { secret: vec![9; 31], ..token(1, "x") };
        assert_eq!(written(vec![unsound], LineFormat::Ndjson).bytes, b"");
    }

    #[test]
    fn ndjson_carries_what_csv_cannot_and_leaves_out_what_is_no_text() {
        let bad = Token { email: b"a\xff@b.test".to_vec(), ..token(5, "z") };
        let line = written(vec![bad, token(4, "x,\ny"), token(1, "x")], LineFormat::Ndjson);
        assert_eq!((line.ids, line.passed.len()), (vec![4, 1], 1));
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
        for secret in ["a@b.test", "ada", "00420", "49, 44, 97, 64"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(!shown.contains("97"), "{shown}");
    }
}
