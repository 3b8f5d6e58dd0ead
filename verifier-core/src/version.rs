//! The versions of the signature format.

use core::fmt;

/// The version of the signature format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Version {
    /// Shared key, no expiry.
    V1,
    /// Shared key, with expiry and a code that is checked separately.
    V2,
    /// Private and public key, with expiry; the database checks the code.
    V3,
}

impl Version {
    /// The number that follows the `v`.
    pub const fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }

    /// Whether a token says itself for which action it is, which key signed it and when it expires
    /// (token-format.md, "Version 2"). Without a header it signs the two built-in actions alone,
    /// and only the database knows the expiry.
    pub const fn has_header(self) -> bool {
        !matches!(self, Self::V1)
    }

    /// Whether a link can be bound to a browser (token-format.md, "Bound form").
    pub const fn binds(self) -> bool {
        self.has_header()
    }

    /// Whether a token carries a tag of its code beside that of the link, so that the link can be
    /// judged before the code is typed, and the code without the database.
    pub const fn has_code_tag(self) -> bool {
        matches!(self, Self::V2)
    }

    /// Whether a private key signs and a public key verifies. Who has that key could find any code,
    /// so that no such token covers one.
    pub const fn is_public(self) -> bool {
        matches!(self, Self::V3)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.number())
    }
}
