//! Tokens of version 3: signed with a private key, verified by anybody with the public one
//! (token-format.md, "Version 3").
//!
//! Every token has 110 bytes in 147 characters or, bound to a browser, 126 in 168. No signature
//! covers the code, since the holder of a token could try all 100,000 codes in seconds. A recovery
//! is completed where the code is compared in private.

use crate::{header::Header, secret::Secret};

#[cfg(feature = "public")]
use crate::{
    action::Action,
    binding::Binding,
    bytes::{concat, field},
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

/// The number of characters of a bound token.
pub const BOUND_CHARACTERS: usize = 168;

/// What precedes header and secret in the message that is signed.
#[cfg(feature = "public")]
const CONTEXT: &[u8; 17] = b"mailroom/v3 link\0";

/// Signs the link that does `action` until `expires_at`.
///
/// # Errors
/// [`Unsignable::Action`]: an invalid further action.
#[cfg(feature = "public")]
pub fn sign(
    key: &PrivateKey,
    action: Action,
    secret: &Secret,
    expires_at: Expiry,
) -> Result<SignedToken, Unsignable> {
    sign_for(key, action, None, secret, expires_at)
}

/// The same for the browser that asked for the link; a link without a `binding` is for every one.
#[cfg(feature = "public")]
pub(crate) fn sign_for(
    key: &PrivateKey,
    action: Action,
    binding: Option<&Binding>,
    secret: &Secret,
    expires_at: Expiry,
) -> Result<SignedToken, Unsignable> {
    check_action(action)?;
    let header = Header {
        action: action.number(),
        key_id: key.public_key().id(),
        expires_at,
        binding: binding.copied(),
    };
    let signature = with_message(&header, secret, |message| key.sign(message));
    let mut signed = [0; Header::LONGEST_SIGNED];
    header.write(Version::V3, secret, &mut signed);
    Ok(if binding.is_none() {
        let signed: [u8; SIGNED] = field(&signed, 0);
        SignedToken::encode::<CHARACTERS>(&mut concat::<BYTES, 2>([&signed, &signature]))
    } else {
        let mut bytes = concat::<{ BYTES + Binding::LENGTH }, 2>([&signed, &signature]);
        SignedToken::encode::<BOUND_CHARACTERS>(&mut bytes)
    })
}

/// Calls `with` with what is signed.
#[cfg(feature = "public")]
pub(crate) fn with_message<T>(
    header: &Header,
    secret: &Secret,
    with: impl FnOnce(&[u8]) -> T,
) -> T {
    let mut message = [0; CONTEXT.len() + Header::LONGEST_SIGNED];
    let (context, signed) = message.split_at_mut(CONTEXT.len());
    context.copy_from_slice(CONTEXT);
    let length =
        signed.first_chunk_mut().map_or(0, |signed| header.write(Version::V3, secret, signed));
    with(message.get(..CONTEXT.len() + length).unwrap_or_default())
}

/// What judges signatures.
pub(crate) trait Judge {
    /// Whether `key` signed header and secret.
    #[cfg(feature = "public")]
    fn is_signed_by(
        &self,
        key: &PublicKey,
        header: &Header,
        secret: &Secret,
        signature: &[u8; SIGNATURE],
    ) -> bool;
}

/// The Ed25519 of this crate.
pub(crate) struct Here;

impl Judge for Here {
    #[cfg(feature = "public")]
    fn is_signed_by(
        &self,
        key: &PublicKey,
        header: &Header,
        secret: &Secret,
        signature: &[u8; SIGNATURE],
    ) -> bool {
        with_message(header, secret, |message| key.verifies(message, signature))
    }
}
