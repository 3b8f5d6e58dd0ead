//! Tokens of version 1: a secret and its tag, 64 bytes in 86 characters (FORMAT.md, "Version 1").
//!
//! A v1 token carries no expiry, so a signature alone never proves that it is still valid, and a wrong code cannot be
//! told from a forged link: only the database can judge a v1 recovery.

use crate::{
    action::Action,
    base64,
    bytes::{concat, field},
    code::Code,
    error::{Malformed, VerifyError},
    secret::Secret,
    shared_key::SharedKey,
    signed::SignedToken,
};

const TAG: usize = 32;
const BYTES: usize = Secret::LENGTH + TAG;

/// The number of characters of a token.
pub const CHARACTERS: usize = 86;

/// Signs the link that activates an account.
pub fn sign_activation(key: &SharedKey, secret: &Secret) -> SignedToken {
    sign(key, secret, &signed_parts(Action::Activate, secret, &[]))
}

/// Signs the link that, together with `code`, recovers an account.
pub fn sign_recovery(key: &SharedKey, secret: &Secret, code: &Code) -> SignedToken {
    sign(key, secret, &signed_parts(Action::Recover, secret, code.as_bytes()))
}

fn sign(key: &SharedKey, secret: &Secret, parts: &[&[u8]]) -> SignedToken {
    SignedToken::encode::<CHARACTERS>(&concat::<BYTES, 2>([secret.as_bytes(), &key.v1().tag(parts)]))
}

fn signed_parts<'a>(action: Action, secret: &'a Secret, code: &'a [u8]) -> [&'a [u8]; 3] {
    [action.path().as_bytes(), secret.as_bytes(), code]
}

/// The fields of a token of which nothing is proven yet.
#[derive(Clone)]
pub(crate) struct UntrustedFields {
    pub(crate) secret: Secret,
    tag: [u8; TAG],
}

impl UntrustedFields {
    pub(crate) fn parse(token: &[u8]) -> Result<Self, Malformed> {
        let bytes: [u8; BYTES] = base64::decode(token)?;
        Ok(Self { secret: Secret::from(field(&bytes, 0)), tag: field(&bytes, Secret::LENGTH) })
    }

    pub(crate) const fn tag(&self) -> &[u8; TAG] {
        &self.tag
    }

    /// Proves that one of `keys` signed these fields for `action` and `code`.
    ///
    /// The code is part of what is signed, so its presence and shape are judged before any key is used.
    pub(crate) fn verify<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k SharedKey>,
        action: Action,
        code: Option<&[u8]>,
    ) -> Result<(), VerifyError> {
        let code = match (action, code) {
            (Action::Activate, None) => None,
            (Action::Activate, Some(_)) => return Err(VerifyError::CodeUncheckable),
            (Action::Recover, None) => return Err(VerifyError::CodeRequired),
            (Action::Recover, Some(text)) => Some(Code::parse(text).map_err(|_| VerifyError::CodeMalformed)?),
        };
        let digits = code.as_ref().map_or(&[][..], |code| code.as_bytes());
        let parts = signed_parts(action, &self.secret, digits);
        // Which key of the ring fits is no secret: its owner knows when it was rotated.
        if keys.into_iter().any(|key| key.v1().verifies(&parts, &self.tag)) {
            Ok(())
        } else {
            Err(VerifyError::Signature)
        }
    }
}
