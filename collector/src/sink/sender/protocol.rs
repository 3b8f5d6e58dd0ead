//! Answers of a sender: one JSON object a line.
//!
//! `{"batch":"…","ok":[ids]|"all","retry":[{"id":…,"after_ms":…,"reason":"…"}],"dead":[{"id":…,"reason":"…"}],`
//! `"unavailable":{"after_ms":…,"reason":"…"}}`
//!
//! Parsing is strict: a part of an answer, understood by guessing, can lose a mail. Errors are described in our own words,
//! because serde's quote the line, which may hold addresses.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::Value;
use tokio_util::codec::AnyDelimiterCodec;

use super::redact::redact;
use crate::queue::BatchId;

/// The longest answer, in bytes without its line feed.
const LONGEST_LINE: usize = 1_000_000;

/// The longest pause that a sender can ask for; a longer one is this long. No token is valid so long.
const LONGEST_PAUSE: Duration = Duration::from_secs(86_400);

/// What a sender reports for a batch. Its reasons are redacted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Which batch.
    #[serde(deserialize_with = "batch_id")]
    pub batch: BatchId,
    /// The tokens that were sent.
    #[serde(default, deserialize_with = "sent_tokens")]
    pub ok: SentTokens,
    /// The tokens that are to be tried again.
    #[serde(default)]
    pub retry: Vec<RefusedToken>,
    /// The tokens that never will be sent.
    #[serde(default)]
    pub dead: Vec<DeadToken>,
    /// Set if no mail can be sent now: all other tokens of the batch come back.
    pub unavailable: Option<Unavailable>,
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
pub struct RefusedToken {
    /// Its id.
    pub id: i64,
    /// The pause before that, if the sender gives one.
    #[serde(rename = "after_ms", default, deserialize_with = "pause")]
    pub after: Option<Duration>,
    /// Why.
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    pub reason: String,
}

/// A token that never will be sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadToken {
    /// Its id.
    pub id: i64,
    /// Why.
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    pub reason: String,
}

/// Why no mail can be sent now.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unavailable {
    /// The pause before that, if the sender gives one.
    #[serde(rename = "after_ms", default, deserialize_with = "pause")]
    pub after: Option<Duration>,
    /// Why.
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    pub reason: String,
}

/// Why a line is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is over a million bytes.
    #[error("it is longer than {LONGEST_LINE} bytes")]
    TooLong,
    /// It is not exactly an answer.
    #[error("it is no answer: {fault} at byte {byte}")]
    Invalid {
        /// What is wrong.
        fault: &'static str,
        /// Where that shows at the latest, from 1.
        byte: usize,
    },
}

/// Splits what a sender writes into lines of bounded length.
pub(super) fn line_codec() -> AnyDelimiterCodec {
    AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), LONGEST_LINE)
}

/// Parses an answer, without its line feed.
///
/// # Errors
/// Text that is no JSON; an unknown field, a field twice or none of `batch`; ids that are not whole numbers; a pause that
/// is not a whole number of milliseconds.
pub fn parse_answer(line: &[u8]) -> Result<Answer, AnswerError> {
    let answer = serde_json::from_slice(line).map_err(|error| describe(&error))?;
    let value: Value = serde_json::from_slice(line).map_err(|error| describe(&error))?;
    // A derived struct accepts a list of its values, too, and an option null.
    let tokens = ["retry", "dead"].into_iter().filter_map(|field| value[field].as_array()).flatten();
    let mut objects = [&value].into_iter().chain(tokens).chain(value.get("unavailable"));
    let is_valid = objects.all(Value::is_object);
    is_valid.then_some(answer).ok_or(AnswerError::Invalid { fault: INVALID_VALUE, byte: line.len() })
}

const NOT_JSON: &str = "it is no JSON";
const INVALID_BATCH: &str = "`batch` is no id of a batch";
const INVALID_VALUE: &str = "a value has the wrong type or is out of range";

/// How serde's errors begin, and what is logged instead.
const FAULTS: [(&str, &str); 4] = [
    ("unknown field", "it has a field that the protocol does not know"),
    ("duplicate field", "it has a field twice"),
    ("missing field", "a `batch` or an `id` is missing"),
    (INVALID_BATCH, INVALID_BATCH),
];

/// Of serde's error only the kind and the place are kept: its text quotes the line.
fn describe(error: &serde_json::Error) -> AnswerError {
    let text = error.to_string();
    let known = FAULTS.into_iter().find(|(beginning, _)| text.starts_with(beginning));
    let fault = if error.is_data() { known.map_or(INVALID_VALUE, |(_, fault)| fault) } else { NOT_JSON };
    AnswerError::Invalid { fault, byte: error.column() }
}

fn batch_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BatchId, D::Error> {
    BatchId::parse(&String::deserialize(deserializer)?).ok_or_else(|| D::Error::custom(INVALID_BATCH))
}

