//! What a token is known by.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

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
