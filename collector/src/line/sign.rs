//! From a token's row to the token that goes into the link.

use mailroom_verifier_core::{Code, Expiry, Grant, Secret, SignedToken, Signer, Version};

use crate::queue::Token;

/// Why a row cannot become a mail. It is rejected, and the other rows of its batch go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidRow {
    #[error("its secret has {found} bytes instead of {}", Secret::LENGTH)]
    Secret { found: usize },
    #[error("it is a recovery and its code is not five digits")]
    Code,
    #[error("its expiry is before 1970 or after the year 9999")]
    Expiry,
    #[error("its {name} contains {contains}")]
    Field { name: &'static str, contains: &'static str },
}

pub(crate) fn sign(signer: &Signer, token: &Token) -> Result<SignedToken, InvalidRow> {
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
