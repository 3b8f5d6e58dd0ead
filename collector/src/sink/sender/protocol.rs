//! Answers of a sender: one JSON object a line.
//!
//! `{"batch":"…","ok":[ids]|"all","retry":[{"id":…,"after_ms":…,"reason":"…"}],"dead":[{"id":…,"reason":"…"}],`
//! `"unavailable":{"after_ms":…,"reason":"…"}}`
//!
//! Parsing is strict: a part of an answer, understood by guessing, can lose a mail. Errors are described in our own words,
//! because serde's quote the line, which may hold addresses.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
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
    #[serde(default, deserialize_with = "objects")]
    pub retry: Vec<RefusedToken>,
    /// The tokens that never will be sent.
    #[serde(default, deserialize_with = "objects")]
    pub dead: Vec<DeadToken>,
    /// Set if no mail can be sent now: all other tokens of the batch come back.
    #[serde(default, deserialize_with = "some_object")]
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
        /// Where that shows, from 1.
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
    serde_json::from_slice(line).map(|Object(answer)| answer).map_err(|error| describe(&error))
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

/// A JSON object; a derived struct accepts a list of values, too.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

fn objects<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|Object(value)| value).collect())
}

fn some_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Object::deserialize(deserializer).map(|Object(value)| Some(value))
}

