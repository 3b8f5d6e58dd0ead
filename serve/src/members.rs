//! The members of a JSON object that a request has. Each is taken once, by its type; what is not
//! known is refused.

use std::collections::HashSet;
use std::fmt;

use mailroom_traces::Traceparent;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::problem::Problem;

/// The longest name that a refusal repeats.
const MAX_NAME: usize = 24;

/// The longest time that limits look back, in seconds: 31 days.
const MAX_TIME: f64 = 2_678_400.0;

/// What was not taken yet.
pub(crate) struct Members<'body>(Vec<(String, &'body RawValue)>);

impl<'body> Members<'body> {
    /// Reads a body.
    pub(crate) fn read(body: &'body [u8]) -> Result<Self, Problem> {
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let members = deserializer
            .deserialize_map(OfObject)
            .and_then(|members| deserializer.end().map(|()| members))
            .map_err(|error| {
                if error.is_data() {
                    Problem::bad("the body must be a JSON object")
                } else {
                    let (line, column) = (error.line(), error.column());
                    Problem::bad(format!("the body is not JSON: line {line}, column {column}"))
                }
            })?;
        let mut names = HashSet::with_capacity(members.len());
        for (name, _) in &members {
            if !names.insert(name) {
                return Err(Problem::bad(format!("{} is there twice", shown(name))));
            }
        }
        Ok(Self(members))
    }

    /// A text that must be there.
    pub(crate) fn demand_text(&mut self, name: &str) -> Result<String, Problem> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        self.take(name, "a text", |raw| serde_json::from_str(raw).ok())
    }

    /// So many bytes, in hexadecimal digits.
    pub(crate) fn bytes(&mut self, name: &str, length: usize) -> Result<Option<String>, Problem> {
        let rule = format!("{} hexadecimal digits", 2 * length);
        self.take(name, &rule, |raw| {
            let text: String = serde_json::from_str(raw).ok()?;
            let is_right = text.len() == 2 * length && text.bytes().all(|b| b.is_ascii_hexdigit());
            is_right.then_some(text)
        })
    }

    pub(crate) fn demand_bytes(&mut self, name: &str, length: usize) -> Result<String, Problem> {
        self.bytes(name, length)?.ok_or_else(|| missing(name))
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<String>, Problem> {
        self.take(name, "true or false", |raw| {
            serde_json::from_str(raw).ok().map(|flag: bool| flag.to_string())
        })
    }

    /// A whole number from 1 that an `integer` of the database holds.
    pub(crate) fn count(&mut self, name: &str) -> Result<Option<String>, Problem> {
        self.take(name, "a whole number from 1 to 2147483647", |raw| {
            let number = serde_json::from_str(raw).ok().filter(|number: &i32| *number >= 1)?;
            Some(number.to_string())
        })
    }

    /// Seconds.
    pub(crate) fn interval(&mut self, name: &str) -> Result<Option<String>, Problem> {
        self.take(name, "a number of seconds from 0 to 2678400", |raw| {
            let seconds: f64 = serde_json::from_str(raw).ok()?;
            (0.0..=MAX_TIME).contains(&seconds).then(|| format!("{seconds:.6} seconds"))
        })
    }

    /// A time as RFC 3339 has it; what the parts are the database looks at.
    pub(crate) fn time(&mut self, name: &str) -> Result<Option<String>, Problem> {
        self.take(name, "a time such as 2030-01-31T09:00:00Z", |raw| {
            serde_json::from_str(raw).ok().filter(|text: &String| is_time(text))
        })
    }

    /// The id of a token, a decimal text.
    pub(crate) fn demand_id(&mut self, name: &str) -> Result<String, Problem> {
        let id = self.take(name, "a decimal text, as enqueue answers it", |raw| {
            let text: String = serde_json::from_str(raw).ok()?;
            text.parse().ok().filter(|id: &i64| *id > 0 && id.to_string() == text)?;
            Some(text)
        });
        id?.ok_or_else(|| missing(name))
    }

    /// Any JSON, as it was written.
    pub(crate) fn json(&mut self, name: &str) -> Result<Option<String>, Problem> {
        self.take(name, "JSON of at most 127 levels, with numbers that a double holds", |raw| {
            serde_json::from_str::<Value>(raw).ok().map(|_| raw.to_owned())
        })
    }

    /// A trace. What is none is ignored, whatever it is.
    pub(crate) fn traceparent(&mut self, name: &str) -> Option<Traceparent> {
        let at = self.0.iter().position(|(given, _)| given == name)?;
        let (_, raw) = self.0.swap_remove(at);
        serde_json::from_str(raw.get()).ok().and_then(|text: String| Traceparent::parse(&text))
    }

    /// Refuses what was not taken.
    pub(crate) fn end(self) -> Result<(), Problem> {
        self.0.first().map_or(Ok(()), |(name, _)| {
            Err(Problem::bad(format!("{} is no member of this request", shown(name))))
        })
    }

    /// A member of a kind; `null` is as if it were not there.
    fn take<T>(
        &mut self,
        name: &str,
        rule: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(at) = self.0.iter().position(|(given, _)| given == name) else { return Ok(None) };
        let (_, raw) = self.0.swap_remove(at);
        if raw.get() == "null" {
            return Ok(None);
        }
        read(raw.get()).map(Some).ok_or_else(|| Problem::bad(format!("`{name}` must be {rule}")))
    }
}

