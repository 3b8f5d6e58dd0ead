//! The sender protocol of OPERATIONS.md: the lines that are read, and the answers that are written.
//!
//! The collector writes the former and parses the latter; a test lets each side read what the other one wrote.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The version of the lines that this program understands.
const VERSION: u32 = 1;

/// The longest reason that is written, in bytes. The collector keeps less.
const LONGEST_REASON: usize = 1_000;

/// A line: one batch.
#[derive(Debug, Deserialize)]
pub struct Batch {
    /// Its id, which answers carry.
    pub batch: String,
    /// Its tokens.
    pub items: Vec<Item>,
}

/// A token to be sent. Fields that this program does not know are ignored: the protocol may get more of them.
///
/// Not `Debug`: it holds a token and an address.
#[derive(Deserialize)]
pub struct Item {
    /// The token's row.
    pub id: i64,
    /// The consumed-token id: the same at every attempt, whichever key signs the token and whatever the row's id is.
    pub key: Key,
    /// What the mail is for: `activate`, `recover` or another action.
    pub action: String,
    /// The path of the link; empty with the token for a mail without a link.
    pub path: String,
    /// The account's address. Input from strangers.
    pub email: String,
    /// The account's name. Input from strangers.
    pub login: String,
    /// What the link carries.
    pub token: String,
    /// What the person types, or nothing.
    pub code: String,
    /// In seconds since 1970.
    pub expires_at: i64,
    /// Language of the mail (BCP 47), if the application wants a certain one.
    #[serde(default)]
    pub language: Option<String>,
    /// What the application says for the template: any JSON.
    #[serde(default)]
    pub payload: Value,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Item({})", self.id)
    }
}

/// What a token is known by: its consumed-token id (FORMAT.md), 32 hexadecimal digits in lower case. It reveals nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u128);

impl Key {
    const DIGITS: usize = 32;

    /// Reads the text of a key.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_key = text.len() == Self::DIGITS && text.bytes().all(is_digit);
        is_key.then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }

    /// What its digits write.
    pub(crate) const fn number(self) -> u128 {
        self.0
    }

    /// The key of such digits.
    pub(crate) const fn of_number(number: u128) -> Self {
        Self(number)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("no key"))
    }
}

/// Why a line is not a batch. Nothing of the line is repeated, except for the batch's id.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidLine {
    /// The id of the batch if that can be read, so that its tokens can be given back.
    pub batch: Option<String>,
    /// What is wrong.
    pub reason: String,
}

/// Reads a line.
///
/// # Errors
/// Text that is no JSON, another version than 1, a field that is missing or has another type.
pub fn parse_line(line: &[u8]) -> Result<Batch, InvalidLine> {
    #[derive(Deserialize)]
    struct Envelope {
        v: u32,
        batch: String,
    }
    let envelope: Envelope = serde_json::from_slice(line).map_err(|error| InvalidLine {
        batch: None,
        reason: format!(
            "a line is not a batch of the sender protocol: parsing fails at byte {}",
            error.column()
        ),
    })?;
    if envelope.v != VERSION {
        let reason = format!("a batch has version {}, and this program knows only {VERSION}", envelope.v);
        return Err(InvalidLine { batch: Some(envelope.batch), reason });
    }
    serde_json::from_slice(line).map_err(|error| InvalidLine {
        batch: Some(envelope.batch),
        // serde's own words quote the line.
        reason: format!(
            "a batch lacks a field, or one has the wrong type: parsing fails at byte {}",
            error.column()
        ),
    })
}

/// What is answered for a batch, or for a part of it.
#[derive(Debug, Default, Serialize)]
pub struct Answer {
    batch: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ok: Vec<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    retry: Vec<Refusal>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dead: Vec<Refusal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<Pause>,
}

#[derive(Debug, Serialize)]
struct Refusal {
    id: i64,
    #[serde(flatten)]
    pause: Pause,
}

#[derive(Clone, Debug, Serialize)]
struct Pause {
    #[serde(rename = "after_ms", skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    reason: String,
}

impl Answer {
    /// An answer without verdicts.
    pub fn to(batch: &str) -> Self {
        Self { batch: batch.to_owned(), ..Self::default() }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.ok.is_empty() && self.retry.is_empty() && self.dead.is_empty() && self.unavailable.is_none()
    }

    /// The token was sent.
    pub fn sent(&mut self, id: i64) {
        self.ok.push(id);
    }

