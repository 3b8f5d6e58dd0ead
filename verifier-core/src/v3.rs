//! Tokens of version 3: signed with a private key, verified by anybody with the public one (FORMAT.md, "Version 3").
//!
//! Every token has 110 bytes in 147 characters. No signature covers the code: five digits are 100,000 tries, seconds of
//! work for whoever holds the token, so a recovery is completed where the code is compared in private.

use crate::{base64, bytes::field, error::Malformed, header::Header, secret::Secret, token::Version};

#[cfg(feature = "public")]
use crate::{
    action::Action,
    bytes::concat,
    ed25519::{PrivateKey, PublicKey},
    expiry::Expiry,
    signed::SignedToken,
};

const SIGNED: usize = Header::LENGTH + Secret::LENGTH;
pub(crate) const SIGNATURE: usize = 64;
const BYTES: usize = SIGNED + SIGNATURE;

/// The number of characters of a token.
pub const CHARACTERS: usize = 147;

/// What precedes header and secret in the message that is signed.
#[cfg(feature = "public")]
const CONTEXT: &[u8; 17] = b"mailroom/v3 link\0";

/// Signs the link that does `action` until `expires_at`.
#[cfg(feature = "public")]
pub fn sign(key: &PrivateKey, action: Action, secret: &Secret, expires_at: Expiry) -> SignedToken {
    let header = Header { action, key_id: key.public_key().id(), expires_at };
    let signed: [u8; SIGNED] = concat([&header.to_bytes(Version::V3), secret.as_bytes()]);
    let signature = key.sign(&message(&signed));
    SignedToken::encode::<CHARACTERS>(&concat::<BYTES, 2>([&signed, &signature]))
}

#[cfg(feature = "public")]
fn message(signed: &[u8; SIGNED]) -> [u8; CONTEXT.len() + SIGNED] {
    concat([CONTEXT, signed])
}

/// The fields of a token of which nothing is proven yet.
#[derive(Clone)]
pub(crate) struct UntrustedFields {
    pub(crate) header: Header,
    pub(crate) secret: Secret,
    signature: [u8; SIGNATURE],
}

impl UntrustedFields {
    pub(crate) fn parse(token: &[u8]) -> Result<Self, Malformed> {
        let bytes: [u8; BYTES] = base64::decode(token)?;
        Ok(Self {
            header: Header::parse(&field(&bytes, 0), Version::V3)?,
            secret: Secret::from(field(&bytes, Header::LENGTH)),
            signature: field(&bytes, SIGNED),
        })
    }

    pub(crate) const fn signature(&self) -> &[u8; SIGNATURE] {
        &self.signature
    }

    /// Whether `key` signed header and secret.
    #[cfg(feature = "public")]
    pub(crate) fn is_signed_by(&self, key: &PublicKey) -> bool {
        let signed = concat([&self.header.to_bytes(Version::V3), self.secret.as_bytes()]);
        key.verifies(&message(&signed), &self.signature)
    }
}
