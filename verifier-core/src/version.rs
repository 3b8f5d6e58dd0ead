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
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.number())
    }
}
