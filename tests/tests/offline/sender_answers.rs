//! What the collector makes of a sender's answer before it looks at the batch. Which lines are
//! answers: `tests/properties`.

use mailroom::sink::parse_answer;
use serde_json::json;

const BATCH: &str = "01234567-89ab-cdef-0011-223344556677";

#[test]
fn what_is_not_exactly_an_answer_is_described_without_its_text() {
    let value = "a value has the wrong type or is out of range";
    let unknown = "it has a field that the protocol does not know";
    let duplicate = "it has a field twice";
    for (fault, rest) in [
        (value, r#","ok":"ada@x.test"}"#),
        (value, r#","ok":{"all":null}}"#),
        (unknown, r#","ada@x.test":5}"#),
        (unknown, r#","dead":[{"id":1,"after_ms":5}]}"#),
        (unknown, r#","unavailable":{},"missing\u0020field":0}"#),
        (duplicate, r#","ok":[],"ok":"all"}"#),
        (duplicate, r#","dead":[{"id":1,"id":2}]}"#),
        ("a `batch` or an `id` is missing", r#","retry":[{"reason":"x"}]}"#),
        ("it is no JSON", "}{"),
        ("it is no JSON", &format!(r#","ok":{}"#, "[".repeat(100_000))),
    ] {
        let error = parse_answer(format!("{{\"batch\":\"{BATCH}\"{rest}").as_bytes()).unwrap_err();
        let expected = format!("it is no answer: {fault} at byte ");
        assert!(
            error.starts_with(&expected) && error.len() < expected.len() + 7,
            "{error}: {rest:.80}"
        );
    }
}

#[test]
fn invisible_characters_addresses_and_tokens_of_a_reason_are_replaced() {
    let link = format!("opened https://example.test/activate?token={}", "aB3_-".repeat(8));
    let cut = format!("{}ü…", "ü ".repeat(165));
    for (reason, expected) in [
        ("550 5.1.1 no such user", "550 5.1.1 no such user"),
        ("  a \t b\r\n", "a b"),
        (" \n", "no reason given"),
        (
            "a\nINFO forged\u{1b}[2Jb\0c\u{202e}d\u{9b}e\u{2028}f\u{feff}",
            "a INFO forged [2Jb c d e f",
        ),
        ("550 <ada@example.test>: no such user", "550 [address] no such user"),
        ("ada%40example.test bounced", "[address] bounced"),
        (&link, "opened [secret]"),
        (&"ü ".repeat(1_000), &cut),
    ] {
        let answer = json!({ "batch": BATCH, "dead": [{ "id": 1, "reason": reason }] }).to_string();
        assert_eq!(parse_answer(answer.as_bytes()).unwrap().dead[0].reason, expected);
    }
}
