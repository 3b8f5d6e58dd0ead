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
    /// Tokens whose mail a broker has stored, for somebody else to send it.
    pub handed_over: bool,
}

impl Knows {
    /// The words of all, in the order of the members.
    pub const WORDS: [&str; 8] = [
        "in_doubt",
        "working",
        "exact",
        "receipts",
        "unknown_address",
        "untried",
        "slow",
        "handed_over",
    ];

    /// What a list of words announces. Unknown ones are of later versions.
    pub(crate) fn of(words: &Value) -> Self {
        let words = words.as_array().map(Vec::as_slice).unwrap_or_default();
        let [in_doubt, working, exact, receipts, unknown_address, untried, slow, handed_over] =
            Self::WORDS.map(|word| words.iter().any(|found| found == word));
        Self { in_doubt, working, exact, receipts, unknown_address, untried, slow, handed_over }
    }
}
