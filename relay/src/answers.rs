//! The answers of a sender, of batches of one mail each. Reasons are redacted as they are read:
//! mail servers repeat addresses and links, and both the log and the broker would keep them.

use std::time::Duration;

use mailroom_redact::redact;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A line of a sender.
#[derive(Debug, Default, Deserialize)]
struct Line {
    #[serde(default)]
    batch: String,
    #[serde(default)]
    ok: Value,
    #[serde(default)]
    receipts: Vec<Value>,
    #[serde(default)]
    retry: Vec<Pause>,
    #[serde(default)]
    untried: Vec<Pause>,
    #[serde(default)]
    in_doubt: Vec<Pause>,
    #[serde(default)]
    dead: Vec<Dead>,
    unavailable: Option<Pause>,
    #[serde(default)]
    working: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Pause {
    after_ms: Option<u64>,
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Dead {
    #[serde(default = "no_reason", deserialize_with = "redacted")]
    reason: String,
    #[serde(default)]
    unknown_address: bool,
}

/// What a sender says of a mail.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    Sent { receipt: Option<Value> },
    Retry { after: Option<Duration> },
    Untried { after: Option<Duration> },
    InDoubt { reason: String },
    Dead { reason: String, unknown_address: bool },
    Unavailable { after: Option<Duration>, reason: String },
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// Of a batch, which is one mail.
    Verdict { batch: String, said: Said },
    /// That these batches are being worked on.
    Working(Vec<String>),
    /// Nothing that is known.
    Nothing,
}

/// Reads a line. The verdict that loses no mail counts.
pub(crate) fn read(line: &[u8]) -> Answer {
    let Ok(line) = serde_json::from_slice::<Line>(line) else { return Answer::Nothing };
    let Line { batch, ok, receipts, retry, untried, in_doubt, dead, unavailable, working } = line;
    if !working.is_empty() {
        return Answer::Working(working);
    }
    let is_ok = ok.as_array().is_some_and(|ids| !ids.is_empty()) || ok == "all";
    let said = if let Some(Pause { reason, .. }) = in_doubt.into_iter().next() {
        Said::InDoubt { reason }
    } else if let Some(pause) = retry.first() {
        Said::Retry { after: pause.after() }
    } else if let Some(pause) = untried.first() {
        Said::Untried { after: pause.after() }
    } else if let Some(Dead { reason, unknown_address }) = dead.into_iter().next() {
        Said::Dead { reason, unknown_address }
    } else if is_ok {
        Said::Sent { receipt: receipts.into_iter().next() }
    } else if let Some(pause) = unavailable {
        Said::Unavailable { after: pause.after(), reason: pause.reason }
    } else {
        return Answer::Nothing;
    };
    Answer::Verdict { batch, said }
}

fn redacted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(redact(&Option::<String>::deserialize(deserializer)?.unwrap_or_default()))
}

fn no_reason() -> String {
    redact("")
}

impl Pause {
    fn after(&self) -> Option<Duration> {
        self.after_ms.map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_of_the_protocol_is_read() {
        let second = Some(Duration::from_secs(1));
        for (rest, said) in [
            (r#""ok":[7]"#, Said::Sent { receipt: None }),
            (r#""ok":"all""#, Said::Sent { receipt: None }),
            (r#""retry":[{"id":7,"after_ms":1000,"reason":"x"}]"#, Said::Retry { after: second }),
            (r#""untried":[{"id":7,"reason":"x"}]"#, Said::Untried { after: None }),
            (r#""in_doubt":[{"id":7,"reason":"x"}]"#, Said::InDoubt { reason: "x".to_owned() }),
            (
                r#""exact":true,"dead":[{"id":7,"reason":"x","unknown_address":true}]"#,
                Said::Dead { reason: "x".to_owned(), unknown_address: true },
            ),
            (
                r#""unavailable":{"after_ms":1000,"reason":"421"}"#,
                Said::Unavailable { after: second, reason: "421".to_owned() },
            ),
            (
                r#""ok":[7],"in_doubt":[{"id":7,"reason":"x"}]"#,
                Said::InDoubt { reason: "x".to_owned() },
            ),
        ] {
            let line = format!(r#"{{"batch":"b",{rest}}}"#);
            let expected = Answer::Verdict { batch: "b".to_owned(), said };
            assert_eq!(read(line.as_bytes()), expected, "{line}");
        }
        let line = br#"{"working":["b"],"slow":["b"]}"#;
        assert_eq!(read(line), Answer::Working(vec!["b".to_owned()]));
    }

    #[test]
    fn what_a_server_repeats_of_a_mail_is_in_no_reason() {
        let link = format!("https://shop.example/activate?token={}", "aB3-".repeat(22));
        let text = format!("554 5.7.1 <dora@y.example>: blocked URL {link}");
        for rest in [
            format!(r#""dead":[{{"id":7,"reason":"{text}"}}]"#),
            format!(r#""in_doubt":[{{"id":7,"reason":"{text}"}}]"#),
            format!(r#""unavailable":{{"reason":"{text}"}}"#),
        ] {
            let read = read(format!(r#"{{"batch":"b",{rest}}}"#).as_bytes());
            let Answer::Verdict { said, .. } = read else { panic!("{rest}") };
            let said = format!("{said:?}");
            assert!(said.contains("554 5.7.1 [address] blocked URL [secret]"), "{said}");
        }
    }

    #[test]
    fn what_is_no_answer_is_passed_over() {
        for line in [&b"x"[..], b"", b"{}", br#"{"batch":"b"}"#, br#"{"batch":"b","ok":[]}"#] {
            assert_eq!(read(line), Answer::Nothing);
        }
    }
}
