//! Reading a line: the batch first, and then each item on its own, so that what is wrong with one
//! costs no other.
//!
//! A line that is no JSON as a whole is taken apart by its brackets, since its tokens must get
//! verdicts: an item that is whole counts, and of the others the id is looked for. Nothing of a
//! line is ever repeated in a reason.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Batch, Item, Knows, VERSION};

/// An item that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The token's row, if that can be found.
    pub id: Option<i64>,
    /// What is wrong.
    pub reason: String,
}

/// Why a line is not a batch. Nothing of the line is repeated, except for the batch's id.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidLine {
    /// The id of the batch, if it is one of another version, so that its tokens can be given back.
    pub batch: Option<String>,
    /// What is wrong.
    pub reason: String,
}

/// Reads a line.
///
/// # Errors
/// Another version than 1, and text in which no batch with an id can be found.
pub fn parse_line(line: &[u8]) -> Result<Batch, InvalidLine> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        v: u64,
        batch: String,
        #[serde(default)]
        knows: Value,
        #[serde(borrow, default)]
        items: Vec<&'a RawValue>,
    }
    let text = String::from_utf8_lossy(line);
    let is_utf8 = matches!(text, std::borrow::Cow::Borrowed(_));
    let parsed = serde_json::from_str::<Envelope<'_>>(&text).map_err(|error| error.column());
    let (v, batch, knows, items) = if let Ok(Envelope { v, batch, knows, items }) = &parsed {
        let items = items.iter().map(|item| item.get()).collect();
        (Some(*v), Some(batch.clone()), Knows::of(knows), items)
    } else {
        let batch = after_name(&text, "batch").and_then(string).map(str::to_owned);
        let v = after_name(&text, "v").and_then(number).and_then(|v| u64::try_from(v).ok());
        (v, batch, Knows::default(), pieces(&text))
    };
    let column = parsed.as_ref().err().copied().unwrap_or_default();
    let (Some(v), Some(batch)) = (v, batch) else {
        let reason =
            format!("a line is not a batch of the sender protocol: parsing fails at byte {column}");
        return Err(InvalidLine { batch: None, reason });
    };
    if v != u64::from(VERSION) {
        let reason = format!("a batch has version {v}, and this program knows only {VERSION}");
        return Err(InvalidLine { batch: Some(batch), reason });
    }
    let mut batch = Batch { batch, knows, items: Vec::new(), unreadable: Vec::new() };
    for text in items {
        match item(text, is_utf8) {
            Ok(item) => batch.items.push(item),
            Err(unreadable) => batch.unreadable.push(unreadable),
        }
    }
    Ok(batch)
}

fn item(text: &str, is_utf8: bool) -> Result<Item, Unreadable> {
    if !is_utf8 && text.contains(char::REPLACEMENT_CHARACTER) {
        return Err(Unreadable { id: id(text), reason: "its line is not UTF-8".to_owned() });
    }
    serde_json::from_str(text).map_err(|error| {
        // serde's own words quote the line.
        let fault = if error.is_data() {
            "a field is missing, twice there or of the wrong type"
        } else {
            "it is no JSON that can be read: a number is too large, a text no Unicode, \
             or it is nested too deep"
        };
        Unreadable { id: id(text), reason: format!("its line cannot be used: {fault}") }
    })
}

/// The id of an item that cannot be read.
fn id(text: &str) -> Option<i64> {
    #[derive(Deserialize)]
    struct OnlyId {
        id: i64,
    }
    let parsed = serde_json::from_str::<OnlyId>(text).ok().map(|item| item.id);
    parsed.or_else(|| after_name(text, "id").and_then(number))
}

/// What stands behind the first member of this name. A text of the line may look like one, but
/// names no token of this batch then, or another one whose line cannot be read.
fn after_name<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("\"{name}\""))?;
    Some(rest.trim_start().strip_prefix(':')?.trim_start())
}

fn number(text: &str) -> Option<i64> {
    let text = text.trim_start_matches('"');
    let is_of_number = |character: char| character.is_ascii_digit() || character == '-';
    text[..text.find(|character| !is_of_number(character)).unwrap_or(text.len())].parse().ok()
}

fn string(text: &str) -> Option<&str> {
    let (text, _) = text.strip_prefix('"')?.split_once('"')?;
    (!text.contains('\\')).then_some(text)
}

