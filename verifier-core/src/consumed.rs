//! Used tokens: the id under which one is remembered, and what a store of them answers.

use core::fmt;

use crate::{
    bytes::{concat, field},
    hmac::sha256,
    secret::Secret,
};

/// Names a token's row to a store of used tokens (FORMAT.md, "Consumed-token id").
///
/// Every token ever made of one row has the same id, in every format and under every key. The id is one way: it reveals
/// nothing about the secret, so it may be logged and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumedId([u8; Self::LENGTH]);

impl ConsumedId {
    /// The number of bytes.
    pub const LENGTH: usize = 16;

    /// The id of the row that has this secret.
    pub fn of(secret: &Secret) -> Self {
        const LABEL: &[u8] = b"mailroom/consumed\0";
        let named = concat::<{ LABEL.len() + Secret::LENGTH }, 2>([LABEL, secret.as_bytes()]);
        Self(field(&sha256(&named), 0))
    }

    /// The bytes that a store keeps.
    pub const fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

impl From<[u8; Self::LENGTH]> for ConsumedId {
    /// The id that a store gave back. Any 16 bytes are one.
    fn from(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }
}

/// What a store answers to the use of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "only `FirstUse` is consent"]
pub enum Consumption {
    /// Nobody used the token before, and nobody else will be told so.
    FirstUse,
    /// The token was used.
    AlreadyUsed,
    /// The time until which the use would have to be remembered is over, so that an earlier use may be forgotten.
    TooLate,
}

/// Remembers which tokens were used, and how many codes were tried on each.
///
/// Every operation is atomic: of any number of simultaneous calls of `consume` for one id, one is the first use.
/// Times are seconds since the Unix epoch.
pub trait ConsumedTokens {
    /// Why the store could not answer. Whoever asks must refuse the token then.
    type Error;

    /// Marks a token as used and remembers that until `remember_until`; a later time for the same id extends it.
    fn consume(&self, id: ConsumedId, remember_until: u64, now: u64) -> Result<Consumption, Self::Error>;

    /// Takes the next number for a try of a code, beginning with 1, before that code is compared.
    ///
    /// Numbers are remembered like uses. `None` stands for a time that is over, as in [`Consumption::TooLate`].
    fn attempt(&self, id: ConsumedId, remember_until: u64, now: u64) -> Result<Option<u32>, Self::Error>;

    /// Takes the use of a token back, because what it was used for did not happen. Its tries stay counted.
    fn release(&self, id: ConsumedId) -> Result<(), Self::Error>;
}

/// A store that several guards share.
impl<S: ConsumedTokens + ?Sized> ConsumedTokens for &S {
    type Error = S::Error;

    fn consume(&self, id: ConsumedId, remember_until: u64, now: u64) -> Result<Consumption, Self::Error> {
        (**self).consume(id, remember_until, now)
    }

    fn attempt(&self, id: ConsumedId, remember_until: u64, now: u64) -> Result<Option<u32>, Self::Error> {
        (**self).attempt(id, remember_until, now)
    }

    fn release(&self, id: ConsumedId) -> Result<(), Self::Error> {
        (**self).release(id)
    }
}

/// A store that has no room and refuses rather than forget a token that may still be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the store of used tokens is full of tokens that are still valid; give it a larger capacity",
        )
    }
}

impl core::error::Error for Full {}
