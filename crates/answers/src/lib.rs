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
//!
//! A collector names its batches by [`BatchName`]s of its own, a relay by any text.

use std::time::Duration;

use mailroom_redact::{redact, redact_within, visible_within};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest answer, in bytes without its line feed.
pub const MAX_LINE: usize = 1_000_000;

/// The longest answer and id of a provider that are kept, in bytes.
const MAX_ANSWER: usize = 200;

/// The longest name of a kind of provider.
const MAX_PROVIDER: usize = 32;

/// The longest pause that a sender can ask for; a longer one is this long.
/// No token is valid so long.
const MAX_PAUSE: Duration = Duration::from_secs(86_400);

/// How those who give mails to a sender name their batches.
pub trait BatchName: Sized {
    /// Reads a name; `None` if it is none.
    fn parse(text: &str) -> Option<Self>;
}

impl BatchName for String {
    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

/// What a sender reports for a batch. Its reasons are redacted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, bound = "B: BatchName")]
pub struct Answer<B> {
    /// The batch that it concerns.
    #[serde(deserialize_with = "batch_name")]
    pub batch: B,
    /// The tokens that were sent.
    #[serde(default, deserialize_with = "sent_tokens")]
    pub ok: SentTokens,
    /// The tokens that were refused for now.
    #[serde(default)]
    pub retry: Vec<RetriedToken>,
    /// The tokens of which no mail was tried: nothing is known against them.
    #[serde(default)]
    pub untried: Vec<RetriedToken>,
    /// The tokens in doubt: nobody knows whether the provider accepted them.
    #[serde(default)]
    pub in_doubt: Vec<DoubtfulToken>,
    /// The tokens that were refused for ever.
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
pub enum Reply<B> {
    /// Verdicts on tokens of a batch.
    Answer(Answer<B>),
    /// What it is working on.
    Working(Work<B>),
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, bound = "B: BatchName")]
pub struct Work<B> {
    /// It makes progress with these batches, or waits for a provider's last answer about one of
    /// their mails.
    #[serde(rename = "working", deserialize_with = "batch_names")]
    pub batches: Vec<B>,
    /// Those of which all that is left waits for answers of a provider, and nothing for its turn.
    #[serde(default, deserialize_with = "batch_names")]
    pub slow: Vec<B>,
}

/// The tokens that were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentTokens {
    /// These, by id.
    Ids(Vec<i64>),
    /// Every one for which there is no other verdict.
    All,
}

/// A token that is to be tried again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetriedToken {
    /// The token.
    pub id: i64,
    /// How long to wait before that, if the sender says so.
    #[serde(rename = "after_ms", default, deserialize_with = "pause")]
    pub after: Option<Duration>,
    /// Why, redacted.
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    pub reason: String,
}

/// A token that may have been sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoubtfulToken {
    /// The token.
    pub id: i64,
    /// Why, redacted.
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    pub reason: String,
}

/// A token that never can be sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadToken {
    /// The token.
    pub id: i64,
    /// Why, redacted.
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    pub reason: String,
    /// Whether the provider said for sure that the address does not exist.
    #[serde(default)]
    pub unknown_address: bool,
}

/// What a provider said of a mail that it accepted. Its texts are cut and redacted and never
/// refused: the mail was accepted, whatever they are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenReceipt {
    /// The token.
    pub id: i64,
    /// Its kind, such as `smtp`.
    #[serde(deserialize_with = "provider")]
    pub provider: String,
    /// Its own id of the mail.
    #[serde(default, deserialize_with = "message_id")]
    pub message_id: Option<String>,
    /// What it answered, redacted.
    #[serde(default, deserialize_with = "provider_answer")]
    pub answer: String,
}

/// That no mail can be sent now.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unavailable {
    /// For how long, if the sender says so.
    #[serde(rename = "after_ms", default, deserialize_with = "pause")]
    pub after: Option<Duration>,
    /// Why, redacted.
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    pub reason: String,
}

impl TokenReceipt {
    /// Reads what a provider said as it stands in an answer. `None` if it is none.
    pub fn parse(receipt: &Value) -> Option<Self> {
        Self::deserialize(receipt).ok()
    }

    /// As it stands in an answer, for [`parse`](Self::parse).
    pub fn to_json(&self) -> Option<Value> {
        serde_json::to_value(self).ok()
    }
}

/// Parses a line, without its line feed.
///
/// # Errors
/// If it is no answer, in words that may be logged.
pub fn parse_reply<B: BatchName>(line: &[u8]) -> Result<Reply<B>, String> {
    // This ends at the first field of any other line.
    match serde_json::from_slice(line) {
        Ok(work) => Ok(Reply::Working(work)),
        Err(error) if error.to_string().starts_with(INVALID_BATCH) => Err(describe(&error)),
        Err(_) => parse_answer(line).map(Reply::Answer),
    }
}

/// Parses an answer, without its line feed. A list of the values of an object counts as the object.
///
/// # Errors
/// As of [`parse_reply`].
pub fn parse_answer<B: BatchName>(line: &[u8]) -> Result<Answer<B>, String> {
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

fn batch_name<'de, D: Deserializer<'de>, B: BatchName>(deserializer: D) -> Result<B, D::Error> {
    B::parse(&String::deserialize(deserializer)?).ok_or_else(|| D::Error::custom(INVALID_BATCH))
}

fn batch_names<'de, D, B>(deserializer: D) -> Result<Vec<B>, D::Error>
where
    D: Deserializer<'de>,
    B: BatchName,
{
    let texts = Vec::<String>::deserialize(deserializer)?;
    let names =
        texts.iter().map(|text| B::parse(text).ok_or_else(|| D::Error::custom(INVALID_BATCH)));
    names.collect()
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
