//! The answers of a sender, of batches that have the names of the database.

pub use mailroom_answers::SentTokens;
use mailroom_answers::{BatchName, TokenReceipt};
pub(super) use mailroom_answers::{DeadToken, MAX_LINE};
#[cfg(feature = "relay")]
use serde_json::Value;

use crate::queue::{BatchId, Receipt};

pub(super) type Answer = mailroom_answers::Answer<BatchId>;
/// A line of a sender.
pub type Reply = mailroom_answers::Reply<BatchId>;
/// A sign of life.
pub type Work = mailroom_answers::Work<BatchId>;

/// Parses a line, without its line feed.
pub fn parse_reply(line: &[u8]) -> Result<Reply, String> {
    mailroom_answers::parse_reply(line)
}

/// Parses an answer, without its line feed.
pub fn parse_answer(line: &[u8]) -> Result<mailroom_answers::Answer<BatchId>, String> {
    mailroom_answers::parse_answer(line)
}

impl BatchName for BatchId {
    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

impl From<TokenReceipt> for Receipt {
    fn from(receipt: TokenReceipt) -> Self {
        let TokenReceipt { provider, message_id, answer, .. } = receipt;
        Self { provider, message_id, answer }
    }
}

/// Reads what a provider said as it stands in an answer. `None` if it is none.
#[cfg(feature = "relay")]
pub(crate) fn parse_receipt(receipt: &Value) -> Option<Receipt> {
    TokenReceipt::parse(receipt).map(Receipt::from)
}

/// An answer for a batch, with the rest of its fields.
#[cfg(test)]
pub(super) fn answer(batch: u128, rest: &str) -> Answer {
    parse_answer(format!("{{\"batch\":\"{}\"{rest}}}", BatchId::from(batch)).as_bytes()).unwrap()
}
