//! Tokens of version 1: a secret and its tag, 64 bytes in 86 characters (FORMAT.md, "Version 1").
//!
//! A v1 token carries no expiry, so a signature alone never proves that it is still valid, and a wrong code cannot be
//! told from a forged link: only the database can judge a v1 recovery.

use crate::{
    action::Action,
    bytes::concat,
    code::Code,
    error::VerifyError,
    hmac::Message,
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
    sign_message(key, secret, &activation(secret))
}

/// Signs the link of a built-in action together with the code that belongs to it.
///
/// # Errors
/// [`Unsignable`]: a further action, or a code that the action does not have.
pub fn sign(
    key: &SharedKey,
    action: Action,
    secret: &Secret,
    code: Option<&Code>,
) -> Result<SignedToken, Unsignable> {
    check_code(action, code)?;
    let message = match (action, code) {
        (Action::Activate, _) => activation(secret),
        (Action::Recover, Some(code)) => recovery(secret, code),
        _ => return Err(Unsignable::FurtherInV1),
    };
    Ok(sign_message(key, secret, &message))
}

fn sign_message(key: &SharedKey, secret: &Secret, message: &Message<1>) -> SignedToken {
    let mut tag = key.v1().tag(message.blocks());
    let token = SignedToken::encode::<CHARACTERS>(&mut concat::<BYTES, 2>([secret.as_bytes(), &tag]));
    wipe(&mut tag);
    token
}

fn activation(secret: &Secret) -> Message<1> {
    const PATH: &[u8] = Action::Activate.path().as_bytes();
    Message::new(&concat::<{ PATH.len() + Secret::LENGTH }, 2>([PATH, secret.as_bytes()]))
}

fn recovery(secret: &Secret, code: &Code) -> Message<1> {
    const PATH: &[u8] = Action::Recover.path().as_bytes();
    Message::with_code(&concat::<{ PATH.len() + Secret::LENGTH }, 2>([PATH, secret.as_bytes()]), code)
}

/// Proves that one of `keys` signed this secret for `action` and `code`.
pub(crate) fn verify<'k>(
    secret: &Secret,
    tag: &[u8; TAG],
    keys: impl IntoIterator<Item = &'k SharedKey>,
    action: Action,
    code: Option<&[u8]>,
) -> Result<(), VerifyError> {
    let message = message(secret, action, code)?;
    // Which key of the ring matches is no secret.
    if keys.into_iter().any(|key| key.v1().confirms(message.blocks(), tag)) {
        Ok(())
    } else {
        Err(VerifyError::Signature)
    }
}

/// What is signed. The code is part of it, so its presence and shape are judged before any key is used.
fn message(secret: &Secret, action: Action, code: Option<&[u8]>) -> Result<Message<1>, VerifyError> {
    match (action, code) {
        (Action::Activate, None) => Ok(activation(secret)),
        (Action::Activate, Some(_)) => Err(VerifyError::CodeUncheckable),
        (Action::Recover, None) => Err(VerifyError::CodeRequired { digits: action.digits() }),
        (Action::Recover, Some(text)) => Ok(recovery(secret, &Code::of(action.digits(), text)?)),
        // Nothing of v1 is signed for another action.
        (Action::Further(_), _) => Err(VerifyError::Signature),
    }
}
