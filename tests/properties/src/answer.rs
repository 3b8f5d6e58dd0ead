//! Answers of senders, compared with a reading of the protocol's table.

use std::time::Duration;

use mailroom::queue::BatchId;
use mailroom::sink::{Reply, SentTokens, parse_reply};
use serde_json::{Map, Value};

/// Reads a line as an answer.
///
/// # Panics
/// If it is taken for something that it does not say, or a text in it is kept as nobody may have it
/// in a log; if the same answer in the parser's own spelling is judged
/// in another way than by the table.
pub fn sender_answer(data: &[u8]) {
    let written: Option<Value> = serde_json::from_slice(data).ok();
    if written.as_ref().is_some_and(has_list_for_object) {
        // A derived struct accepts the list of its values, too.
        parse_reply(data).ok();
        return;
    }
    let reply = parse_reply(data);
    if let Ok(Reply::Working(work)) = &reply {
        let written = written.as_ref().expect("a sign of work is JSON");
        let names = |batches: &[BatchId]| batches.iter().map(BatchId::to_string).collect::<Value>();
        assert_eq!(written["working"], names(&work.batches));
        let slow = written.get("slow").cloned().unwrap_or_else(|| names(&[]));
        assert_eq!(slow, names(&work.slow));
    }
    if let Ok(Reply::Answer(answer)) = reply {
        let written = written.as_ref().expect("an answer is JSON");
        assert_eq!(written["batch"], answer.batch.to_string());
        match &answer.ok {
            SentTokens::All => assert_eq!(written["ok"], "all"),
            SentTokens::Ids(ids) => {
                assert_eq!(ids.len(), written["ok"].as_array().map_or(0, Vec::len));
            }
        }
        let ids = |field: &str| -> Vec<i64> {
            let list = written[field].as_array().into_iter().flatten();
            list.map(|token| token["id"].as_i64().expect("an id is a whole number")).collect()
        };
        assert_eq!(answer.retry.iter().map(|token| token.id).collect::<Vec<_>>(), ids("retry"));
        assert_eq!(answer.untried.iter().map(|token| token.id).collect::<Vec<_>>(), ids("untried"));
        assert_eq!(answer.dead.iter().map(|token| token.id).collect::<Vec<_>>(), ids("dead"));
        assert_eq!(
            answer.in_doubt.iter().map(|token| token.id).collect::<Vec<_>>(),
            ids("in_doubt")
        );
        assert_eq!(
            answer.receipts.iter().map(|receipt| receipt.id).collect::<Vec<_>>(),
            ids("receipts")
        );
        assert_eq!(answer.exact, written["exact"] == true);
        for receipt in &answer.receipts {
            assert!(!receipt.provider.is_empty() && receipt.provider.len() <= 32);
            let id = receipt.message_id.as_deref().unwrap_or_default();
            for text in [id, &receipt.answer] {
                assert!(text.len() <= 200 && !text.chars().any(char::is_control));
            }
            assert!(!receipt.answer.contains('@'));
        }
        assert_eq!(answer.unavailable.is_some(), !written["unavailable"].is_null());
        let pauses = answer.retry.iter().chain(&answer.untried).map(|token| token.after);
        for pause in pauses.chain(answer.unavailable.iter().map(|unavailable| unavailable.after)) {
            assert!(pause.is_none_or(|pause| pause <= Duration::from_secs(86_400)));
        }
        let reasons = answer.retry.iter().chain(&answer.untried).map(|token| &token.reason);
        let reasons =
            reasons.chain(answer.unavailable.iter().map(|unavailable| &unavailable.reason));
        let reasons = reasons.chain(answer.in_doubt.iter().map(|token| &token.reason));
        for reason in reasons.chain(answer.dead.iter().map(|token| &token.reason)) {
            assert!(!reason.is_empty() && reason.len() <= 500);
            assert!(!reason.chars().any(|character| character.is_control() || character == '@'));
        }
    }
    if let Some(written) = written {
        // Without fields that occur twice, which a value does not show.
        let text = serde_json::to_vec(&written).expect("a value can be written");
        assert_eq!(
            parse_reply(&text).is_ok(),
            is_working(&written) || is_answer(&written),
            "{written}"
        );
    }
}

fn has_list_for_object(value: &Value) -> bool {
    let lists = ["retry", "untried", "in_doubt", "dead", "receipts"]
        .into_iter()
        .filter_map(|field| value[field].as_array());
    [value, &value["unavailable"]].into_iter().chain(lists.flatten()).any(Value::is_array)
}

/// A sign of work, as docs/reference/sender-protocol.md has it.
fn is_working(value: &Value) -> bool {
    let Value::Object(fields) = value else { return false };
    let is_id = |name: &Value| name.as_str().is_some_and(is_uuid);
    let are_ids = |list: &Value| list.as_array().is_some_and(|ids| ids.iter().all(is_id));
    fields.keys().all(|name| name == "working" || name == "slow")
        && fields.get("working").is_some_and(are_ids)
        && fields.get("slow").is_none_or(are_ids)
}

/// The table of docs/reference/sender-protocol.md.
fn is_answer(value: &Value) -> bool {
    let Value::Object(fields) = value else { return false };
    let known = |fields: &Map<String, Value>, names: &[&str]| {
        fields.keys().all(|name| names.contains(&name.as_str()))
    };
    let is_why = |why: &Map<String, Value>, names: &[&str]| {
        let is_text = |text: &Value| text.is_null() || text.is_string();
        known(why, names)
            && why.get("after_ms").is_none_or(|pause| pause.is_null() || pause.is_u64())
            && ["reason", "message_id", "answer"]
                .iter()
                .all(|text| why.get(*text).is_none_or(is_text))
            && why.get("provider").is_none_or(Value::is_string)
            && why.get("unknown_address").is_none_or(Value::is_boolean)
    };
    let is_list = |name: &str, names: &[&str]| match fields.get(name) {
        None => true,
        Some(Value::Array(tokens)) => tokens.iter().all(|token| {
            let Value::Object(token) = token else { return false };
            is_why(token, names) && token.get("id").is_some_and(Value::is_i64)
        }),
        Some(_) => false,
    };
    let is_unavailable = match fields.get("unavailable") {
        None | Some(Value::Null) => true,
        Some(Value::Object(why)) => is_why(why, &["after_ms", "reason"]),
        Some(_) => false,
    };
    let is_ok = match fields.get("ok") {
        None => true,
        Some(Value::Array(ids)) => ids.iter().all(Value::is_i64),
        Some(text) => text == "all",
    };
    let has_providers = match fields.get("receipts") {
        Some(Value::Array(receipts)) => {
            receipts.iter().all(|receipt| receipt.get("provider").is_some())
        }
        _ => true,
    };
    let names =
        ["batch", "ok", "retry", "untried", "in_doubt", "dead", "unavailable", "exact", "receipts"];
    known(fields, &names)
        && has_providers
        && fields.get("exact").is_none_or(Value::is_boolean)
        && is_unavailable
        && fields.get("batch").and_then(Value::as_str).is_some_and(is_uuid)
        && is_ok
        && is_list("retry", &["id", "after_ms", "reason"])
        && is_list("untried", &["id", "after_ms", "reason"])
        && is_list("in_doubt", &["id", "reason"])
        && is_list("dead", &["id", "reason", "unknown_address"])
        && is_list("receipts", &["id", "provider", "message_id", "answer"])
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && text
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