fn sent_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SentTokens, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) if text == "all" => Ok(SentTokens::All),
        ids => Vec::deserialize(ids).map(SentTokens::Ids).map_err(|_| D::Error::custom(INVALID_VALUE)),
    }
}

impl Default for SentTokens {
    fn default() -> Self {
        Self::Ids(Vec::new())
    }
}

fn pause<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let milliseconds = Option::<u64>::deserialize(deserializer)?;
    Ok(milliseconds.map(|milliseconds| Duration::from_millis(milliseconds).min(LONGEST_PAUSE)))
}

fn redacted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(redact(&Option::<String>::deserialize(deserializer)?.unwrap_or_default()))
}

fn no_reason() -> String {
    redact("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_util::bytes::{Bytes, BytesMut};
    use tokio_util::codec::Decoder;

    const BATCH: &str = "01234567-89ab-cdef-0011-223344556677";

    fn parse(rest: &str) -> Result<Answer, AnswerError> {
        parse_answer(format!(r#"{{"batch":"{BATCH}"{rest}}}"#).as_bytes())
    }

    #[test]
    fn an_answer_has_verdicts_pauses_and_redacted_reasons() {
        let answer = parse(concat!(
            r#","ok":[1,-2,9223372036854775807],"retry":[{"id":3,"after_ms":1500,"reason":"550 busy"},{"id":4}],"#,
            r#""dead":[{"reason":null,"id":5}],"unavailable":{"after_ms":18446744073709551615,"reason":"<a@x.test>\n"}"#
        ));
        let after = Some(Duration::from_millis(1_500));
        let expected = Answer {
            batch: BatchId::parse(BATCH).unwrap(),
            ok: SentTokens::Ids(vec![1, -2, i64::MAX]),
            retry: vec![
                RefusedToken { id: 3, after, reason: "550 busy".to_owned() },
                RefusedToken { id: 4, after: None, reason: no_reason() },
            ],
            dead: vec![DeadToken { id: 5, reason: no_reason() }],
            unavailable: Some(Unavailable { after: Some(LONGEST_PAUSE), reason: "[address]".to_owned() }),
        };
        assert_eq!(answer, Ok(expected));
        assert_eq!(parse(r#","ok":"all""#).unwrap().ok, SentTokens::All);
    }

    /// Which lines are answers: `tests/properties`.
    #[test]
    fn what_is_not_exactly_an_answer_is_described_without_its_text() {
        let [unknown, duplicate, missing, _] = FAULTS.map(|(_, fault)| fault);
        let deep = format!(r#","ok":{}"#, "[".repeat(100_000));
        for (fault, rest) in [
            (INVALID_VALUE, r#","ok":"ada@x.test""#),
            (INVALID_VALUE, r#","ok":{"all":null}"#),
            (INVALID_VALUE, r#","retry":[[1,2,"x"]]"#),
            (INVALID_VALUE, r#","unavailable":null"#),
            (unknown, r#","ada@x.test":5"#),
            (unknown, r#","dead":[{"id":1,"after_ms":5}]"#),
            (unknown, r#","unavailable":{},"missing\u0020field":0"#),
            (duplicate, r#","ok":[],"ok":"all""#),
            (duplicate, r#","dead":[{"id":1,"id":2}]"#),
            (duplicate, r#","unavailable":{},"unavailable":{}"#),
            (missing, r#","retry":[{"reason":"x"}]"#),
            (NOT_JSON, "x"),
            (NOT_JSON, "}{"),
            (NOT_JSON, &deep),
        ] {
            let error = parse(rest).unwrap_err();
            assert!(
                matches!(error, AnswerError::Invalid { fault: found, .. } if found == fault),
                "{error}: {rest:.80}"
            );
        }
        for (fault, line) in
            [(missing, &b"{}"[..]), (INVALID_BATCH, b"{\"batch\":\"ada\"}"), (NOT_JSON, b"\xff")]
        {
            let error = parse_answer(line).unwrap_err();
            assert!(matches!(error, AnswerError::Invalid { fault: found, .. } if found == fault), "{error}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_reported_once_and_the_next_one_is_read() {
        let longest = vec![b'x'; LONGEST_LINE];
        let input = [&longest[..], b"\n\n", &longest, b"x\nnext\n", &longest, &longest, b"\nrest"].concat();
        let line = |text: &'static str| Some(Bytes::from(text));
        let expected = [Some(longest.into()), line(""), None, line("next"), None, line("rest")];
        for piece in [60_000, input.len()] {
            let (mut codec, mut buffer, mut lines) = (line_codec(), BytesMut::new(), Vec::new());
            for piece in input.chunks(piece) {
                buffer.extend_from_slice(piece);
                lines.extend(std::iter::from_fn(|| codec.decode(&mut buffer).transpose()).map(Result::ok));
                assert!(buffer.len() <= LONGEST_LINE);
            }
            lines.extend(codec.decode_eof(&mut buffer).transpose().map(Result::ok));
            assert!(lines == expected, "in pieces of {piece} bytes");
        }
    }
}
