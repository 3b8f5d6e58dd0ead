//! What a sender writes: answers and signs of life, each a JSON object on a line.
//!
//! ```text
//! {"batch":"…","ok":[ids]|"all","retry":[{"id":…,"after_ms":…,"reason":"…"}],
//!  "untried":[{"id":…,"after_ms":…,"reason":"…"}],"in_doubt":[{"id":…,"reason":"…"}],
//!  "dead":[{"id":…,"reason":"…","unknown_address":true}],"handed_over":[ids],
//!  "unavailable":{"after_ms":…,"reason":"…"},"exact":true,
//!  "receipts":[{"id":…,"provider":"smtp","message_id":"…","answer":"…"}]}
//!
//! {"working":["batch","…"],"slow":["batch"]}
//! ```
//!
//! Parsing is strict: a part of an answer that is understood by guessing can lose a mail. Errors
//! are described in our own words, because serde's quote the line, which may hold addresses.

use std::time::Duration;

use mailroom_redact::{redact, redact_within, visible_within};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::Value;

use crate::queue::{BatchId, Receipt};

/// The longest answer, in bytes without its line feed.
pub(super) const MAX_LINE: usize = 1_000_000;

/// The longest answer and id of a provider that are kept, in bytes.
const MAX_ANSWER: usize = 200;

/// The longest name of a kind of provider.
const MAX_PROVIDER: usize = 32;

/// The longest pause that a sender can ask for; a longer one is this long.
/// No token is valid so long.
const MAX_PAUSE: Duration = Duration::from_secs(86_400);

/// What a sender reports for a batch. Its reasons are redacted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    #[serde(deserialize_with = "batch_id")]
    pub batch: BatchId,
    #[serde(default, deserialize_with = "sent_tokens")]
    pub ok: SentTokens,
    #[serde(default)]
    pub retry: Vec<RetriedToken>,
    /// The tokens of which no mail was tried: nothing is known against them.
    #[serde(default)]
    pub untried: Vec<RetriedToken>,
    /// The tokens in doubt: nobody knows whether the provider accepted them.
    #[serde(default)]
    pub in_doubt: Vec<DoubtfulToken>,
    #[serde(default)]
    pub dead: Vec<DeadToken>,
    /// The tokens whose mail a broker has stored, for somebody else to send it.
    #[serde(default)]
    pub handed_over: Vec<i64>,
    /// Set if no mail can be sent now: all other tokens of the batch come back.
    pub unavailable: Option<Unavailable>,
    /// Whether this sender tells itself whose fault a refusal is.
    #[serde(default)]
    pub exact: bool,
    /// What the provider said of tokens that were sent.
    #[serde(default)]
    pub receipts: Vec<TokenReceipt>,
}

/// A line of a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Verdicts on tokens of a batch.
    Answer(Answer),
    /// What it is working on.
    Working(Work),
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// It makes progress with these batches, or waits for a provider's last answer about one of
    /// their mails.
    #[serde(rename = "working", deserialize_with = "batch_ids")]
    pub batches: Vec<BatchId>,
    /// Those of which all that is left waits for answers of a provider, and nothing for its turn.
    #[serde(default, deserialize_with = "batch_ids")]
    pub slow: Vec<BatchId>,
}

