//! What is stored at the broker: mails, and the verdicts on them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mailroom_sender::protocol::{Key, Knows, parse_line};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The version of the messages. A consumer leaves other ones to others.
pub(crate) const VERSION: u32 = 1;

/// Which mails go first. Each has its own place at the broker, so that no pile of the others is
/// before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Those of priority 0 in the database, such as recoveries.
    First,
    /// All others.
    Other,
}

impl Class {
    pub(crate) const ALL: [Self; 2] = [Self::First, Self::Other];

    /// The class of a mail. An older collector does not say its priority.
    pub(crate) fn of(head: &Head) -> Self {
        match head.priority {
            Some(0) => Self::First,
            None if head.action == "recover" => Self::First,
            _ => Self::Other,
        }
    }

    /// Its place in [`Self::ALL`].
    pub(crate) const fn place(self) -> usize {
        self as usize
    }

    /// Its word in subjects.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Other => "other",
        }
    }
}

/// A word of a subject or routing key, for an action.
pub(crate) fn word(action: &str) -> &str {
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !action.is_empty() && action.bytes().all(is_of_word) { action } else { "unnamed" }
}

/// What has to be known of an item: the rest concerns who sends it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Head {
    /// The token's row.
    pub(crate) id: i64,
    /// The consumed-token id, by which one mail is told from another.
    pub(crate) key: String,
    /// What the mail is for.
    pub(crate) action: String,
    /// In seconds since 1970.
    pub(crate) expires_at: i64,
    /// Which attempt it is, as far as the database knows.
    #[serde(default)]
    pub(crate) attempt: u32,
    /// How many earlier attempts ended in doubt, as far as the database knows.
    #[serde(default)]
    pub(crate) doubts: u32,
    /// 0 goes before 1, as the database has it.
    #[serde(default)]
    pub(crate) priority: Option<i16>,
}

impl Head {
    /// Reads an item. `None` if it is none. A list of its values is none, which no sender reads.
    pub(crate) fn read(item: &str) -> Option<Self> {
        let is_object = item.trim_start().starts_with('{');
        let head = serde_json::from_str(item).ok().filter(|_| is_object);
        head.filter(|head: &Self| Key::parse(&head.key).is_some())
    }

    /// For how long its link can be used.
    pub(crate) fn left(&self, now: i64) -> Duration {
        Duration::from_secs(u64::try_from(self.expires_at.saturating_sub(now)).unwrap_or_default())
    }
}

/// A mail as it is published.
#[derive(Clone, Debug)]
pub(crate) struct Mail {
    pub(crate) head: Head,
    /// The item, as the collector wrote it.
    pub(crate) item: String,
}

/// What became of a mail, without its link and its address.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Verdict {
    pub(crate) v: u32,
    /// The token's row.
    pub id: i64,
    /// Its consumed-token id, 32 hexadecimal digits.
    pub key: String,
    pub(crate) action: String,
    /// What became of it.
    #[serde(rename = "verdict")]
    pub kind: Kind,
    /// Which attempt its message was, as far as the database knew.
    #[serde(default)]
    pub attempt: u32,
    /// Which message of the broker it is on.
    #[serde(default)]
    pub(crate) sequence: u64,
    /// In seconds since 1970.
    pub(crate) at: i64,
    /// Why it was not sent, or may not have been: what a provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the provider answered, as in an answer of the sender protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Value>,
    /// Whether the provider said for sure that the address does not exist.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unknown_address: bool,
    /// How many attempts have ended in doubt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub doubts: u32,
}

/// What became of a mail.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A provider has accepted it.
    Sent,
    /// It never can be sent, or was given up after doubts.
    Dead,
    /// Its token expired before.
    Expired,
    /// Nobody knows whether a provider has accepted it; it is tried again.
    InDoubt,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl Verdict {
    /// Whether it is the last word on a message of the broker, and not on an earlier one of a mail
    /// that somebody has put back. By both number and time, since a killed server can give a number
    /// a second time.
    pub(crate) fn settles(&self, sequence: u64, published_at: i64) -> bool {
        match self.kind {
            Kind::Sent => true,
            Kind::Dead | Kind::Expired => self.sequence >= sequence && self.at >= published_at,
            Kind::InDoubt => false,
        }
    }

    /// Whether it came within so many seconds.
    pub fn is_younger_than(&self, seconds: i64) -> bool {
        now().saturating_sub(self.at) < seconds
    }

    pub(crate) fn of(head: &Head, kind: Kind) -> Self {
        Self {
            v: VERSION,
            id: head.id,
            key: head.key.clone(),
            action: head.action.clone(),
            kind,
            attempt: head.attempt,
            sequence: 0,
            at: now(),
            reason: None,
            receipt: None,
            unknown_address: false,
            doubts: 0,
        }
    }
}

