//! Answers of a sender: one JSON object a line.
//!
//! `{"batch":"…","ok":[ids]|"all","retry":[{"id":…,"after_ms":…,"reason":"…"}],"dead":[{"id":…,"reason":"…"}],`
//! `"unavailable":{"after_ms":…,"reason":"…"}}`
//!
//! Strictly: whatever is not exactly that is refused whole, because half an answer that was understood by guessing can
//! lose a mail. What is refused is described in our own words: the sender's may hold addresses.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::reason;
use crate::line::BatchName;

/// The longest pause that a sender can ask for; a longer one is this long. No token lives so long.
const LONGEST_PAUSE: Duration = Duration::from_secs(86_400);

/// What a sender says of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which batch.
    pub batch: BatchName,
    /// What has gone out.
    pub ok: Sent,
    /// What has not, and is to be tried again: id, pause and cleaned reason.
    pub retry: Vec<(i64, Option<Duration>, String)>,
    /// What never will, by id, with its cleaned reason.
    pub dead: Vec<(i64, String)>,
    /// Whether nothing can go out at the moment, so that all tokens of the batch of which nothing was said come back.
    pub unavailable: Option<Unavailable>,
}

/// Why no mail can go out at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// When to try again, if the sender said so.
    pub after: Option<Duration>,
    /// Its cleaned reason.
    pub reason: String,
}

/// The tokens that have gone out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// These, by id.
    Ids(Vec<i64>),
    /// Every one of which nothing else was said.
    All,
}

/// Why a line is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAnAnswer {
    /// It is no JSON text.
    NotJson {
        /// Where that shows, in bytes from 1.
        column: usize,
    },
    /// It is JSON, but not the object of the protocol.
    NotOfTheProtocol(&'static str),
}

impl fmt::Display for NotAnAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { column } => write!(formatter, "it is no JSON at byte {column}"),
            Self::NotOfTheProtocol(fault) => formatter.write_str(fault),
        }
    }
}

/// Reads an answer, without its line feed.
///
/// # Errors
/// Text that is no JSON; another field, a field twice or none of `batch`; a `batch` that is no name of one; ids that are
/// not whole numbers; a pause that is not a whole number of milliseconds.
pub fn parse_answer(line: &[u8]) -> Result<Answer, NotAnAnswer> {
    let Object(answer) = serde_json::from_slice(line).map_err(|error| fault(&error))?;
    Ok(answer)
}

const NO_OBJECT: &str = "it is no object with a `batch`";
const BATCH: &str = "`batch` is no name of a batch";
const OK: &str = "`ok` is neither `\"all\"` nor a list of ids";
const LIST: &str = "`retry` or `dead` is no list of objects with an `id`";
const UNAVAILABLE: &str = "`unavailable` is no object";
const ID: &str = "an id is no whole number";
const PAUSE: &str = "`after_ms` is no whole number of milliseconds";
const REASON: &str = "a `reason` is no text";
const UNKNOWN: &str = "it has a field that the protocol does not know";
const TWICE: &str = "it has a field twice";

/// The parser's own errors can repeat what the sender wrote; of them only our part is kept.
fn fault(error: &serde_json::Error) -> NotAnAnswer {
    if !error.is_data() {
        return NotAnAnswer::NotJson { column: error.column() };
    }
    let text = error.to_string();
    let faults = [BATCH, OK, LIST, UNAVAILABLE, ID, PAUSE, REASON, UNKNOWN, TWICE];
    let known = faults.into_iter().find(|fault| text.contains(fault));
    NotAnAnswer::NotOfTheProtocol(match known {
        Some(fault) => fault,
        None if text.contains("expected a sequence") => LIST,
        None => NO_OBJECT,
    })
}

/// Reads the value of a field, every fault of which is described by the same words.
fn value<'de, T: Deserialize<'de>, A: MapAccess<'de>>(map: &mut A, fault: &str) -> Result<T, A::Error> {
    map.next_value().map_err(|_| A::Error::custom(fault))
}

