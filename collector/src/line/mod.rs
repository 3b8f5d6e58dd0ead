//! Batches as lines for the reader.

mod csv;

use std::fmt;

use mailroom_verifier_core::Signer;

use crate::queue::Batch;
use crate::signer::{Unfit, sign};

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
    /// Signs the tokens of `batch` and writes the sound ones, in their order, as one line of `csv`.
    pub fn of(batch: &Batch, signer: &Signer) -> Self {
        let mut line =
            Self { bytes: Vec::with_capacity(160 * batch.tokens.len()), ids: Vec::new(), passed: Vec::new() };
        for token in &batch.tokens {
            match sign(signer, token).and_then(|signed| csv::append(&mut line.bytes, token, &signed)) {
                Ok(()) => line.ids.push(token.id),
                Err(reason) => line.passed.push((token.id, reason)),
            }
        }
        if !line.ids.is_empty() {
            line.bytes.push(b'\n');
        }
        line
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

    fn line(tokens: Vec<Token>) -> (String, Vec<i64>) {
        let line =
            Line::of(&Batch { id: BatchId(1), name: 1, tokens }, &Signer::V1(SharedKey::from(&[7; 32])));
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
    }

    #[test]
    fn debug_output_shows_no_address_login_token_or_code() {
        let line = Line::of(
            &Batch { id: BatchId(1), name: 1, tokens: vec![token(1, "ada"), token(2, "x,y")] },
            &Signer::V1(SharedKey::from(&[7; 32])),
        );
        assert!(line.bytes.starts_with(b"1,a@b.test,ada,"));
        // As a list of numbers it would begin with `1,a@`.
        let shown = format!("{line:?} {line:#?}");
        for secret in ["a@b.test", "ada", "00420", "49, 44, 97, 64"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(!shown.contains("97"), "{shown}");
    }
}