/// The objects of the list `items`, by their brackets.
fn pieces(text: &str) -> Vec<&str> {
    let Some(list) = after_name(text, "items").and_then(|text| text.strip_prefix('[')) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut start = None;
    let mut depth = 0_usize;
    let mut is_text = false;
    let mut is_escaped = false;
    for (place, byte) in list.bytes().enumerate() {
        if is_text {
            is_text = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => is_text = true,
            b'{' | b'[' => {
                depth += 1;
                if depth == 1 {
                    start = Some(place);
                }
            }
            b'}' | b']' => {
                let Some(less) = depth.checked_sub(1) else { return found };
                depth = less;
                if depth == 0 {
                    found.extend(start.take().map(|start| &list[start..=place]));
                }
            }
            _ => {}
        }
    }
    // One that is cut, or has a bracket too few.
    found.extend(start.map(|start| &list[start..]));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "b9a16650bbdcba5dd0298fef5dd25661";

    fn item(id: i64) -> String {
        format!(
            concat!(
                r#"{{"id":{id},"key":"{key}","action":"recover","path":"/recover","#,
                r#""email":"ada@x.test","login":"ada","token":"t","code":"01234","expires_at":5}}"#,
            ),
            id = id,
            key = KEY
        )
    }

    fn with(rest: &str) -> String {
        item(7).replace('}', &format!(",{rest}}}"))
    }

    fn line(items: &[&str]) -> String {
        format!(r#"{{"v":1,"batch":"b","items":[{}]}}"#, items.join(","))
    }

    #[test]
    fn a_line_is_read_and_fields_of_later_versions_are_ignored() {
        for text in [item(7), with(r#""attempt":3,"later":[{}]"#)] {
            let batch = parse_line(line(&[&text]).as_bytes()).unwrap();
            let item = &batch.items[0];
            assert_eq!(
                (batch.batch.as_str(), item.id, item.key.to_string().as_str()),
                ("b", 7, KEY)
            );
            assert_eq!((item.doubts, batch.knows), (0, Knows::default()));
        }
        let text = line(&[&with(r#""doubts":2"#)])
            .replace("\"items\"", r#""knows":["in_doubt","receipts","later",5],"items""#);
        let batch = parse_line(text.as_bytes()).unwrap();
        assert_eq!(batch.items[0].doubts, 2);
        assert_eq!(batch.knows, Knows { in_doubt: true, receipts: true, ..Knows::default() });
        for knows in ["null", "5", "\"working\""] {
            let text = line(&[]).replace("\"items\"", &format!("\"knows\":{knows},\"items\""));
            assert_eq!(parse_line(text.as_bytes()).unwrap().knows, Knows::default());
        }
    }

    #[test]
    fn an_item_that_cannot_be_read_costs_no_other_and_has_its_id() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for (bad, id) in [
            (with(r#""payload":1e400"#), Some(7)),
            (with(&format!(r#""payload":{}"#, deep(200))), Some(7)),
            (with(&format!(r#""payload":{}"#, deep(100_000))), Some(7)),
            (with(r#""payload":"\ud800""#), Some(7)),
            (with(r#""payload":{"\udfff":1}"#), Some(7)),
            (with(r#""login":"twice""#), Some(7)),
            (with(r#""doubts":-1"#), Some(7)),
            (with(r#""payload":NaN"#), Some(7)),
            (with(r#""payload":{"a":}"#), Some(7)),
            (with("\"payload\":\"a\tb\""), Some(7)),
            (with("\"payload\":\"]}{[\\\"\",\"x\":nul"), Some(7)),
            (item(7).replace(KEY, "ada@x.test"), Some(7)),
            (item(7).replace(KEY, &KEY.to_uppercase()), Some(7)),
            (item(7).replace("\"id\":7", "\"id\":\"7\""), Some(7)),
            (item(7).replace("\"id\":7", "\"id\" : 7 , \"id\":7"), Some(7)),
            (item(7).replace("\"expires_at\":5", "\"expires_at\":5e300"), Some(7)),
            (item(7).replace("\"login\":\"ada\",", ""), Some(7)),
            (item(7).replace("\"id\":7", "\"id\":9223372036854775808"), None),
            (item(7).replace("\"id\":7,", ""), None),
            ("null".to_owned(), None),
            ("[]".to_owned(), None),
        ] {
            let text = line(&[&item(1), &bad, &item(2)]);
            let batch = parse_line(text.as_bytes()).unwrap();
            let ids: Vec<_> = batch.items.iter().map(|item| item.id).collect();
            assert_eq!((batch.batch.as_str(), ids), ("b", vec![1, 2]), "{bad:.300}");
            let [Unreadable { id: found, reason }] = &batch.unreadable[..] else {
                panic!("{bad:.300}")
            };
            assert_eq!(*found, id, "{bad:.300}");
            assert!(!reason.contains("ada") && reason.len() < 150, "{reason}");
        }
    }

    #[test]
    fn what_is_no_unicode_is_one_items_fault() {
        let text = line(&[&item(1), &item(7).replace("\"ada\"", "\"ad?\""), &item(2)]);
        let bytes: Vec<u8> =
            text.bytes().map(|byte| if byte == b'?' { 0xff } else { byte }).collect();
        let batch = parse_line(&bytes).unwrap();
        assert_eq!(batch.items.iter().map(|item| item.id).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(batch.unreadable[0].id, Some(7));
    }

    #[test]
    fn a_line_that_is_cut_loses_only_the_item_in_which_it_is_cut() {
        let text = line(&[&item(1), &item(7)]);
        let start = text.find("\"id\":7").unwrap();
        for length in start + 7..text.len() - 2 {
            let batch = parse_line(&text.as_bytes()[..length]).unwrap();
            assert_eq!(batch.items.len(), 1, "{length}");
            assert_eq!(batch.unreadable.iter().map(|item| item.id).collect::<Vec<_>>(), [Some(7)]);
        }
    }

    #[test]
    fn what_is_no_batch_is_described_without_its_text_and_by_its_id_if_it_has_one() {
        for (text, batch) in [
            ("ada@x.test".to_owned(), None),
            ("[]".to_owned(), None),
            (String::new(), None),
            ("[".repeat(100_000), None),
            (r#"{"v":1,"items":[]}"#.to_owned(), None),
            (r#"{"v":1,"batch":5,"items":[]}"#.to_owned(), None),
            (r#"{"v":2,"batch":"b","items":"ada@x.test"}"#.to_owned(), Some("b".to_owned())),
        ] {
            let error = parse_line(text.as_bytes()).unwrap_err();
            assert_eq!(error.batch, batch, "{text:.80}");
            assert!(!error.reason.contains("ada") && error.reason.len() < 100, "{}", error.reason);
        }
    }
}
