//! Verdicts as arrays of equal length, one a parameter. Their texts come from whoever can write to
//! the broker: they are redacted and cut as those of a sender.

use mailroom_redact::redact;
use mailroom_relay::{Kind, Verdict};
use tokio_postgres::types::{ToSql, Type};

use crate::queue::{Receipt, storable};
use crate::sink::parse_receipt;

/// Tokens, keys, kinds, attempts, doubts and reasons; providers, their ids and answers.
#[derive(Debug, Default)]
pub(super) struct Columns {
    tokens: Vec<i64>,
    keys: Vec<String>,
    kinds: Vec<&'static str>,
    attempts: Vec<i32>,
    doubts: Vec<i32>,
    reasons: Vec<Option<String>>,
    providers: Vec<Option<String>>,
    message_ids: Vec<Option<String>>,
    answers: Vec<Option<String>>,
}

impl Columns {
    pub(super) fn of(verdicts: &[Verdict], suppresses_unknown: bool, is_unicode: bool) -> Self {
        let text = |text: &String| storable(text, is_unicode);
        let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let mut columns = Self::default();
        for verdict in verdicts {
            let is_unknown = verdict.kind == Kind::Dead && verdict.unknown_address;
            let kind = if is_unknown && suppresses_unknown {
                "unknown_address"
            } else {
                word(verdict.kind)
            };
            columns.tokens.push(verdict.id);
            columns.keys.push(storable(&verdict.key, false));
            columns.kinds.push(kind);
            columns.attempts.push(number(verdict.attempt));
            columns.doubts.push(number(verdict.doubts));
            let has_reason = verdict.reason.is_some() || verdict.kind == Kind::Expired;
            columns.reasons.push(has_reason.then(|| text(&reason(verdict))));
            let receipt = verdict.receipt.as_ref().and_then(parse_receipt);
            let of_receipt =
                |of: fn(&Receipt) -> Option<&String>| receipt.as_ref().and_then(of).map(text);
            columns.providers.push(of_receipt(|receipt| Some(&receipt.provider)));
            columns.message_ids.push(of_receipt(|receipt| receipt.message_id.as_ref()));
            columns.answers.push(of_receipt(|receipt| Some(&receipt.answer)));
        }
        columns
    }

    pub(super) fn parameters(&self) -> [(&(dyn ToSql + Sync), Type); 9] {
        [
            (&self.tokens, Type::INT8_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.kinds, Type::TEXT_ARRAY),
            (&self.attempts, Type::INT4_ARRAY),
            (&self.doubts, Type::INT4_ARRAY),
            (&self.reasons, Type::TEXT_ARRAY),
            (&self.providers, Type::TEXT_ARRAY),
            (&self.message_ids, Type::TEXT_ARRAY),
            (&self.answers, Type::TEXT_ARRAY),
        ]
    }
}

/// The word for a kind, in the database and in metrics.
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Sent => "sent",
        Kind::Dead => "dead",
        Kind::Expired => "expired",
        Kind::InDoubt => "in_doubt",
    }
}

/// Why it was not sent, without addresses and what looks like a token. That it has expired is one
/// where its time is not over.
pub(super) fn reason(verdict: &Verdict) -> String {
    if verdict.kind == Kind::Expired {
        return "a sender whose clock is ahead took it for expired".to_owned();
    }
    redact(verdict.reason.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn columns(verdict: &Value, suppresses_unknown: bool) -> Columns {
        let mut all = json!({"v": 1, "id": 7, "key": "ab", "action": "activate", "at": 5});
        all.as_object_mut().unwrap().extend(verdict.as_object().unwrap().clone());
        let verdict = serde_json::from_value(all).unwrap();
        Columns::of(&[verdict], suppresses_unknown, true)
    }

    #[test]
    fn what_a_stranger_writes_to_the_broker_is_redacted_and_cut() {
        let token = "aB3_-".repeat(9);
        let said = format!("550 <ada@x.test> {token}\u{0}{}", "x ".repeat(1_000));
        let dead = columns(&json!({"verdict": "dead", "reason": said}), false);
        let reason = dead.reasons[0].clone().unwrap();
        assert!(reason.starts_with("550 [address] [secret]") && reason.len() < 600, "{reason}");
        let receipt = json!({"id": 7, "provider": "S;MTP", "answer": said});
        let sent = columns(&json!({"verdict": "sent", "receipt": receipt}), false);
        let answer = sent.answers[0].clone().unwrap();
        assert!(!answer.contains("x.test") && !answer.contains(&token), "{answer}");
        assert_eq!(sent.providers, [Some("smtp".to_owned())]);
        let broken = columns(&json!({"verdict": "sent", "receipt": [1]}), false);
        assert_eq!((broken.kinds, broken.providers), (vec!["sent"], vec![None]));
    }

    #[test]
    fn an_address_is_suppressed_where_the_settings_want_it() {
        let unknown = json!({"verdict": "dead", "unknown_address": true, "reason": "550 5.1.1"});
        assert_eq!(columns(&unknown, true).kinds, ["unknown_address"]);
        assert_eq!(columns(&unknown, false).kinds, ["dead"]);
        let sent = json!({"verdict": "sent", "unknown_address": true});
        assert_eq!(columns(&sent, true).kinds, ["sent"]);
    }
}
