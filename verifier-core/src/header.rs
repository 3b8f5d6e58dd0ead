//! The first bytes of a v2 or v3 token: version, action, key id, expiry and,
//! of a bound one, the browser.

use crate::{binding::Binding, error::Malformed, expiry::Expiry, secret::Secret, version::Version};

/// Names the key that signed a token; a hint, since ids may collide.
pub type KeyId = [u8; 4];

/// What v2 and v3 tokens say before their secret (token-format.md, "Version 2").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The number of the action, from 1 to 127.
    pub(crate) action: u8,
    pub(crate) key_id: KeyId,
    pub(crate) expires_at: Expiry,
    /// The browser that the link is for; it stands between the 14 bytes and the secret.
    pub(crate) binding: Option<Binding>,
}

/// The bit of the action byte that says that a binding follows.
const BOUND: u8 = 0x80;

impl Header {
    pub(crate) const LENGTH: usize = 14;

    /// Version, action, key id and expiry, big-endian; without the binding.
    fn to_bytes(self, version: Version) -> [u8; Self::LENGTH] {
        let [k0, k1, k2, k3] = self.key_id;
        let [e0, e1, e2, e3, e4, e5, e6, e7] = self.expires_at.seconds().to_be_bytes();
        let action = if self.binding.is_some() { self.action | BOUND } else { self.action };
        [version.number(), action, k0, k1, k2, k3, e0, e1, e2, e3, e4, e5, e6, e7]
    }

    /// The number of bytes that are signed of a bound link.
    pub(crate) const LONGEST_SIGNED: usize = Self::LENGTH + Binding::LENGTH + Secret::LENGTH;

    /// Writes what is signed of a link: header, binding if there is one, and secret.
    /// Returns its length.
    pub(crate) fn write(
        self,
        version: Version,
        secret: &Secret,
        bytes: &mut [u8; Self::LONGEST_SIGNED],
    ) -> usize {
        const BINDING: usize = Header::LENGTH;
        const BOUND_SECRET: usize = BINDING + Binding::LENGTH;
        bytes[..BINDING].copy_from_slice(&self.to_bytes(version));
        // The compiler knows both places, so neither needs a check.
        if let Some(binding) = &self.binding {
            bytes[BINDING..BOUND_SECRET].copy_from_slice(binding.as_bytes());
            bytes[BOUND_SECRET..].copy_from_slice(secret.as_bytes());
            bytes.len()
        } else {
            bytes[BINDING..BINDING + Secret::LENGTH].copy_from_slice(secret.as_bytes());
            BINDING + Secret::LENGTH
        }
    }

    /// Reads the header of a token whose length says that it is of this `version`, and bound if
    /// there is a `binding`.
    pub(crate) fn parse(
        bytes: &[u8; Self::LENGTH],
        version: Version,
        binding: Option<Binding>,
    ) -> Result<Self, Malformed> {
        let [number, action, k0, k1, k2, k3, expiry @ ..] = *bytes;
        if number != version.number() {
            return Err(Malformed::Version { found: number });
        }
        let number = action & !BOUND;
        if number == 0 || (action == number) == binding.is_some() {
            return Err(Malformed::Action { found: action });
        }
        Ok(Self {
            action: number,
            binding,
            key_id: [k0, k1, k2, k3],
            expires_at: Expiry::from_seconds(u64::from_be_bytes(expiry))
                .map_err(|_| Malformed::Expiry)?,
        })
    }
}
