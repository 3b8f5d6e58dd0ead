//! Why a token is refused.

use core::fmt;

/// The rule that a token, or the code typed beside it, breaks (FORMAT.md, "Order of checks, and the errors").
///
/// [`code`](Self::code) is the same in every language; texts may change, codes do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyError {
    /// The string is no token: refused before any cryptography.
    Malformed(Malformed),
    /// No key of the ring made this tag for this action, secret and code: forged, altered, signed by a dropped key, or,
    /// in v1, a link of the other action or a wrong code.
    Signature,
    /// A code was given where no signature covers one, so it could not have been checked.
    CodeUncheckable,
    /// A recovery came without its code.
    CodeRequired,
    /// The code is not five ASCII digits.
    CodeMalformed,
}

impl VerifyError {
    /// The stable code, `ERR_…`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Malformed(_) => "ERR_TOKEN_MALFORMED",
            Self::Signature => "ERR_TOKEN_SIGNATURE",
            Self::CodeUncheckable => "ERR_CODE_UNCHECKABLE",
            Self::CodeRequired => "ERR_CODE_REQUIRED",
            Self::CodeMalformed => "ERR_CODE_MALFORMED",
        }
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(reason) => reason.fmt(f),
            Self::Signature => {
                f.write_str("the token was not signed by a key of this ring for this action and code")
            }
            Self::CodeUncheckable => {
                f.write_str("a code was given, but no signature of this token covers one")
            }
            Self::CodeRequired => f.write_str("a recovery needs the five-digit code that belongs to it"),
            Self::CodeMalformed => f.write_str("the code is not five digits from 0 to 9"),
        }
    }
}

impl core::error::Error for VerifyError {}

impl From<Malformed> for VerifyError {
    fn from(reason: Malformed) -> Self {
        Self::Malformed(reason)
    }
}

/// What is wrong with a string that is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// No format has tokens of this many bytes.
    Length {
        /// The length that was given, in bytes of UTF-8.
        found: usize,
    },
    /// A character outside the URL-safe alphabet, padding, white space, or trailing bits that are not zero.
    Encoding,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found } => write!(f, "a token has 86 characters, not {found}"),
            Self::Encoding => {
                f.write_str("the token is not base64url without padding in its only accepted spelling")
            }
        }
    }
}

impl core::error::Error for Malformed {}