/// The tokens that were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentTokens {
    /// These, by id.
    Ids(Vec<i64>),
    /// Every one for which there is no other verdict.
    All,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetriedToken {
    pub id: i64,
    #[serde(rename = "after_ms", default, deserialize_with = "pause")]
    pub after: Option<Duration>,
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoubtfulToken {
    pub id: i64,
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadToken {
    pub id: i64,
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    pub reason: String,
    /// Whether the provider said for sure that the address does not exist.
    #[serde(default)]
    pub unknown_address: bool,
}

/// Its texts are cut and redacted and never refused: the mail was accepted, whatever they are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenReceipt {
    pub id: i64,
    #[serde(deserialize_with = "provider")]
    pub provider: String,
    #[serde(default, deserialize_with = "message_id")]
    pub message_id: Option<String>,
    #[serde(default, deserialize_with = "provider_answer")]
    pub answer: String,
}

impl TokenReceipt {
    pub(super) fn receipt(&self) -> Receipt {
        let Self { provider, message_id, answer, .. } = self.clone();
        Receipt { provider, message_id, answer }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unavailable {
    #[serde(rename = "after_ms", default, deserialize_with = "pause")]
    pub after: Option<Duration>,
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    pub reason: String,
}

/// Reads what a provider said as it stands in an answer. `None` if it is none.
#[cfg(feature = "relay")]
pub(crate) fn parse_receipt(receipt: &Value) -> Option<Receipt> {
    TokenReceipt::deserialize(receipt).ok().map(|receipt| receipt.receipt())
}

/// Parses a line, without its line feed.
pub fn parse_reply(line: &[u8]) -> Result<Reply, String> {
    // This ends at the first field of any other line.
    match serde_json::from_slice(line) {
        Ok(work) => Ok(Reply::Working(work)),
        Err(error) if error.to_string().starts_with(INVALID_BATCH) => Err(describe(&error)),
        Err(_) => parse_answer(line).map(Reply::Answer),
    }
}

/// Parses an answer, without its line feed. A list of the values of an object counts as the object.
pub fn parse_answer(line: &[u8]) -> Result<Answer, String> {
    serde_json::from_slice(line).map_err(|error| describe(&error))
}

const NOT_JSON: &str = "it is no JSON";
const INVALID_BATCH: &str = "`batch` is no id of a batch";
const INVALID_VALUE: &str = "a value has the wrong type or is out of range";

/// How serde's errors begin, and the words that are logged in their place.
const FAULTS: [(&str, &str); 4] = [
    ("unknown field", "it has a field that the protocol does not know"),
    ("duplicate field", "it has a field twice"),
    ("missing field", "a `batch` or an `id` is missing"),
    (INVALID_BATCH, INVALID_BATCH),
];

/// Of serde's error only the kind and the place are kept: its text quotes the line.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let known = FAULTS.into_iter().find(|(beginning, _)| text.starts_with(beginning));
    let fault =
        if error.is_data() { known.map_or(INVALID_VALUE, |(_, fault)| fault) } else { NOT_JSON };
    format!("it is no answer: {fault} at byte {}", error.column())
}

fn batch_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BatchId, D::Error> {
    BatchId::parse(&String::deserialize(deserializer)?)
        .ok_or_else(|| D::Error::custom(INVALID_BATCH))
}

fn batch_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<BatchId>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let ids = texts
        .iter()
        .map(|text| BatchId::parse(text).ok_or_else(|| D::Error::custom(INVALID_BATCH)));
    ids.collect()
}

fn sent_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SentTokens, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) if text == "all" => Ok(SentTokens::All),
        ids => {
            Vec::deserialize(ids).map(SentTokens::Ids).map_err(|_| D::Error::custom(INVALID_VALUE))
        }
    }
}

impl Default for SentTokens {
    fn default() -> Self {
        Self::Ids(Vec::new())
    }
}

fn pause<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let milliseconds = Option::<u64>::deserialize(deserializer)?;
    Ok(milliseconds.map(|milliseconds| Duration::from_millis(milliseconds).min(MAX_PAUSE)))
}

fn redacted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(redact(&Option::<String>::deserialize(deserializer)?.unwrap_or_default()))
}

/// A name that the database takes: other characters than those of names are left out.
fn provider<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?.to_ascii_lowercase();
    let is_of_name = |character: &char| matches!(character, 'a'..='z' | '0'..='9' | '_');
    let name: String = text.chars().filter(is_of_name).take(MAX_PROVIDER).collect();
    Ok(if name.is_empty() { "unknown".to_owned() } else { name })
}

/// Neither an address nor a token: most providers' own ids look like either.
fn message_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    Ok(Some(visible_within(&text, MAX_ANSWER)).filter(|id| !id.is_empty()))
}

fn provider_answer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(redact_within(&Option::<String>::deserialize(deserializer)?.unwrap_or_default(), MAX_ANSWER))
}

fn no_reason() -> String {
    redact("")
}

/// An answer for a batch, with the rest of its fields.
#[cfg(test)]
pub(super) fn answer(batch: u128, rest: &str) -> Answer {
    parse_answer(format!("{{\"batch\":\"{}\"{rest}}}", BatchId::from(batch)).as_bytes()).unwrap()
}
