//! `traceparent` of W3C Trace Context, version 00: `00-TRACE-PARENT-FLAGS` in small hexadecimal
//! digits, 32, 16 and 2 of them.

use std::fmt;

use serde::{Deserialize, Deserializer};

const LENGTH: usize = 55;
const TRACE: std::ops::Range<usize> = 3..35;
const PARENT: std::ops::Range<usize> = 36..52;

/// The trace that a mail belongs to, and the span in which it was enqueued. It holds nothing but
/// hexadecimal digits and hyphens, so that it can be written anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Traceparent([u8; LENGTH]);

impl Traceparent {
    /// Reads one. `None` for all else, as other versions, capital letters and ids of zeros alone:
    /// what is no traceparent is ignored and fails nothing.
    ///
    /// `mailroom.valid_traceparent` of the database has the same rules.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; LENGTH] = text.as_bytes().try_into().ok()?;
        let is_valid = bytes.starts_with(b"00-")
            && bytes.iter().enumerate().all(|(place, byte)| match place {
                2 | 35 | 52 => *byte == b'-',
                _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            });
        let is_set = |id: &[u8]| id.iter().any(|digit| *digit != b'0');
        (is_valid && is_set(&bytes[TRACE]) && is_set(&bytes[PARENT])).then_some(Self(bytes))
    }

    /// All of it.
    pub fn as_str(&self) -> &str {
        // Digits and hyphens always are UTF-8.
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The id of the trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        &self.as_str()[TRACE]
    }

    /// The id of the span in which the mail was enqueued: 16 hexadecimal digits.
    pub fn parent_id(&self) -> &str {
        &self.as_str()[PARENT]
    }

    /// Whether the caller may have recorded its part of the trace: the flag `sampled`.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.as_str()[PARENT.end + 1..], 16).is_ok_and(|flags| flags & 1 == 1)
    }

    /// Reads a field of a line that may have none. One that is no traceparent counts as none, so
    /// that it costs no mail.
    pub fn deserialize_lenient<'a, D: Deserializer<'a>>(
        deserializer: D,
    ) -> Result<Option<Self>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Text(String),
            Other(serde::de::IgnoredAny),
        }
        Ok(match Given::deserialize(deserializer)? {
            Given::Text(text) => Self::parse(&text),
            Given::Other(_) => None,
        })
    }
}

impl fmt::Debug for Traceparent {
    /// Quoted, as a text is.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

impl fmt::Display for Traceparent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_of_version_00_is_read_and_has_its_parts() {
        let read = Traceparent::parse(GOOD).unwrap();
        assert_eq!(read.as_str(), GOOD);
        assert_eq!(read.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(read.parent_id(), "00f067aa0ba902b7");
        for (flags, is_sampled) in [("00", false), ("01", true), ("fe", false), ("ff", true)] {
            let text = format!("{}{flags}", &GOOD[..53]);
            assert_eq!(Traceparent::parse(&text).unwrap().is_sampled(), is_sampled, "{text}");
        }
    }

    #[test]
    fn what_is_no_traceparent_is_none() {
        for text in [
            String::new(),
            GOOD.to_uppercase(),
            GOOD.replacen("00", "ff", 1),
            GOOD.replacen("00", "01", 1),
            GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            format!("{GOOD}\n"),
            format!(" {GOOD}"),
            format!("{GOOD}-00"),
            GOOD.replace('-', "_"),
            GOOD[..54].to_owned(),
            format!("{}\u{e9}", &GOOD[..53]),
            "a".repeat(55),
            "a".repeat(10_000),
        ] {
            assert_eq!(Traceparent::parse(&text), None, "{text:?}");
        }
    }

    #[test]
    fn a_field_that_is_no_traceparent_fails_no_item() {
        #[derive(Deserialize)]
        struct Item {
            #[serde(default, deserialize_with = "Traceparent::deserialize_lenient")]
            traceparent: Option<Traceparent>,
        }
        let read = |json: &str| serde_json::from_str::<Item>(json).unwrap().traceparent;
        assert_eq!(read(&format!(r#"{{"traceparent":"{GOOD}"}}"#)), Traceparent::parse(GOOD));
        for json in [
            "{}",
            r#"{"traceparent":null}"#,
            r#"{"traceparent":5}"#,
            r#"{"traceparent":["00"]}"#,
            r#"{"traceparent":{"a":{}}}"#,
            r#"{"traceparent":"00-"}"#,
        ] {
            assert_eq!(read(json), None, "{json}");
        }
    }
}
