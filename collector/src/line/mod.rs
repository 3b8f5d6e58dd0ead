//! Batches as lines for the reader.

mod csv;
mod ndjson;
mod payload;
mod sign;

use mailroom_verifier_core::Signer;

use crate::config::LineFormat;
use crate::line::sign::sign;
use crate::queue::{Batch, BatchId, Nack, Traceparent};

/// A signed batch, written out. Not `Debug`: the bytes hold addresses and tokens.
pub(crate) struct Line {
    pub(crate) batch: BatchId,
    /// The bytes with the line feed at the end; empty if no token of the batch can be sent.
    pub(crate) bytes: Vec<u8>,
    pub(crate) ids: Vec<i64>,
    /// The tokens whose rows cannot become a mail.
    pub(crate) rejected: Vec<(i64, Nack)>,
    /// The traces of all tokens of the batch that have one.
    pub(crate) traces: Vec<(i64, Traceparent)>,
}

impl Line {
    /// Signs the tokens of `batch` and writes the valid ones, in their order, as one line; for a
    /// sender, with what only a sender is told.
    pub(crate) fn of(
        batch: &Batch,
        signer: &Signer,
        format: LineFormat,
        is_for_sender: bool,
    ) -> Self {
        let mut bytes = Vec::with_capacity(64 + 320 * batch.tokens.len());
        let mut ids = Vec::with_capacity(batch.tokens.len());
        let mut rejected = Vec::new();
        if format == LineFormat::Ndjson {
            ndjson::begin(&mut bytes, batch.id, is_for_sender);
        }
        for token in &batch.tokens {
            let written = sign(signer, token).and_then(|signed| match format {
                LineFormat::Csv => csv::append(&mut bytes, token, signed.as_ref()),
                LineFormat::Ndjson => ndjson::append(
                    &mut bytes,
                    ids.is_empty(),
                    is_for_sender,
                    token,
                    signed.as_ref(),
                ),
            });
            match written {
                Ok(()) => ids.push(token.id),
                Err(row) => rejected.push((token.id, Nack::Dead { reason: row.to_string() })),
            }
        }
        match format {
            _ if ids.is_empty() => bytes.clear(),
            LineFormat::Csv => bytes.push(b'\n'),
            LineFormat::Ndjson => ndjson::end(&mut bytes),
        }
        // Lines of thousands of tokens are in memory at a time.
        bytes.shrink_to_fit();
        let traces = batch.traces();
        Self { batch: batch.id, bytes, ids, rejected, traces }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Token;
    use mailroom_verifier_core::{Action, Further};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn recovery(id: i64) -> Token {
        Token {
            action: Action::Recover,
            code: Some(b"01234".to_vec()),
            ..Token::example(id, b"ada")
        }
    }

    fn signer() -> Signer {
        Signer::V1((&[7; 32]).into())
    }

    fn written(tokens: &[Token], format: LineFormat) -> Line {
        Line::of(
            &Batch { id: BatchId::from(0xabc), tokens: tokens.to_vec() },
            &signer(),
            format,
            false,
        )
    }

    #[test]
    fn a_line_has_its_fields_in_their_order_and_a_mail_without_a_link_an_empty_token() {
        let action = Action::Further(Further { number: 106, name: "notice", path: "", digits: 0 });
        let payload = concat!(
            r#"{"a": [1.50, 1e300, 123456789012345678901], "ü\\": "\"\u0000\u2028"#,
            "\u{7f}\u{2028}\u{1f600}\"}"
        );
        let says = |payload: &[u8]| Token {
            action,
            language: Some("de-CH".to_owned()),
            payload: Some(payload.to_vec()),
            ..Token::example(7, b"")
        };
        let ndjson =
            String::from_utf8(written(&[says(payload.as_bytes())], LineFormat::Ndjson).bytes)
                .unwrap();
        let line = concat!(
            r#"{"v":1,"batch":"00000000-0000-0000-0000-000000000abc","items":[{"id":7,"#,
            r#""attempt":2,"action":"notice","path":"","email":"a@b.test","login":"","#,
            r#""token":"","code":"","expires_at":1800000900,"#,
            r#""key":"6560721bf29d021047089ac2ff556617","language":"de-CH","#,
            r#""payload":{"a": [1.50, 1e300, 123456789012345678901], "\u00fc\\": "#,
            r#""\"\u0000\u2028\u007f\u2028\ud83d\ude00"}}]}"#,
            "\n"
        );
        assert_eq!(ndjson, line);
        let csv = written(&[says(b"null"), says(b"null")], LineFormat::Csv).bytes;
        assert_eq!(String::from_utf8(csv).unwrap(), "106,a@b.test,,,,106,a@b.test,,,\n");
        for (payload, contains) in [
            (&b""[..], "what is not JSON"),
            (b"{} {}", "what is not JSON"),
            (br#"{"a":1"#, "what is not JSON"),
            (b"\"\n\"", "what is not JSON"),
            (b"\"\xff\"", "bytes that are not UTF-8"),
            (b"[1e400]", "a number that is too large"),
            (&[b'['; 101], "more than 100 levels"),
        ] {
            let line = written(&[says(payload), recovery(2)], LineFormat::Ndjson);
            let reason = format!("its payload contains {contains}");
            assert_eq!(line.rejected, [(7, Nack::Dead { reason })]);
            assert_eq!(line.bytes, written(&[recovery(2)], LineFormat::Ndjson).bytes);
        }
    }

    #[test]
    fn a_trace_is_the_last_member_of_its_item_and_changes_nothing_else() {
        let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let traced = || Token { traceparent: Traceparent::parse(traceparent), ..recovery(2) };
        for format in [LineFormat::Ndjson, LineFormat::Csv] {
            let plain = written(&[recovery(1), recovery(2), recovery(3)], format);
            let line = written(&[recovery(1), traced(), recovery(3)], format);
            let text = |line: &Line| String::from_utf8(line.bytes.clone()).unwrap();
            let expected = match format {
                LineFormat::Csv => text(&plain),
                LineFormat::Ndjson => text(&plain).replace(
                    "},{\"id\":3",
                    &format!(",\"traceparent\":\"{traceparent}\"}},{{\"id\":3"),
                ),
            };
            assert_eq!(text(&line), expected);
            assert_eq!(plain.traces, []);
            assert_eq!(line.traces, [(2, Traceparent::parse(traceparent).unwrap())]);
        }
    }

    #[test]
    fn only_a_sender_is_told_what_is_understood_and_what_goes_first_or_ended_in_doubt() {
        let doubtful = Token { doubts: 2, priority: Some(0), ..Token::example(1, b"ada") };
        let batch =
            Batch { id: BatchId::from(1), tokens: vec![Token::example(2, b"bob"), doubtful] };
        let line = |is_for_sender| -> Value {
            let line = Line::of(&batch, &signer(), LineFormat::Ndjson, is_for_sender);
            serde_json::from_slice(&line.bytes).unwrap()
        };
        let (printed, sent) = (line(false), line(true));
        assert_eq!(
            sent["knows"],
            json!([
                "in_doubt",
                "working",
                "exact",
                "receipts",
                "unknown_address",
                "untried",
                "slow",
                "handed_over",
            ])
        );
        assert_eq!(
            (&sent["items"][0]["doubts"], &sent["items"][1]["doubts"]),
            (&Value::Null, &json!(2))
        );
        let priorities = [&sent["items"][0]["priority"], &sent["items"][1]["priority"]];
        assert_eq!(priorities, [&json!(1), &json!(0)]);
        let mut plain = sent.clone();
        plain.as_object_mut().unwrap().remove("knows");
        for item in plain["items"].as_array_mut().unwrap() {
            let item = item.as_object_mut().unwrap();
            item.remove("doubts");
            item.remove("priority");
        }
        assert_eq!(plain, printed);
    }

    proptest! {
        #[test]
        fn every_text_reads_back_from_ascii(texts in prop::collection::vec(any::<String>(), 1..4)) {
            let token = |text: &String| Token::example(1, text.as_bytes());
            let tokens: Vec<_> = texts.iter().map(token).collect();
            let line = written(&tokens, LineFormat::Ndjson).bytes;
            let (end, text) = line.split_last().unwrap();
            prop_assert!(*end == b'\n' && text.iter().all(|byte| matches!(byte, b' '..=b'~')));
            let read: Value = serde_json::from_slice(text).unwrap();
            for (item, text) in read["items"].as_array().unwrap().iter().zip(&texts) {
                prop_assert_eq!(&item["login"], &json!(text));
            }
        }
    }
}
