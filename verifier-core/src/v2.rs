//! Tokens of version 2: a link that proves its own expiry, and a code that is checked separately
//! (token-format.md, "Version 2").
//!
//! A token without a code, such as an activation, has 78 bytes in 104 characters, one with a code
//! 93 bytes in 124; bound to a browser, 94 bytes in 126 and 109 in 146.

use crate::{
    action::Action,
    binding::Binding,
    bytes::{concat, field},
    code::Code,
    error::VerifyError,
    expiry::Expiry,
    header::Header,
    hmac::{MacKey, confirm},
    secret::{Secret, wipe},
    shared_key::SharedKey,
    signed::SignedToken,
    unsignable::{Unsignable, check_code},
    version::Version,
};

const SIGNED: usize = Header::LENGTH + Secret::LENGTH;
const BOUND: usize = Binding::LENGTH;
const TAG: usize = 32;
pub(crate) const CODE_TAG: usize = 15;
pub(crate) const BYTES: usize = SIGNED + TAG;
pub(crate) const BYTES_WITH_CODE: usize = SIGNED + TAG + CODE_TAG;

/// The number of characters of a token of an action without a code.
pub const CHARACTERS: usize = 104;

/// The number of characters of a token of an action with a code.
pub const CHARACTERS_WITH_CODE: usize = 124;

/// The number of characters of a bound token of an action without a code.
pub const BOUND_CHARACTERS: usize = 126;

/// The number of characters of a bound token of an action with a code.
pub const BOUND_CHARACTERS_WITH_CODE: usize = 146;

/// Signs the link that activates an account until `expires_at`.
pub fn sign_activation(key: &SharedKey, secret: &Secret, expires_at: Expiry) -> SignedToken {
    sign_header(key, &header(key, Action::Activate, None, expires_at), secret, None)
}

/// Signs the link that does `action`, together with the code that belongs to it,
/// until `expires_at`.
///
/// # Errors
/// [`Unsignable`]: the further action is invalid; the code is missing, has another length, or its
/// action has no code.
pub fn sign(
    key: &SharedKey,
    action: Action,
    secret: &Secret,
    expires_at: Expiry,
    code: Option<&Code>,
) -> Result<SignedToken, Unsignable> {
    sign_for(key, action, None, secret, expires_at, code)
}

/// The same for the browser that asked for the link; a link without a `binding` is for every one.
pub(crate) fn sign_for(
    key: &SharedKey,
    action: Action,
    binding: Option<&Binding>,
    secret: &Secret,
    expires_at: Expiry,
    code: Option<&Code>,
) -> Result<SignedToken, Unsignable> {
    // The tag of the link does not cover whether that of a code follows.
    check_code(action, code)?;
    Ok(sign_header(key, &header(key, action, binding.copied(), expires_at), secret, code))
}

const fn header(
    key: &SharedKey,
    action: Action,
    binding: Option<Binding>,
    expires_at: Expiry,
) -> Header {
    Header { action: action.number(), key_id: key.id(), expires_at, binding }
}

fn sign_header(
    key: &SharedKey,
    header: &Header,
    secret: &Secret,
    code: Option<&Code>,
) -> SignedToken {
    let mut tag = tag(key.link(), header, secret, None);
    let mut whole = code.map_or([0; 32], |_| self::tag(key.code(), header, secret, code));
    let mut code_tag: [u8; CODE_TAG] = field(&whole, 0);
    let mut signed = [0; Header::LONGEST_SIGNED];
    header.write(Version::V2, secret, &mut signed);
    let token = match (&header.binding, code) {
        (None, None) => encode::<CHARACTERS, BYTES, 2>([&field::<SIGNED>(&signed, 0), &tag]),
        (None, Some(_)) => encode::<CHARACTERS_WITH_CODE, BYTES_WITH_CODE, 3>([
            &field::<SIGNED>(&signed, 0),
            &tag,
            &code_tag,
        ]),
        (Some(_), None) => encode::<BOUND_CHARACTERS, { BYTES + BOUND }, 2>([&signed, &tag]),
        (Some(_), Some(_)) => {
            encode::<BOUND_CHARACTERS_WITH_CODE, { BYTES_WITH_CODE + BOUND }, 3>([
                &signed, &tag, &code_tag,
            ])
        }
    };
    for bytes in [&mut tag[..], &mut whole, &mut code_tag] {
        wipe(bytes);
    }
    token
}

fn encode<const C: usize, const N: usize, const P: usize>(parts: [&[u8]; P]) -> SignedToken {
    SignedToken::encode::<C>(&mut concat::<N, P>(parts))
}

/// The tag of a link, or of its code.
// Not inlined: WebAssembly makes both.
#[inline(never)]
fn tag(key: &MacKey, header: &Header, secret: &Secret, code: Option<&Code>) -> [u8; 32] {
    key.tag_of(|start| header.write(Version::V2, secret, start), code)
}

/// Whether `key` signed header and secret.
pub(crate) fn is_signed_by(
    key: &SharedKey,
    header: &Header,
    secret: &Secret,
    given: &[u8; TAG],
) -> bool {
    confirm(tag(key.link(), header, secret, None), given)
}

/// Proves that the code beside a link, whose tag `key` made, is the row's. Zero `digits` mean that
/// the action has no code.
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
            let computed = tag(key.code(), header, secret, Some(&code));
            if confirm(computed, code_tag) { Ok(()) } else { Err(VerifyError::CodeMismatch) }
        }
    }
}