/// Keeps the value of a field that did not occur yet.
fn once<T, E: Error>(field: &mut Option<T>, value: T) -> Result<(), E> {
    if field.replace(value).is_some() { Err(E::custom(TWICE)) } else { Ok(()) }
}

struct Object(Answer);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(NO_OBJECT)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let (mut batch, mut ok, mut retry, mut dead) = (None, None, None, None);
                let mut unavailable = None;
                while let Some(field) = map.next_key::<Cow<'_, str>>()? {
                    match &*field {
                        "batch" => {
                            let name: Cow<'_, str> = value(&mut map, BATCH)?;
                            let name = BatchName::parse(&name).ok_or_else(|| A::Error::custom(BATCH))?;
                            once(&mut batch, name)?;
                        }
                        "ok" => once(&mut ok, map.next_value()?)?,
                        "retry" => once(&mut retry, map.next_value::<Vec<Refusal<true>>>()?)?,
                        "dead" => once(&mut dead, map.next_value::<Vec<Refusal<false>>>()?)?,
                        "unavailable" => once(&mut unavailable, map.next_value::<Unavailable>()?)?,
                        _ => return Err(A::Error::custom(UNKNOWN)),
                    }
                }
                let retry = retry.unwrap_or_default().into_iter();
                let dead = dead.unwrap_or_default().into_iter();
                Ok(Object(Answer {
                    batch: batch.ok_or_else(|| A::Error::custom(NO_OBJECT))?,
                    ok: ok.unwrap_or(Sent::Ids(Vec::new())),
                    retry: retry.map(|refusal| (refusal.id, refusal.after, refusal.reason)).collect(),
                    dead: dead.map(|refusal| (refusal.id, refusal.reason)).collect(),
                    unavailable,
                }))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl<'de> Deserialize<'de> for Sent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AllOrIds;
        impl<'de> Visitor<'de> for AllOrIds {
            type Value = Sent;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(OK)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Sent, E> {
                if text == "all" { Ok(Sent::All) } else { Err(E::custom(OK)) }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Sent, A::Error> {
                let mut ids = Vec::new();
                while let Some(id) = list.next_element().map_err(|_| A::Error::custom(ID))? {
                    ids.push(id);
                }
                Ok(Sent::Ids(ids))
            }
        }
        deserializer.deserialize_any(AllOrIds)
    }
}

/// A token that has not gone out. Only one that is to be tried again can have a pause.
struct Refusal<const PAUSES: bool> {
    id: i64,
    after: Option<Duration>,
    reason: String,
}

