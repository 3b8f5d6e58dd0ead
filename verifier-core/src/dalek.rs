//! The Ed25519 of `ed25519-dalek`.

use ed25519_dalek::{SIGNATURE_LENGTH, Signature, SigningKey, VerifyingKey};

use crate::shared_key::InvalidKey;

/// A point that may be a key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(VerifyingKey);

impl Key {
    pub(crate) fn of(signer: &SigningKey) -> Self {
        Self(signer.verifying_key())
    }

    /// Refuses bytes that encode no point, a second encoding of one, a point of small order.
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Result<Self, InvalidKey> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| InvalidKey::NotAPoint)?;
        // Decompression reduces its input, so that a few points have two encodings.
        if key.to_edwards().compress().as_bytes() != bytes {
            return Err(InvalidKey::NotAPoint);
        }
        if key.is_weak() { Err(InvalidKey::SmallOrder) } else { Ok(Self(key)) }
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Strict verification: S below the group order, R not of small order, and no cofactor.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; SIGNATURE_LENGTH]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}
