//! The answers of a sender, of batches of one mail each. Reasons and receipts are redacted as they
//! are read: mail servers repeat addresses and links, and both the log and the broker would keep
//! them.

use std::time::Duration;

use mailroom_answers::{Reply, SentTokens, TokenReceipt, parse_reply};
use serde_json::Value;

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
    let answer = match parse_reply::<String>(line) {
        Ok(Reply::Answer(answer)) => answer,
        Ok(Reply::Working(work)) => return Answer::Working(work.batches),
        Err(_) => return Answer::Nothing,
    };
    let is_sent = match &answer.ok {
        SentTokens::Ids(ids) => !ids.is_empty(),
        SentTokens::All => true,
    };
    let said = if let Some(doubtful) = answer.in_doubt.into_iter().next() {
        Said::InDoubt { reason: doubtful.reason }
    } else if let Some(retried) = answer.retry.first() {
        Said::Retry { after: retried.after }
    } else if let Some(untried) = answer.untried.first() {
        Said::Untried { after: untried.after }
    } else if let Some(dead) = answer.dead.into_iter().next() {
        Said::Dead { reason: dead.reason, unknown_address: dead.unknown_address }
    } else if is_sent {
        Said::Sent { receipt: answer.receipts.first().and_then(TokenReceipt::to_json) }
    } else if let Some(unavailable) = answer.unavailable {
        Said::Unavailable { after: unavailable.after, reason: unavailable.reason }
    } else {
        return Answer::Nothing;
    };
    Answer::Verdict { batch: answer.batch, said }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_answer_of_the_protocol_is_read() {
        let second = Some(Duration::from_secs(1));
        for (rest, said) in [
            (r#""ok":[7]"#, Said::Sent { receipt: None }),
            (r#""ok":"all""#, Said::Sent { receipt: None }),
            (
                r#""ok":[7],"receipts":[{"id":7,"provider":"smtp","answer":"250 <d@y.example>"}]"#,
                Said::Sent {
                    receipt: Some(json!({
                        "id": 7,
                        "provider": "smtp",
                        "message_id": null,
                        "answer": "250 [address]",
                    })),
                },
            ),
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
