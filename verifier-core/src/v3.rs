//! Tokens of version 3: signed with a private key, verified by anybody with the public one (FORMAT.md, "Version 3").
//!
//! Every token has 110 bytes in 147 characters. No signature covers the code, since the holder of a token could try all
//! 100,000 codes in seconds. A recovery is completed where the code is compared in private.

use crate::{header::Header, secret::Secret};

#[cfg(feature = "public")]
use crate::{
    action::Action,
    bytes::concat,
    ed25519::{PrivateKey, PublicKey},
    expiry::Expiry,
    signed::SignedToken,
    unsignable::{Unsignable, check_action},
    version::Version,
};

const SIGNED: usize = Header::LENGTH + Secret::LENGTH;
pub(crate) const SIGNATURE: usize = 64;
pub(crate) const BYTES: usize = SIGNED + SIGNATURE;

/// The number of characters of a token.
pub const CHARACTERS: usize = 147;

/// What precedes header and secret in the message that is signed.
#[cfg(feature = "public")]
const CONTEXT: &[u8; 17] = b"mailroom/v3 link\0";

/// Signs the link that does `action` until `expires_at`.
///
/// # Errors
/// [`Unsignable::Action`]: a further action that none can be.
#[cfg(feature = "public")]
pub fn sign(
    key: &PrivateKey,
    action: Action,
    secret: &Secret,
    expires_at: Expiry,
) -> Result<SignedToken, Unsignable> {
    check_action(action)?;
    let header = Header { action: action.number(), key_id: key.public_key().id(), expires_at };
    let signed: [u8; SIGNED] = concat([&header.to_bytes(Version::V3), secret.as_bytes()]);
    let signature = key.sign(&message(&signed));
    Ok(SignedToken::encode::<CHARACTERS>(&mut concat::<BYTES, 2>([&signed, &signature])))
}

#[cfg(feature = "public")]
fn message(signed: &[u8; SIGNED]) -> [u8; CONTEXT.len() + SIGNED] {
    concat([CONTEXT, signed])
}

/// Whether `key` signed header and secret.
#[cfg(feature = "public")]
pub(crate) fn is_signed_by(
    key: &PublicKey,
    header: &Header,
    secret: &Secret,
    signature: &[u8; SIGNATURE],
) -> bool {
    let signed = concat([&header.to_bytes(Version::V3), secret.as_bytes()]);
    key.verifies(&message(&signed), signature)
}