    /// The token is to be tried again.
    pub fn retry(&mut self, id: i64, after: Option<Duration>, reason: &str) {
        self.retry.push(Refusal { id, pause: Pause::new(after, reason) });
    }

    /// The token never can be sent.
    pub fn dead(&mut self, id: i64, reason: &str) {
        self.dead.push(Refusal { id, pause: Pause::new(None, reason) });
    }

    /// No mail can go out; every token without a verdict goes back to the queue.
    pub fn unavailable(&mut self, after: Option<Duration>, reason: &str) {
        self.unavailable = Some(Pause::new(after, reason));
    }

    /// The line, with its line feed.
    ///
    /// # Panics
    /// Never: texts and numbers are JSON.
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("texts and numbers are JSON");
        line.push(b'\n');
        line
    }
}

impl Pause {
    fn new(after: Option<Duration>, reason: &str) -> Self {
        let end = (0..=reason.len().min(LONGEST_REASON)).rev().find(|end| reason.is_char_boundary(*end));
        let after = after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        Self { after, reason: reason[..end.unwrap_or_default()].to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "b9a16650bbdcba5dd0298fef5dd25661";

    fn line(rest: &str) -> String {
        format!(
            r#"{{"v":1,"batch":"b","items":[{{"id":7,"key":"{KEY}","action":"recover","path":"/recover","email":"ada@x.test","login":"ada","token":"t","code":"01234","expires_at":5{rest}}}]}}"#
        )
    }

    #[test]
    fn a_line_is_read_and_fields_of_later_versions_are_ignored() {
        for text in [line(""), line(r#","attempt":3,"later":[{}]"#)] {
            let batch = parse_line(text.as_bytes()).unwrap();
            let item = &batch.items[0];
            assert_eq!((batch.batch.as_str(), item.id, item.key.to_string().as_str()), ("b", 7, KEY));
        }
    }

    #[test]
    fn what_is_no_batch_is_described_without_its_text_and_with_its_id_where_there_is_one() {
        let with_id = Some("b".to_owned());
        for (text, batch) in [
            ("ada@x.test".to_owned(), None),
            ("[]".to_owned(), None),
            (String::new(), None),
            ("[".repeat(100_000), None),
            (r#"{"v":1,"items":[]}"#.to_owned(), None),
            (r#"{"v":2,"batch":"b","items":"ada@x.test"}"#.to_owned(), with_id.clone()),
            (r#"{"v":1,"batch":"b"}"#.to_owned(), with_id.clone()),
            (line("").replace(KEY, "ada@x.test"), with_id.clone()),
            (line("").replace(KEY, &KEY.to_uppercase()), with_id.clone()),
            (line("").replace("\"id\":7", "\"id\":\"7\""), with_id.clone()),
            (line("").replace("\"id\":7", "\"id\":9223372036854775808"), with_id.clone()),
            (line("").replace("ada@x.test\"", "ada@x.test\\ud800\""), with_id.clone()),
        ] {
            let error = parse_line(text.as_bytes()).unwrap_err();
            assert_eq!(error.batch, batch, "{text:.80}");
            assert!(!error.reason.contains("ada") && error.reason.len() < 100, "{}", error.reason);
        }
    }

    #[test]
    fn a_key_has_one_spelling() {
        assert_eq!(Key::parse(KEY).unwrap().to_string(), KEY);
        for text in
            ["", "+9a16650bbdcba5dd0298fef5dd25661", &KEY[1..], &format!("{KEY}0"), &KEY.to_uppercase()]
        {
            assert_eq!(Key::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_answer_names_what_it_has_verdicts_for_and_nothing_else() {
        let mut answer = Answer::to("b");
        assert!(answer.is_empty());
        answer.sent(1);
        answer.retry(2, Some(Duration::from_secs(60)), "451 greylisted");
        answer.dead(3, &"ü".repeat(LONGEST_REASON));
        let cut = "ü".repeat(LONGEST_REASON / 2);
        let expected = format!(
            r#"{{"batch":"b","ok":[1],"retry":[{{"id":2,"after_ms":60000,"reason":"451 greylisted"}}],"dead":[{{"id":3,"reason":"{cut}"}}]}}"#
        );
        assert_eq!(String::from_utf8(answer.to_line()).unwrap(), expected + "\n");
        let mut answer = Answer::to("b");
        answer.unavailable(None, "421");
        assert_eq!(answer.to_line(), b"{\"batch\":\"b\",\"unavailable\":{\"reason\":\"421\"}}\n");
    }
}
