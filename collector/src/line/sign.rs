//! From a token's row to the token that goes into the link.

use mailroom_verifier_core::{Code, Expiry, Grant, Secret, SignedToken, Signer, Version};

use crate::queue::Token;

/// Why a row cannot become a mail. It is rejected, and the other rows of its batch go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRow {
    /// The secret does not have the length that is signed.
    #[error("its secret has {found} bytes instead of {}", Secret::LENGTH)]
    Secret {
        /// Its length in bytes.
        found: usize,
    },
    /// A recovery whose code cannot be typed by a person.
    #[error("it is a recovery and its code is not five digits")]
    Code,
    /// An expiry that v2 and v3 cannot carry.
    #[error("its expiry is before 1970 or after the year 9999")]
    Expiry,
    /// A field that a reader of the line could not tell from the line's own structure.
    #[error("its {name} contains {contains}")]
    Field {
        /// The column.
        name: &'static str,
        /// What it contains.
        contains: &'static str,
    },
}

/// Signs a token, or says why its row cannot become a mail.
pub fn sign(signer: &Signer, token: &Token) -> Result<SignedToken, InvalidRow> {
    let secret = Secret::try_from(token.secret.as_slice())
        .map_err(|error| InvalidRow::Secret { found: error.found })?;
    let code = if token.action.digits() == 0 {
        None
    } else {
        let code = token.code.as_deref().unwrap_or_default();
        Some(Code::parse(code).map_err(|_| InvalidRow::Code)?)
    };
    let expiry = u64::try_from(token.expires_at).ok().and_then(|seconds| Expiry::from_seconds(seconds).ok());
    let expires_at = match (signer.version(), expiry) {
        (_, Some(expiry)) => expiry,
        // A token of v1 does not contain it.
        (Version::V1, None) => Expiry::MAX,
        (_, None) => return Err(InvalidRow::Expiry),
    };
    let grant =
        Grant { secret: &secret, action: token.action, code: code.as_ref(), expires_at, binding: None };
    // Of the actions that a queue gives, nothing else can be wrong than the number of the code's digits.
    signer.sign(grant).map_err(|_| InvalidRow::Code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::token;
    use mailroom_verifier_core::SharedKey;

    #[test]
    fn an_expiry_that_v2_cannot_carry_is_rejected_and_v1_carries_none() {
        let key = SharedKey::from(&[7; 32]);
        for expires_at in [-1, i64::MIN, 253_402_300_800, i64::MAX] {
            let row = Token { expires_at, ..token(1, b"x") };
            assert_eq!(sign(&Signer::V2(key.clone()), &row).err(), Some(InvalidRow::Expiry));
            assert_eq!(sign(&Signer::V1(key.clone()), &row).err(), None);
        }
    }
}
