//! From a token's row to the token that goes into the link.

use std::fmt;

use mailroom_verifier_core::v1::{self, SignedToken};
use mailroom_verifier_core::{Action, Code, Secret, SharedKey};

use crate::queue::Token;

/// Why a row cannot become a mail. It is passed, so that the other rows go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The secret does not have the length that is signed.
    Secret {
        /// Its length in bytes.
        found: usize,
    },
    /// A recovery whose code cannot be typed by a person.
    Code,
    /// A field that a reader of the line could not tell from the line's own structure.
    Field {
        /// The column.
        name: &'static str,
        /// What it contains.
        contains: &'static str,
    },
}

impl fmt::Display for Unfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret { found } => {
                write!(formatter, "its secret has {found} bytes instead of {}", Secret::LENGTH)
            }
            Self::Code => formatter.write_str("it is a recovery and its code is not five digits"),
            Self::Field { name, contains } => write!(formatter, "its {name} contains {contains}"),
        }
    }
}

/// Signs a token in format v1.
///
/// # Errors
/// A secret of another length than 32 bytes; a recovery whose code is missing or is not five digits.
pub fn sign(key: &SharedKey, token: &Token) -> Result<SignedToken, Unfit> {
    let secret =
        Secret::try_from(token.secret.as_slice()).map_err(|error| Unfit::Secret { found: error.found })?;
    match token.action {
        Action::Activate => Ok(v1::sign_activation(key, &secret)),
        Action::Recover => {
            let code = Code::parse(token.code.as_deref().unwrap_or_default()).map_err(|_| Unfit::Code)?;
            Ok(v1::sign_recovery(key, &secret, &code))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(action: Action, secret: &[u8], code: Option<&str>) -> Token {
        Token {
            id: 1,
            action,
            email: Vec::new(),
            login: Vec::new(),
            secret: secret.to_vec(),
            code: code.map(|code| code.as_bytes().to_vec()),
        }
    }

    #[test]
    fn only_rows_that_can_be_verified_are_signed() {
        let key = SharedKey::from(&[7; 32]);
        let reason = |action, secret: &[u8], code| sign(&key, &token(action, secret, code)).err();
        assert_eq!(reason(Action::Activate, &[1; 32], None), None);
        assert_eq!(reason(Action::Activate, &[1; 32], Some("#####")), None);
        assert_eq!(reason(Action::Activate, &[1; 31], None), Some(Unfit::Secret { found: 31 }));
        assert_eq!(reason(Action::Recover, &[1; 33], Some("01234")), Some(Unfit::Secret { found: 33 }));
        assert_eq!(reason(Action::Recover, &[1; 32], Some("01234")), None);
        for code in [None, Some(""), Some("1234"), Some("#####"), Some("12 45"), Some("1,345")] {
            assert_eq!(reason(Action::Recover, &[1; 32], code), Some(Unfit::Code), "{code:?}");
        }
    }
}
