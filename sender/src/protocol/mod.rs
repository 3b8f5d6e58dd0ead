//! The sender protocol of docs/reference/sender-protocol.md: the lines that are read, and the
//! answers that are written.
//!
//! The collector writes the former and parses the latter;
//! a test lets each side read what the other one wrote.

mod answer;
mod line;

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use answer::Answer;
pub(crate) use answer::working;
pub use line::{InvalidLine, Unreadable, parse_line};

/// The version of the lines that this program understands.
const VERSION: u32 = 1;

/// A line: one batch.
#[derive(Debug)]
pub struct Batch {
    /// Its id, which answers carry.
    pub batch: String,
    /// Which answers the collector understands.
    pub knows: Knows,
    /// Its tokens.
    pub items: Vec<Item>,
    /// The others, which cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// The answers that a collector has announced in a line.
/// One that is older than this announces nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of the protocol")]
pub struct Knows {
    /// Tokens in doubt: nobody knows whether they were sent.
    pub in_doubt: bool,
    /// Lines that name batches which are being worked on.
    pub working: bool,
    /// That this program tells whose fault a refusal is.
    pub exact: bool,
    /// What the provider said of mails that it accepted.
    pub receipts: bool,
    /// That an address does not exist.
    pub unknown_address: bool,
    /// Tokens of which no mail was tried.
    pub untried: bool,
    /// Which batches only wait for answers of a provider.
    pub slow: bool,
}

impl Knows {
    /// What a list of words announces. Unknown ones are of later versions.
    fn of(words: &Value) -> Self {
        let has = |word: &str| {
            words.as_array().is_some_and(|words| words.iter().any(|found| found == word))
        };
        Self {
            in_doubt: has("in_doubt"),
            working: has("working"),
            exact: has("exact"),
            receipts: has("receipts"),
            unknown_address: has("unknown_address"),
            untried: has("untried"),
            slow: has("slow"),
        }
    }
}

/// A token to be sent. Fields that this program does not know are ignored: the protocol may get
/// more of them.
///
/// Not `Debug`: it holds a token and an address.
#[derive(Deserialize)]
pub struct Item {
    /// The token's row.
    pub id: i64,
    /// The consumed-token id: the same at every attempt, whichever key signs the token and whatever
    /// the row's id is.
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
    /// How many earlier attempts ended in doubt, as far as the database knows.
    #[serde(default)]
    pub doubts: u32,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Item({})", self.id)
    }
}

/// What a token is known by: its consumed-token id (token-format.md), 32 hexadecimal digits in
/// lower case. It reveals nothing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_spelling() {
        const KEY: &str = "b9a16650bbdcba5dd0298fef5dd25661";
        assert_eq!(Key::parse(KEY).unwrap().to_string(), KEY);
        for text in [
            "",
            "+9a16650bbdcba5dd0298fef5dd25661",
            &KEY[1..],
            &format!("{KEY}0"),
            &KEY.to_uppercase(),
        ] {
            assert_eq!(Key::parse(text), None, "{text}");
        }
    }
}