fn missing(name: &str) -> Problem {
    Problem::bad(format!("`{name}` is missing"))
}

/// A name as a sentence has it. One that is no name may be a secret.
fn shown(name: &str) -> String {
    let is_of_name = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    if !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_of_name) {
        format!("`{name}`")
    } else {
        "a member".to_owned()
    }
}

fn is_time(text: &str) -> bool {
    let Some((date, rest)) = text.split_once('T') else { return false };
    let has_form = |text: &str, form: &str| {
        text.len() == form.len()
            && text.bytes().zip(form.bytes()).all(|(byte, wanted)| {
                if wanted == b'0' { byte.is_ascii_digit() } else { byte == wanted }
            })
    };
    let Some((time, zone)) = rest.split_at_checked(8) else { return false };
    let (fraction, zone) = zone.split_at(zone.find(['Z', '+', '-']).unwrap_or(zone.len()));
    let is_fraction = fraction.is_empty()
        || fraction.strip_prefix('.').is_some_and(|digits| {
            (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
        });
    let is_zone = ["Z", "+00:00", "-00:00"].iter().any(|form| has_form(zone, form));
    has_form(date, "0000-00-00") && has_form(time, "00:00:00") && is_fraction && is_zone
}

struct OfObject;

impl<'body> Visitor<'body> for OfObject {
    type Value = Vec<(String, &'body RawValue)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<M: MapAccess<'body>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault<T: fmt::Debug>(outcome: Result<T, Problem>) -> String {
        outcome.err().map(|problem| problem.detail).unwrap_or_default()
    }

    #[test]
    fn a_body_is_one_object_whose_members_are_there_once() {
        for (body, expected) in [
            (&b"{}"[..], ""),
            (b" {\"a\": [1, {}]} \n", ""),
            (b"", "the body is not JSON: line 1, column 0"),
            (b"{", "the body is not JSON: line 1, column 1"),
            (b"{}{}", "the body is not JSON: line 1, column 3"),
            (b"[]", "the body must be a JSON object"),
            (b"null", "the body must be a JSON object"),
            (b"\"hunter2\"", "the body must be a JSON object"),
            (b"{\"a\":1,\"a\":1}", "`a` is there twice"),
            (b"{\"a\":\"\xff\"}", "the body is not JSON: line 1, column 7"),
            (b"\xef\xbb\xbf{}", "the body is not JSON: line 1, column 1"),
        ] {
            let read = Members::read(body).map(|members| members.0.len());
            assert_eq!(fault(read), expected, "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn what_is_left_is_refused_and_no_value_is_repeated() {
        let left = |body: &str| fault(Members::read(body.as_bytes()).unwrap().end());
        assert_eq!(left("{}"), "");
        assert_eq!(left(r#"{"codes":"hunter2"}"#), "`codes` is no member of this request");
        assert_eq!(left(r#"{"hunter2":1}"#), "a member is no member of this request");
        for body in [r#"{"m":"hunter2"}"#, r#"{"m":["hunter2"]}"#, r#"{"m":1e400}"#, r#"{"m":-1}"#]
        {
            let members = || Members::read(body.as_bytes()).unwrap();
            for fault in [
                fault(members().flag("m")),
                fault(members().count("m")),
                fault(members().interval("m")),
                fault(members().bytes("m", 16)),
                fault(members().time("m")),
                fault(members().demand_id("m")),
            ] {
                assert!(fault.starts_with("`m` must be ") && !fault.contains("hunter2"), "{fault}");
            }
        }
    }

    #[test]
    fn payloads_are_bounded_and_kept_as_they_were_written() {
        let json = |text: &str| {
            let body = format!("{{\"m\": {text}}}");
            Members::read(body.as_bytes()).unwrap().json("m").ok()
        };
        assert_eq!(json("{ \"a\": 1.0 }"), Some(Some("{ \"a\": 1.0 }".to_owned())));
        assert_eq!(json("null"), Some(None));
        assert_eq!(json("1e400"), None);
        assert_eq!(json("\"\\ud800\""), None);
        assert_eq!(json(&format!("{}{}", "[".repeat(20_000), "]".repeat(20_000))), None);
    }

    #[test]
    fn times_have_a_zone() {
        for text in ["2030-01-31T09:00:00Z", "2030-01-31T09:00:00.123456+01:00"] {
            assert!(is_time(text), "{text}");
        }
        for text in [
            "",
            "T",
            "now",
            "2030-01-31",
            "2030-01-31T09:00:00",
            "2030-01-31T09:00:00.Z",
            "2030-01-31 09:00:00Z",
            "2030-01-31T09:00:00Z ",
            "2030-01-31T09:0ä:00Z",
        ] {
            assert!(!is_time(text), "{text}");
        }
    }
}