fn batch_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BatchId, D::Error> {
    BatchId::parse(&String::deserialize(deserializer)?).ok_or_else(|| D::Error::custom(INVALID_BATCH))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OkValue {
    Ids(Vec<i64>),
    Text(String),
}

fn sent_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SentTokens, D::Error> {
    match OkValue::deserialize(deserializer)? {
        OkValue::Ids(ids) => Ok(SentTokens::Ids(ids)),
        OkValue::Text(text) if text == "all" => Ok(SentTokens::All),
        OkValue::Text(_) => Err(D::Error::custom(INVALID_VALUE)),
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
    fn an_answer_names_what_was_sent_what_is_to_be_tried_again_and_what_is_dead() {
        let answer = parse(concat!(
            r#","ok":[1,-2,9223372036854775807],"retry":[{"id":3,"after_ms":1500,"reason":"550 busy"},{"id":4}],"#,
            r#""dead":[{"reason":null,"id":5}]"#
        ))
        .unwrap();
        assert_eq!(answer.batch.to_string(), BATCH);
        assert_eq!(answer.ok, SentTokens::Ids(vec![1, -2, i64::MAX]));
        let after = Some(Duration::from_millis(1_500));
        let refused = RefusedToken { id: 3, after, reason: "550 busy".to_owned() };
        assert_eq!(answer.retry, [refused, RefusedToken { id: 4, after: None, reason: no_reason() }]);
        assert_eq!(answer.dead, [DeadToken { id: 5, reason: no_reason() }]);
        assert_eq!(parse(r#","ok":"all""#).unwrap().ok, SentTokens::All);
        let empty = parse("").unwrap();
        assert_eq!((empty.ok, empty.unavailable), (SentTokens::default(), None));
    }

    #[test]
    fn unavailable_has_an_optional_pause_and_a_redacted_reason() {
        let unavailable =
            |rest: &str| parse(&format!(",\"unavailable\":{rest}")).unwrap().unavailable.unwrap();
        let found = unavailable(r#"{"after_ms":1500,"reason":"421 <ada@x.test> too\nbusy"}"#);
        assert_eq!(found.after, Some(Duration::from_millis(1_500)));
        assert_eq!(found.reason, "421 [address] too busy");
        for rest in ["{}", r#"{"after_ms":null,"reason":null}"#] {
            assert_eq!(unavailable(rest), Unavailable { after: None, reason: no_reason() });
        }
        assert_eq!(unavailable(r#"{"after_ms":18446744073709551615}"#).after, Some(LONGEST_PAUSE));
        assert!(parse(r#","ok":[1],"retry":[{"id":2}],"dead":[{"id":3}],"unavailable":{}"#).is_ok());
    }

    #[test]
    fn what_is_not_exactly_an_answer_is_refused_and_described_without_its_text() {
        let [unknown, duplicate, missing, _] = FAULTS.map(|(_, fault)| fault);
        // For a field, or for the whole line: values separated by blanks.
        let cases: [(&str, &str, &str); 12] = [
            (
                INVALID_VALUE,
                "ok",
                r#""ALL" "ada@x.test" null true {"all":null} 1 ["1"] [1.0] [1e3] [9223372036854775808] [null] [[1]]"#,
            ),
            (
                INVALID_VALUE,
                "retry",
                r#"{} null "all" [1] [[1,2,"x"]] [{"id":"1"}] [{"id":null}] [{"id":1,"after_ms":-1}]
                   [{"id":1,"after_ms":1.5}] [{"id":1,"after_ms":"soon"}] [{"id":1,"after_ms":18446744073709551616}]
                   [{"id":1,"reason":5}]"#,
            ),
            (INVALID_VALUE, "dead", r#"["ada"]"#),
            (INVALID_VALUE, "unavailable", r#"null true "ada@x.test" [] {"after_ms":-1} {"reason":5}"#),
            (unknown, "dead", r#"[{"id":1,"after_ms":5}] [{"id":1,"why":"x"}] [],"ada@x.test":5"#),
            (unknown, "unavailable", r#"{"id":5} {},"missing\u0020field":0"#),
            (duplicate, "ok", r#"[],"ok":"all" [],"batch":"01234567-89ab-cdef-0011-223344556677""#),
            (duplicate, "dead", r#"[{"id":1,"id":2}]"#),
            (duplicate, "unavailable", r#"{},"unavailable":{} {"after_ms":1,"after_ms":1}"#),
            (missing, "retry", r#"[{}] [{"reason":"x"}]"#),
            (missing, "", r#"{} {"ok":"all"}"#),
            (
                INVALID_VALUE,
                "",
                r#"{"batch":5} [] ["01234567-89ab-cdef-0011-223344556677","all"] null 12 "ada""#,
            ),
        ];
        let mut lines = Vec::new();
        for (fault, field, values) in cases {
            lines.extend(values.split_whitespace().map(|value| match field {
                "" => (fault, value.as_bytes().to_vec()),
                field => (fault, format!("{{\"batch\":\"{BATCH}\",\"{field}\":{value}}}").into_bytes()),
            }));
        }
        let deep = "[".repeat(100_000);
        for line in [
            &b""[..],
            b" ",
            b"ok",
            b"{",
            b"{\"batch\":\"x",
            b"{'batch':1}",
            b"\xff",
            b"\0",
            b"\xef\xbb\xbf{}",
            format!(r#"{{"batch":"{BATCH}"}}{{}}"#).as_bytes(),
            format!(r#"{{"batch":"{BATCH}","ok":{deep}"#).as_bytes(),
        ] {
            lines.push((NOT_JSON, line.to_vec()));
        }
        lines.extend(["ada", ""].map(|batch| (INVALID_BATCH, format!(r#"{{"batch":"{batch}"}}"#).into())));
        for (fault, line) in lines {
            let error = parse_answer(&line).unwrap_err();
            let is_expected = matches!(error, AnswerError::Invalid { fault: found, .. } if found == fault);
            assert!(is_expected, "{error}: {}", line.escape_ascii());
        }
    }

    fn split(input: &[u8], piece: usize) -> Vec<Result<Bytes, AnswerError>> {
        let (mut codec, mut buffer, mut lines) = (line_codec(), BytesMut::new(), Vec::new());
        for piece in input.chunks(piece) {
            buffer.extend_from_slice(piece);
            while let Some(line) = codec.decode(&mut buffer).transpose() {
                lines.push(line.map_err(|_| AnswerError::TooLong));
            }
            assert!(buffer.len() <= LONGEST_LINE);
        }
        while let Some(line) = codec.decode_eof(&mut buffer).transpose() {
            lines.push(line.map_err(|_| AnswerError::TooLong));
        }
        lines
    }

    #[test]
    fn a_line_that_is_too_long_is_reported_once_and_the_next_one_is_read() {
        let longest = vec![b'x'; LONGEST_LINE];
        let input = [&longest[..], b"\n\n", &longest, b"x\nnext\n", &longest, &longest, b"\nrest"].concat();
        let line = |text: &'static str| Ok(Bytes::from(text));
        let too_long = || Err(AnswerError::TooLong);
        let expected =
            [Ok(longest.clone().into()), line(""), too_long(), line("next"), too_long(), line("rest")];
        for piece in [60_000, input.len()] {
            assert!(split(&input, piece) == expected, "in pieces of {piece} bytes");
            assert_eq!(split(&[&longest[..], b"xx{}"].concat(), piece), [too_long()]);
        }
    }
}
