//! Why a token was not redeemed.

use core::fmt;

use crate::{
    consumed::{Full, StoreError},
    error::{Kind, VerifyError},
};

/// Why a token was not redeemed; `S` is the store's error and `E` that of the callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedeemError<S, E> {
    /// The token or its code is refused.
    Token(VerifyError),
    /// The token was used.
    Used,
    /// More codes were tried on this link than are allowed. This code was not judged.
    TooManyAttempts,
    /// The store's clock is so far ahead that the token's use could not be remembered.
    TooLate,
    /// A v1 recovery, or a v3 recovery without a way to compare its code.
    UncheckedRecovery,
    /// A v1 activation, and the guard has no setting for how long to remember one.
    NoExpiry,
    /// The store has no room.
    StoreFull,
    /// The store could not answer.
    Store(S),
    /// The comparison of the code failed, so there is no verdict on it; the attempt was withdrawn.
    CodeCheck(E),
    /// What the token was used for failed; the token was released.
    Callback(E),
    /// What the token was used for failed, and the store could not release
    /// the token, which stays used.
    NotReleased {
        /// The error of the callback.
        callback: E,
        /// The error of the store.
        store: StoreError<S>,
    },
}

impl<S, E> RedeemError<S, E> {
    /// The stable word, `ERR_…`, the same in every language; `None` for an error of a callback.
    pub const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Token(error) => Some(error.reason()),
            Self::Used => Some("ERR_TOKEN_USED"),
            Self::TooManyAttempts => Some("ERR_TOO_MANY_ATTEMPTS"),
            Self::TooLate => Some("ERR_TOKEN_EXPIRED"),
            Self::UncheckedRecovery | Self::NoExpiry => Some("ERR_GUARD_UNSUPPORTED"),
            Self::StoreFull | Self::NotReleased { store: StoreError::Full, .. } => {
                Some("ERR_STORE_FULL")
            }
            Self::Store(_) | Self::NotReleased { .. } => Some("ERR_STORE_UNAVAILABLE"),
            Self::CodeCheck(_) | Self::Callback(_) => None,
        }
    }

    /// Whose fault it is.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Token(error) => error.kind(),
            Self::Used | Self::TooManyAttempts | Self::TooLate => Kind::Visitor,
            Self::UncheckedRecovery
            | Self::NoExpiry
            | Self::StoreFull
            | Self::Store(_)
            | Self::CodeCheck(_)
            | Self::Callback(_)
            | Self::NotReleased { .. } => Kind::Operator,
        }
    }
}

impl<S, E> From<VerifyError> for RedeemError<S, E> {
    fn from(error: VerifyError) -> Self {
        Self::Token(error)
    }
}

impl<S, E> From<StoreError<S>> for RedeemError<S, E> {
    fn from(error: StoreError<S>) -> Self {
        match error {
            StoreError::Full => Self::StoreFull,
            StoreError::Unavailable(error) => Self::Store(error),
        }
    }
}

impl<S: fmt::Display, E: fmt::Display> fmt::Display for RedeemError<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(error) => error.fmt(f),
            Self::Used => f.write_str("the token was used"),
            Self::TooManyAttempts => {
                f.write_str("too many codes were tried on this link; ask for a new one")
            }
            Self::TooLate => f.write_str("the token ended longer ago than its use is remembered"),
            Self::UncheckedRecovery => f.write_str(
                "this recovery cannot be judged here: let the database compare its code, \
                 through `redeem_with` for v3",
            ),
            Self::NoExpiry => f.write_str(
                "a v1 token carries no expiry: say with \
                 `remember_v1_for` how long it is remembered",
            ),
            Self::StoreFull => Full.fmt(f),
            Self::Store(_) => f.write_str("the store of used tokens could not answer"),
            Self::CodeCheck(_) => f.write_str("the code could not be compared"),
            Self::Callback(_) => f.write_str("the callback failed"),
            Self::NotReleased { callback, .. } => {
                write!(
                    f,
                    "the callback failed ({callback}), and the store could not release the \
                     token, which stays used"
                )
            }
        }
    }
}

/// The source of [`NotReleased`](RedeemError::NotReleased) is the store's error; its text has that
/// of the callback.
impl<S, E> core::error::Error for RedeemError<S, E>
where
    S: core::error::Error + 'static,
    E: core::error::Error + 'static,
{
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Token(error) => error.source(),
            Self::Store(error) => Some(error),
            Self::CodeCheck(error) | Self::Callback(error) => Some(error),
            Self::NotReleased { store, .. } => Some(store),
            _ => None,
        }
    }
}
