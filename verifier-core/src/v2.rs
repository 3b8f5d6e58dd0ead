//! Tokens of version 2: a link that proves its own expiry, and a code that is checked separately (FORMAT.md,
//! "Version 2").
//!
//! A token without a code, such as an activation, has 78 bytes in 104 characters, one with a code 93 bytes in 124.

use crate::{
    action::Action,
    bytes::{concat, field},
    code::Code,
    error::VerifyError,
    expiry::Expiry,
    header::Header,
    hmac::ShortMessage,
    secret::{Secret, wipe},
    shared_key::SharedKey,
    signed::SignedToken,
    unsignable::{Unsignable, check_code},
    version::Version,
};

const SIGNED: usize = Header::LENGTH + Secret::LENGTH;
const TAG: usize = 32;
pub(crate) const CODE_TAG: usize = 15;
pub(crate) const BYTES: usize = SIGNED + TAG;
pub(crate) const BYTES_WITH_CODE: usize = SIGNED + TAG + CODE_TAG;

/// The number of characters of a token of an action without a code.
pub const CHARACTERS: usize = 104;

/// The number of characters of a token of an action with a code.
pub const CHARACTERS_WITH_CODE: usize = 124;

/// Signs the link that activates an account until `expires_at`.
pub fn sign_activation(key: &SharedKey, secret: &Secret, expires_at: Expiry) -> SignedToken {
    sign_link(key, Action::Activate, secret, expires_at)
}

/// Signs the link that does `action`, together with the code that belongs to it, until `expires_at`.
///
/// # Errors
/// [`Unsignable`]: a further action that none can be, or a code that the action does not have.
pub fn sign(
    key: &SharedKey,
    action: Action,
    secret: &Secret,
    expires_at: Expiry,
    code: Option<&Code>,
) -> Result<SignedToken, Unsignable> {
    // The tag of the link does not cover whether that of a code follows.
    check_code(action, code)?;
    Ok(match code {
        None => sign_link(key, action, secret, expires_at),
        Some(code) => sign_with_code(key, action, secret, expires_at, code),
    })
}

fn sign_link(key: &SharedKey, action: Action, secret: &Secret, expires_at: Expiry) -> SignedToken {
    let signed = signed(&header(key, action, expires_at), secret);
    let mut tag = key.link().tag(&ShortMessage::new(&signed));
    let token = SignedToken::encode::<CHARACTERS>(&mut concat::<BYTES, 2>([&signed, &tag]));
    wipe(&mut tag);
    token
}

fn sign_with_code(
    key: &SharedKey,
    action: Action,
    secret: &Secret,
    expires_at: Expiry,
    code: &Code,
) -> SignedToken {
    let signed = signed(&header(key, action, expires_at), secret);
    let mut tag = key.link().tag(&ShortMessage::new(&signed));
    let mut whole = key.code().tag(&ShortMessage::with_code(&signed, code));
    let mut code_tag: [u8; CODE_TAG] = field(&whole, 0);
    let mut bytes = concat::<BYTES_WITH_CODE, 3>([&signed, &tag, &code_tag]);
    let token = SignedToken::encode::<CHARACTERS_WITH_CODE>(&mut bytes);
    for bytes in [&mut tag[..], &mut whole, &mut code_tag] {
        wipe(bytes);
    }
    token
}

const fn header(key: &SharedKey, action: Action, expires_at: Expiry) -> Header {
    Header { action: action.number(), key_id: key.id(), expires_at }
}

/// What the tag covers.
fn signed(header: &Header, secret: &Secret) -> [u8; SIGNED] {
    concat([&header.to_bytes(Version::V2), secret.as_bytes()])
}

/// Whether `key` signed header and secret.
pub(crate) fn is_signed_by(key: &SharedKey, header: &Header, secret: &Secret, tag: &[u8; TAG]) -> bool {
    key.link().confirms(&ShortMessage::new(&signed(header, secret)), tag)
}

/// Proves that the code beside a link, whose tag `key` made, is the row's; an action whose code has no `digits` has none.
pub(crate) fn check_digits(
    key: &SharedKey,
    header: &Header,
    secret: &Secret,
    code_tag: &[u8; CODE_TAG],
    digits: u8,
    code: Option<&[u8]>,
) -> Result<(), VerifyError> {
    match (digits, code) {
        (0, None) => Ok(()),
        (0, Some(_)) => Err(VerifyError::CodeUncheckable),
        (_, None) => Err(VerifyError::CodeRequired { digits }),
        (_, Some(text)) => {
            let code = Code::of(digits, text)?;
            let message = ShortMessage::with_code(&signed(header, secret), &code);
            if key.code().confirms(&message, code_tag) { Ok(()) } else { Err(VerifyError::CodeMismatch) }
        }
    }
}