/// The line that a sender gets for a mail: a batch of one, with the doubts that are known.
pub(crate) fn line(batch: &str, item: &str, doubts: u32) -> Option<String> {
    let item = if doubts == 0 { item.to_owned() } else { with_doubts(item, doubts)? };
    // A line feed would end the line; the collector writes none, and between the parts of an item
    // it says nothing.
    let item = item.replace(['\n', '\r'], " ");
    let knows = json!(Knows::WORDS);
    Some(format!(r#"{{"v":1,"batch":"{batch}","knows":{knows},"items":[{item}]}}"#) + "\n")
}

/// Whether a sender answers a line: it says nothing of an item whose id it cannot read.
pub(crate) fn is_answered(line: &str) -> bool {
    parse_line(line.trim_end().as_bytes()).is_ok_and(|batch| {
        batch.items.len() == 1 || batch.unreadable.iter().any(|item| item.id.is_some())
    })
}

fn with_doubts(item: &str, doubts: u32) -> Option<String> {
    let mut fields: std::collections::BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(item).ok()?;
    fields.insert("doubts".to_owned(), RawValue::from_string(doubts.to_string()).ok()?);
    serde_json::to_string(&fields).ok()
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: &str = concat!(
        r#"{"id":7,"attempt":2,"action":"recover","path":"/recover","email":"ada@x.test","#,
        r#""login":"ada","token":"secret","code":"01234","expires_at":50,"#,
        r#""key":"b9a16650bbdcba5dd0298fef5dd25661"}"#
    );

    #[test]
    fn a_sender_reads_what_the_collector_wrote_with_the_doubts_that_are_known() {
        for doubts in [0, 2] {
            let line = line("b", ITEM, doubts).unwrap();
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
            let batch = parse_line(line.trim_end().as_bytes()).unwrap();
            let item = &batch.items[0];
            assert_eq!((batch.batch.as_str(), item.id, item.doubts), ("b", 7, doubts));
            assert_eq!((item.token.as_str(), item.code.as_str()), ("secret", "01234"));
            assert!(batch.knows.in_doubt && batch.knows.untried && batch.knows.receipts);
        }
    }

    #[test]
    fn what_the_database_lets_go_first_goes_first_at_the_broker() {
        for (action, priority, expected) in [
            ("invite", "0", Class::First),
            ("invite", "1", Class::Other),
            ("recover", "1", Class::Other),
            ("recover", "null", Class::First),
            ("invite", "null", Class::Other),
        ] {
            let item = ITEM.replace("\"recover\"", &format!(r#""{action}","priority":{priority}"#));
            assert_eq!(Class::of(&Head::read(&item).unwrap()), expected, "{item}");
        }
        assert_eq!(Class::of(&Head::read(ITEM).unwrap()), Class::First);
    }

    #[test]
    fn what_has_no_key_or_is_a_list_is_no_item() {
        let head = Head::read(ITEM).unwrap();
        assert_eq!((head.id, head.attempt, head.doubts), (7, 2, 0));
        assert_eq!(head.left(48), Duration::from_secs(2));
        assert_eq!(head.left(51), Duration::ZERO);
        let list = r#"[7,"b9a16650bbdcba5dd0298fef5dd25661","recover",50,2,0,0]"#;
        for text in ["", "{}", "[]", list, "\u{0}", &ITEM.replace("b9a1", "b9 1")] {
            assert!(Head::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_mail_that_was_put_back_is_not_settled_by_its_earlier_verdict() {
        let head = Head::read(ITEM).unwrap();
        let on = |kind| Verdict { sequence: 5, at: 70, ..Verdict::of(&head, kind) };
        for (kind, sequence, published_at, is_settled) in [
            (Kind::Sent, 9, 80, true),
            (Kind::Dead, 5, 60, true),
            (Kind::Dead, 9, 80, false),
            (Kind::Dead, 4, 80, false),
            (Kind::Expired, 5, 70, true),
            (Kind::InDoubt, 5, 60, false),
        ] {
            assert_eq!(on(kind).settles(sequence, published_at), is_settled, "{kind:?}");
        }
    }

    #[test]
    fn a_verdict_has_neither_link_nor_address() {
        let verdict = Verdict::of(&Head::read(ITEM).unwrap(), Kind::Dead);
        let text = serde_json::to_string(&verdict).unwrap();
        assert!(!text.contains("secret") && !text.contains("x.test"), "{text}");
        assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
    }

    #[test]
    fn an_action_is_one_word_of_a_subject() {
        for (action, expected) in
            [("activate", "activate"), ("a_b-1", "a_b-1"), ("", "unnamed"), ("a.>", "unnamed")]
        {
            assert_eq!(word(action), expected);
        }
    }
}
