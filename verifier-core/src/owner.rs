//! The owner of a token's use: one redemption.

/// Identifies one redemption to a store of used tokens, so that the store recognises a repeated
/// operation (an idempotency key).
///
/// It is 128 random bits, new for each redemption and **never taken from the request**: a caller
/// that knows the owner of a use can repeat it. The crate has no source of randomness, so the
/// caller brings them, for instance from the `getrandom` crate: `getrandom::fill(&mut bytes)`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Owner([u8; Self::LENGTH]);

impl Owner {
    /// The number of bytes.
    pub const LENGTH: usize = 16;

    /// The owner of these bytes, which a cryptographic random generator has just made.
    pub const fn from_random(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    /// The bytes that a store keeps.
    pub const fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

impl core::fmt::Debug for Owner {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Owner(..)")
    }
}
