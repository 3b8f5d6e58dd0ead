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

/// Signs a token.
///
/// # Errors
/// A secret that does not have 32 bytes; a recovery whose code is missing or is not five digits, in every format, because
/// a person has to type it; in v2 and v3 an expiry before 1970 or after the year 9999.
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
    use crate::line::sample;
    use mailroom_verifier_core::{
        Action, Expected, KeyRing, Moment, PrivateKey, SharedKey, UntrustedToken, VerifyingKey,
    };

    fn token(action: Action, secret: &[u8], code: Option<&str>) -> Token {
        let code = code.map(|code| code.as_bytes().to_vec());
        Token { action, secret: secret.to_vec(), code, ..sample(1) }
    }

    /// A signer of each format, and the ring that verifies them all.
    fn signers() -> ([Signer; 3], KeyRing<[VerifyingKey; 2]>) {
        let (shared, private) = (SharedKey::from(&[7; 32]), PrivateKey::from_seed(&[7; 32]));
        let ring = KeyRing::new([shared.clone().into(), private.public_key().clone().into()]).unwrap();
        ([Signer::V1(shared.clone()), Signer::V2(shared), Signer::V3(private)], ring)
    }

    #[test]
    fn only_rows_that_can_be_verified_are_signed() {
        for signer in signers().0 {
            let reason = |action, secret: &[u8], code| sign(&signer, &token(action, secret, code)).err();
            assert_eq!(reason(Action::Activate, &[1; 32], None), None);
            assert_eq!(reason(Action::Activate, &[1; 32], Some("#####")), None);
            assert_eq!(reason(Action::Activate, &[1; 31], None), Some(InvalidRow::Secret { found: 31 }));
            let long = reason(Action::Recover, &[1; 33], Some("01234"));
            assert_eq!(long, Some(InvalidRow::Secret { found: 33 }));
            assert_eq!(reason(Action::Recover, &[1; 32], Some("01234")), None);
            for code in
                [None, Some(""), Some("1234"), Some("012345"), Some("#####"), Some("12 45"), Some("1,345")]
            {
                assert_eq!(reason(Action::Recover, &[1; 32], code), Some(InvalidRow::Code), "{code:?}");
            }
        }
    }

    #[test]
    fn the_row_of_a_token_is_what_its_signature_proves() {
        let (signers, ring) = signers();
        for (signer, lengths) in signers.iter().zip([[86, 86], [104, 124], [147, 147]]) {
            let found = [Action::Activate, Action::Recover].map(|action| {
                let signed = sign(signer, &token(action, &[5; 32], Some("01234"))).unwrap();
                let has_code = action == Action::Recover && signer.version() != Version::V3;
                let expected = Expected { action, code: has_code.then_some(b"01234".as_slice()) };
                let untrusted = UntrustedToken::parse(signed.as_str()).unwrap();
                let verified = untrusted.verify(&ring, expected, Moment::at(1_800_000_000)).unwrap();
                assert_eq!(verified.secret().as_bytes(), &[5; 32]);
                let expiry = verified.expires_at().map(Expiry::seconds);
                let proven = (signer.version() != Version::V1).then_some(1_800_000_900);
                assert_eq!(expiry, proven, "{}", signer.version());
                signed.as_str().len()
            });
            assert_eq!(found, lengths);
        }
    }

    #[test]
    fn an_expiry_that_a_token_cannot_carry_rejects_the_row_except_in_v1() {
        let [v1, v2, v3] = signers().0;
        for expires_at in [-1, i64::MIN, 253_402_300_800, i64::MAX] {
            let row = Token { expires_at, ..sample(1) };
            assert_eq!(sign(&v1, &row).err(), None);
            assert_eq!(sign(&v2, &row).err(), Some(InvalidRow::Expiry));
            assert_eq!(sign(&v3, &row).err(), Some(InvalidRow::Expiry));
        }
    }
}