impl<'de, const PAUSES: bool> Deserialize<'de> for Refusal<PAUSES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<const PAUSES: bool>;
        impl<'de, const PAUSES: bool> Visitor<'de> for Fields<PAUSES> {
            type Value = Refusal<PAUSES>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(LIST)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut id, mut after, mut reason) = (None, None, None);
                while let Some(field) = map.next_key::<Cow<'_, str>>()? {
                    match &*field {
                        "id" => once(&mut id, value(&mut map, ID)?)?,
                        "after_ms" if PAUSES => once(&mut after, value::<Option<u64>, _>(&mut map, PAUSE)?)?,
                        "reason" => once(&mut reason, value::<Option<Cow<'_, str>>, _>(&mut map, REASON)?)?,
                        _ => return Err(A::Error::custom(UNKNOWN)),
                    }
                }
                Ok(Refusal {
                    id: id.ok_or_else(|| A::Error::custom(LIST))?,
                    after: after.flatten().map(pause),
                    reason: reason::clean(&reason.flatten().unwrap_or_default()),
                })
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl<'de> Deserialize<'de> for Unavailable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Unavailable;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(UNAVAILABLE)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unavailable, A::Error> {
                let (mut after, mut reason) = (None, None);
                while let Some(field) = map.next_key::<Cow<'_, str>>()? {
                    match &*field {
                        "after_ms" => once(&mut after, value::<Option<u64>, _>(&mut map, PAUSE)?)?,
                        "reason" => once(&mut reason, value::<Option<Cow<'_, str>>, _>(&mut map, REASON)?)?,
                        _ => return Err(A::Error::custom(UNKNOWN)),
                    }
                }
                Ok(Unavailable {
                    after: after.flatten().map(pause),
                    reason: reason::clean(&reason.flatten().unwrap_or_default()),
                })
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

fn pause(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAME: &str = "01234567-89ab-cdef-0011-223344556677";

    fn parse(rest: &str) -> Result<Answer, String> {
        parse_answer(format!(r#"{{"batch":"{NAME}"{rest}}}"#).as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_answer_says_what_went_out_what_not_yet_and_what_never() {
        let answer = parse(concat!(
            r#","ok":[1,-2,9223372036854775807],"retry":[{"id":3,"after_ms":1500,"reason":"550 busy"},{"id":4}],"#,
            r#""dead":[{"reason":null,"id":5}]"#
        ))
        .unwrap();
        assert_eq!(answer.batch.to_string(), NAME);
        assert_eq!(answer.ok, Sent::Ids(vec![1, -2, i64::MAX]));
        let none = || "no reason given".to_owned();
        let pause = Some(Duration::from_millis(1_500));
        assert_eq!(answer.retry, [(3, pause, "550 busy".to_owned()), (4, None, none())]);
        assert_eq!(answer.dead, [(5, none())]);
        assert_eq!(parse(r#","ok":"all""#).unwrap().ok, Sent::All);
        assert_eq!(parse("").unwrap().ok, Sent::Ids(Vec::new()));
        assert_eq!(parse("").unwrap().unavailable, None);
    }

    #[test]
    fn an_answer_says_that_nothing_can_go_out_and_until_when_and_why() {
        let unavailable =
            |rest: &str| parse(&format!(",\"unavailable\":{rest}")).unwrap().unavailable.unwrap();
        let found = unavailable(r#"{"after_ms":1500,"reason":"421 <ada@x.test> too\nbusy"}"#);
        assert_eq!(found.after, Some(Duration::from_millis(1_500)));
        assert_eq!(found.reason, "421 [address] too busy");
        for rest in ["{}", r#"{"after_ms":null,"reason":null}"#] {
            let found = unavailable(rest);
            assert_eq!((found.after, found.reason.as_str()), (None, "no reason given"));
        }
        let mixed = parse(r#","ok":[1],"retry":[{"id":2}],"dead":[{"id":3}],"unavailable":{}"#).unwrap();
        assert_eq!((mixed.ok, mixed.retry.len(), mixed.dead.len()), (Sent::Ids(vec![1]), 1, 1));
        assert!(mixed.unavailable.is_some());
    }

    #[test]
    fn a_pause_beyond_every_token_is_a_day() {
        let answer = parse(r#","retry":[{"id":1,"after_ms":18446744073709551615}]"#).unwrap();
        assert_eq!(answer.retry[0].1, Some(LONGEST_PAUSE));
    }

    #[test]
    fn what_is_not_exactly_an_answer_is_refused_and_described_without_its_text() {
        for (rest, fault) in [
            (r#","ok":"ALL""#, OK),
            (r#","ok":"ada@x.test""#, OK),
            (r#","ok":null"#, OK),
            (r#","ok":true"#, OK),
            (r#","ok":{"1":2}"#, OK),
            (r#","ok":1"#, OK),
            (r#","ok":["1"]"#, ID),
            (r#","ok":["ada"]"#, ID),
            (r#","ok":[1.0]"#, ID),
            (r#","ok":[1e3]"#, ID),
            (r#","ok":[9223372036854775808]"#, ID),
            (r#","ok":[null]"#, ID),
            (r#","ok":[[1]]"#, ID),
            (r#","retry":{}"#, LIST),
            (r#","retry":"all""#, LIST),
            (r#","retry":[1]"#, LIST),
            (r#","retry":[[1,2,"x"]]"#, LIST),
            (r#","retry":[{}]"#, LIST),
            (r#","dead":[{"reason":"x"}]"#, LIST),
            (r#","dead":["ada"]"#, LIST),
            (r#","retry":[{"id":"1"}]"#, ID),
            (r#","retry":[{"id":null}]"#, ID),
            (r#","retry":[{"id":1,"after_ms":-1}]"#, PAUSE),
            (r#","retry":[{"id":1,"after_ms":1.5}]"#, PAUSE),
            (r#","retry":[{"id":1,"after_ms":"soon"}]"#, PAUSE),
            (r#","retry":[{"id":1,"reason":5}]"#, REASON),
            (r#","dead":[{"id":1,"after_ms":5}]"#, UNKNOWN),
            (r#","dead":[{"id":1,"why":"x"}]"#, UNKNOWN),
            (r#","unavailable":null"#, UNAVAILABLE),
            (r#","unavailable":true"#, UNAVAILABLE),
            (r#","unavailable":"ada@x.test""#, UNAVAILABLE),
            (r#","unavailable":[]"#, UNAVAILABLE),
            (r#","unavailable":{"after_ms":-1}"#, PAUSE),
            (r#","unavailable":{"reason":5}"#, REASON),
            (r#","unavailable":{"id":5}"#, UNKNOWN),
            (r#","unavailable":{},"unavailable":{}"#, TWICE),
            (r#","unavailable":{"after_ms":1,"after_ms":1}"#, TWICE),
            (r#","retries":[]"#, UNKNOWN),
            (r#","ada":5"#, UNKNOWN),
            (r#","ok":[],"ok":"all""#, TWICE),
            (r#","dead":[{"id":1,"id":2}]"#, TWICE),
            (&format!(r#","batch":"{NAME}""#), TWICE),
        ] {
            assert_eq!(parse(rest).unwrap_err(), fault, "{rest}");
        }
        for (line, fault) in [
            (r#"{"batch":5}"#, BATCH),
            (r#"{"batch":"ada"}"#, BATCH),
            (r#"{"batch":""}"#, BATCH),
            ("{}", NO_OBJECT),
            (r#"{"ok":"all"}"#, NO_OBJECT),
            ("[]", NO_OBJECT),
            (r#"["01234567-89ab-cdef-0011-223344556677","all"]"#, NO_OBJECT),
            ("null", NO_OBJECT),
            ("12", NO_OBJECT),
            (r#""ada""#, NO_OBJECT),
        ] {
            assert_eq!(parse_answer(line.as_bytes()).unwrap_err().to_string(), fault, "{line}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let deep = "[".repeat(100_000);
        let nested = format!(r#"{{"batch":"{NAME}","ok":{deep}"#);
        for line in [
            &b""[..],
            b" ",
            b"ok",
            b"{",
            b"{\"batch\":\"x",
            b"{'batch':1}",
            b"{\"batch\":NaN}",
            b"\xff",
            b"{\"batch\":\"\xff\"}",
            b"\0",
            b"\xef\xbb\xbf{}",
            deep.as_bytes(),
            nested.as_bytes(),
        ] {
            let error = parse_answer(line).unwrap_err();
            assert!(!error.to_string().is_empty(), "{}", line.escape_ascii());
        }
        let two = format!(r#"{{"batch":"{NAME}"}}{{"batch":"{NAME}"}}"#);
        assert!(matches!(parse_answer(two.as_bytes()), Err(NotAnAnswer::NotJson { .. })));
    }

    proptest! {
        #[test]
        fn no_line_is_too_bad_to_be_refused(line in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse_answer(&line).is_err());
        }
    }
}
