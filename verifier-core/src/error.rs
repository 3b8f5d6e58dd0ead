//! Why a token is refused.

use core::fmt;

use crate::{action::Action, expiry::Expiry};

/// The rule that a token, or the code typed beside it, breaks (token-format.md, "Order of checks").
///
/// [`reason`](Self::reason) is the same in every language; texts may change, reasons do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyError {
    /// The string is no token: refused before any cryptography.
    Malformed(Malformed),
    /// No key of the ring made this signature: forged, altered, signed by a dropped key, or, in v1,
    /// a link of another action or a wrong code.
    Signature,
    /// A genuine token of another action.
    Action {
        /// The number of the action that the token is good for.
        found: u8,
    },
    /// A genuine token that is not valid any more.
    Expired {
        /// The verifier's clock, in seconds since the Unix epoch.
        now: u64,
        /// When the token ended.
        expires_at: Expiry,
    },
    /// A genuine and valid link that was bound to another browser.
    /// Only its code proves the person here.
    OtherBrowser,
    /// A code was given where nothing that this key checks covers one.
    CodeUncheckable,
    /// A link came without the code that belongs to it.
    CodeRequired {
        /// The number of digits of the code.
        digits: u8,
    },
    /// The code is not of as many ASCII digits as its action fixes.
    CodeMalformed {
        /// The number of digits of the code.
        digits: u8,
    },
    /// The link is genuine and valid, the code is not the row's.
    CodeMismatch,
    /// A v1 token cannot be judged as a link: it carries no expiry, and a recovery is signed
    /// together with its code.
    LinkUncheckable,
}

impl VerifyError {
    /// The stable word, `ERR_…`.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Malformed(_) => "ERR_TOKEN_MALFORMED",
            Self::Signature => "ERR_TOKEN_SIGNATURE",
            Self::Action { .. } => "ERR_TOKEN_ACTION",
            Self::Expired { .. } => "ERR_TOKEN_EXPIRED",
            Self::OtherBrowser => "ERR_TOKEN_OTHER_BROWSER",
            Self::CodeUncheckable => "ERR_CODE_UNCHECKABLE",
            Self::CodeRequired { .. } => "ERR_CODE_REQUIRED",
            Self::CodeMalformed { .. } => "ERR_CODE_MALFORMED",
            Self::CodeMismatch => "ERR_CODE_MISMATCH",
            Self::LinkUncheckable => "ERR_LINK_UNCHECKABLE",
        }
    }

    /// Whose fault it is: always the visitor's.
    pub const fn kind(self) -> Kind {
        Kind::Visitor
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(reason) => reason.fmt(f),
            Self::Signature => f.write_str(
                "the token was not signed by a key of this ring for this action and code",
            ),
            Self::Action { found } => match Action::from_number(*found) {
                Some(found) => write!(f, "the token is for `{found}`, not for this action"),
                None => write!(f, "the token is for action {found}, not for this action"),
            },
            Self::Expired { now, expires_at } => {
                write!(
                    f,
                    "the token ended at {} and it is {now} (seconds since the Unix epoch)",
                    expires_at.seconds()
                )
            }
            Self::OtherBrowser => f.write_str(
                "the link is for another browser: here it needs the digits that are shown there",
            ),
            Self::CodeUncheckable => f.write_str(
                "a code was given, but no code is signed: the action has none, or the format is v3",
            ),
            Self::CodeRequired { digits } => {
                write!(f, "the link needs the {}-digit code that belongs to it", word(*digits))
            }
            Self::CodeMalformed { digits } => {
                write!(f, "the code is not {} digits from 0 to 9", word(*digits))
            }
            Self::CodeMismatch => f.write_str("the code is not the one that belongs to this link"),
            Self::LinkUncheckable => {
                f.write_str("a v1 token can be judged only together with its code, not as a link")
            }
        }
    }
}

/// A number of digits in words.
const fn word(digits: u8) -> &'static str {
    match digits {
        5 => "five",
        6 => "six",
        7 => "seven",
        _ => "eight",
    }
}

impl core::error::Error for VerifyError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Malformed(reason) => Some(reason),
            _ => None,
        }
    }
}

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The visitor's, who followed the link: ask for the right code, or offer a new link.
    Visitor,
    /// The operator's, who runs the service: ask visitors to try again later,
    /// and alert the operator.
    Operator,
}

impl Kind {
    /// The name in every language: `visitor` or `operator`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Visitor => "visitor",
            Self::Operator => "operator",
        }
    }
}

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
    /// A character outside the URL-safe alphabet, padding, white space,
    /// or trailing bits that are not zero.
    Encoding,
    /// A version byte that does not belong to this length.
    Version {
        /// The byte that was given.
        found: u8,
    },
    /// An action byte that tokens of this length do not have, or of an action that the verifier
    /// does not know.
    Action {
        /// The action byte, or the number of the action in it (without the bit for a binding).
        found: u8,
    },
    /// An expiry after the year 9999.
    Expiry,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found } => {
                write!(f, "a token has 86, 104, 124, 126, 146, 147 or 168 characters, not {found}")
            }
            Self::Encoding => f.write_str(
                "the token is not base64url without padding in its only accepted spelling",
            ),
            Self::Version { found } => {
                write!(f, "a token of this length is not of version {found}")
            }
            Self::Action { found } => {
                write!(f, "a token of this length and version has no action {found}")
            }
            Self::Expiry => f.write_str("the token's expiry is after the year 9999"),
        }
    }
}

impl core::error::Error for Malformed {}
