//! Tokens of version 1: a secret and its tag, 64 bytes in 86 characters
//! (token-format.md, "Version 1").
//!
//! A v1 token carries no expiry, so a signature alone never proves that it is still valid, and a
//! wrong code cannot be told from a forged link: only the database can judge a v1 recovery.

use crate::{
    action::Action,
    bytes::concat,
    code::Code,
    error::VerifyError,
    hmac::{Message, confirm},
    secret::{Secret, wipe},
    shared_key::SharedKey,
    signed::SignedToken,
    unsignable::{Unsignable, check_code},
};

const TAG: usize = 32;
pub(crate) const BYTES: usize = Secret::LENGTH + TAG;

/// The number of characters of a token.
pub const CHARACTERS: usize = 86;

/// Signs the link that activates an account.
pub fn sign_activation(key: &SharedKey, secret: &Secret) -> SignedToken {
    token(secret, tag_of_activation(key, secret))
}

/// Signs the link of a built-in action together with the code that belongs to it.
///
/// # Errors
/// [`Unsignable`]: a further action; a code that is missing, of another length, or given to an
/// action without one.
pub fn sign(
    key: &SharedKey,
    action: Action,
    secret: &Secret,
    code: Option<&Code>,
) -> Result<SignedToken, Unsignable> {
    check_code(action, code)?;
    match (action, code) {
        (Action::Activate, _) => Ok(sign_activation(key, secret)),
        (Action::Recover, Some(code)) => Ok(token(secret, tag_of_recovery(key, secret, code))),
        _ => Err(Unsignable::FurtherInV1),
    }
}

fn token(secret: &Secret, mut tag: [u8; TAG]) -> SignedToken {
    let token =
        SignedToken::encode::<CHARACTERS>(&mut concat::<BYTES, 2>([secret.as_bytes(), &tag]));
    wipe(&mut tag);
    token
}

fn tag_of_activation(key: &SharedKey, secret: &Secret) -> [u8; TAG] {
    const PATH: &[u8] = Action::Activate.path().as_bytes();
    let signed = concat::<{ PATH.len() + Secret::LENGTH }, 2>([PATH, secret.as_bytes()]);
    key.v1().tag(Message::<1>::new(&signed).blocks())
}

fn tag_of_recovery(key: &SharedKey, secret: &Secret, code: &Code) -> [u8; TAG] {
    const PATH: &[u8] = Action::Recover.path().as_bytes();
    let signed = concat::<{ PATH.len() + Secret::LENGTH }, 2>([PATH, secret.as_bytes()]);
    let write = |bytes: &mut [u8; PATH.len() + Secret::LENGTH]| {
        *bytes = signed;
        bytes.len()
    };
    key.v1().tag_of(write, Some(code))
}

/// Proves that one of `keys` signed this secret for `action` and `code`.
pub(crate) fn verify<'k>(
    secret: &Secret,
    tag: &[u8; TAG],
    keys: impl IntoIterator<Item = &'k SharedKey>,
    action: Action,
    code: Option<&[u8]>,
) -> Result<(), VerifyError> {
    // The code is part of what is signed, so its presence and shape are judged
    // before any key is used.
    let code = match (action, code) {
        (Action::Activate, None) => None,
        (Action::Activate, Some(_)) => return Err(VerifyError::CodeUncheckable),
        (Action::Recover, None) => {
            return Err(VerifyError::CodeRequired { digits: action.digits() });
        }
        (Action::Recover, Some(text)) => Some(Code::of(action.digits(), text)?),
        // Nothing of v1 is signed for another action.
        (Action::Further(_), _) => return Err(VerifyError::Signature),
    };
    let computed = |key| match &code {
        None => tag_of_activation(key, secret),
        Some(code) => tag_of_recovery(key, secret, code),
    };
    // Which key of the ring matches is no secret.
    if keys.into_iter().any(|key| confirm(computed(key), tag)) {
        Ok(())
    } else {
        Err(VerifyError::Signature)
    }
}
