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
    let grant = Grant { secret: &secret, action: token.action, code: code.as_ref(), expires_at };
    // Of the actions that a queue gives, nothing else can be wrong than the number of the code's digits.
    signer.sign(grant).map_err(|_| InvalidRow::Code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::token;
    use mailroom_verifier_core::{Action, PrivateKey, SharedKey};

    fn signers() -> [Signer; 3] {
        let shared = SharedKey::from(&[7; 32]);
        [Signer::V1(shared.clone()), Signer::V2(shared), Signer::V3(PrivateKey::from_seed(&[7; 32]))]
    }

    fn row(action: Action, code: Option<&str>) -> Token {
        Token { action, code: code.map(|code| code.as_bytes().to_vec()), ..token(1, b"x") }
    }

    #[test]
    fn secret_action_code_and_expiry_of_a_row_are_signed() {
        let (secret, recovery) = (Secret::from([9; 32]), Code::parse("01234").unwrap());
        let expires_at = Expiry::from_seconds(1_800_000_900).unwrap();
        for signer in signers() {
            for (row, code) in [
                (row(Action::Activate, None), None),
                (row(Action::Activate, Some("#####")), None),
                (row(Action::Recover, Some("01234")), Some(&recovery)),
            ] {
                let grant = Grant { secret: &secret, action: row.action, code, expires_at };
                let expected = signer.sign(grant).unwrap();
                assert_eq!(sign(&signer, &row).unwrap().as_str(), expected.as_str());
            }
        }
    }

    #[test]
    fn a_row_that_could_not_be_verified_is_rejected() {
        for signer in signers() {
            for found in [0, 31, 33] {
                let row = Token { secret: vec![9; found], ..row(Action::Activate, None) };
                assert_eq!(sign(&signer, &row).err(), Some(InvalidRow::Secret { found }));
            }
            for code in [None, Some(""), Some("1234"), Some("#####"), Some("12 45"), Some("1,345")] {
                let reason = sign(&signer, &row(Action::Recover, code)).err();
                assert_eq!(reason, Some(InvalidRow::Code), "{code:?}");
            }
            for expires_at in [-1, i64::MIN, 253_402_300_800, i64::MAX] {
                let row = Token { expires_at, ..row(Action::Activate, None) };
                let reason = (signer.version() != Version::V1).then_some(InvalidRow::Expiry);
                assert_eq!(sign(&signer, &row).err(), reason);
            }
        }
    }
}
