//! What a signer refuses to sign.

use core::fmt;

use crate::{
    action::Action,
    actions::{InvalidAction, check},
    code::Code,
};

/// Why a link cannot be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsignable {
    /// A further action that no list of actions would accept.
    Action(InvalidAction),
    /// A further action in v1, which signs `activate` and `recover` only.
    FurtherInV1,
    /// A binding in v1, which would let the link work in every browser.
    BoundInV1,
    /// No code, or one of another number of digits, for an action that has one.
    Code {
        /// The number of digits that the code has to have.
        digits: u8,
    },
    /// A code for an action that has none.
    SurplusCode,
}

impl fmt::Display for Unsignable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(reason) => reason.fmt(f),
            Self::FurtherInV1 => {
                f.write_str("v1 signs `activate` and `recover` only; sign this action as v2 or v3")
            }
            Self::BoundInV1 => {
                f.write_str("v1 cannot bind a link to a browser; sign this link as v2 or v3")
            }
            Self::Code { digits } => {
                write!(f, "this action needs a code of {digits} digits")
            }
            Self::SurplusCode => f.write_str("this action is signed without a code"),
        }
    }
}

impl core::error::Error for Unsignable {}

/// Checks what a caller can have got wrong: a further action is plain data.
pub(crate) fn check_action(action: Action) -> Result<(), Unsignable> {
    match action {
        Action::Further(further) => check(further).map_err(Unsignable::Action),
        Action::Activate | Action::Recover => Ok(()),
    }
}

/// Checks the action, and that its code has the digits that it fixes.
pub(crate) fn check_code(action: Action, code: Option<&Code>) -> Result<(), Unsignable> {
    check_action(action)?;
    match (action.digits(), code) {
        (0, None) => Ok(()),
        (0, Some(_)) => Err(Unsignable::SurplusCode),
        (digits, Some(code)) if code.digits() == digits => Ok(()),
        (digits, _) => Err(Unsignable::Code { digits }),
    }
}
