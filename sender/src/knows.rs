//! What a collector understands of the answers.

use serde_json::Value;

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
    pub(crate) fn of(words: &Value) -> Self {
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
