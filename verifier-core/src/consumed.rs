//! Used tokens: the id under which one is remembered, and the trait of a store of them.

use core::fmt;

use crate::{
    bytes::{concat, field},
    hmac::sha256,
    owner::Owner,
    secret::Secret,
};

/// Names a token's row to a store of used tokens (token-format.md, "Consumed-token id").
///
/// Every token ever made of one row has the same id, in every format and under every key. The id is
/// one way: it reveals nothing about the secret, so it may be logged and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumedId([u8; Self::LENGTH]);

impl ConsumedId {
    /// The number of bytes.
    pub const LENGTH: usize = 16;

    /// The id of the row that has this secret.
    pub fn of(secret: &Secret) -> Self {
        const LABEL: &[u8] = b"mailroom/consumed\0";
        let named = concat::<{ LABEL.len() + Secret::LENGTH }, 2>([LABEL, secret.as_bytes()]);
        Self(field(&sha256::<1, _>(&named), 0))
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

/// How many owners' tries a store numbers on one link, withdrawn ones included, and after how many
/// releases of one link it gives no new use. The current use can still be released.
pub const MAX_OWNERS: u32 = 100;

/// What a store answers to the use of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "only `FirstUse` is consent"]
pub enum Consumption {
    /// This owner has the use. No other owner gets this answer, unless this one releases the token.
    FirstUse,
    /// Another owner has the use, or this one has released it.
    AlreadyUsed,
    /// The time until which the use would have to be remembered is over,
    /// so that an earlier use may be forgotten.
    TooLate,
}

/// What a store answers to a try of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "only a number that is low enough is consent"]
pub enum Attempt {
    /// How many owners have tried a code on this link and not withdrawn, this one included: from 1
    /// to [`MAX_OWNERS`].
    Number(u32),
    /// This owner has withdrawn, or the store had numbered [`MAX_OWNERS`] owners before it.
    TooMany,
    /// The time until which the try would have to be remembered is over, as in
    /// [`Consumption::TooLate`].
    TooLate,
}

/// Remembers which tokens were used, and how many codes were tried on each.
///
/// Every operation is atomic: of simultaneous calls of `consume` for one id, exactly one owner gets
/// the first use. Every operation is idempotent: a caller repeats it when an answer was lost, and
/// the repeat, however late, has no further effect. Times are seconds since the Unix epoch. What is
/// remembered of an id is remembered until the latest `remember_until` that came with it.
pub trait ConsumedTokens {
    /// Why the store could not answer. The caller must refuse the token then.
    type Error;

    /// Marks a token as used by `owner`. A repeat by the same owner is still its first use, until
    /// it releases it.
    ///
    /// # Errors
    /// [`Full`](StoreError::Full) also after [`MAX_OWNERS`] releases of this id: a new use could
    /// not be released.
    fn consume(
        &self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> Result<Consumption, StoreError<Self::Error>>;

    /// Ends the use of this owner and of no other, because what the token was used for did not
    /// happen. Tries stay counted.
    ///
    /// It is final: the store keeps a mark of it, also when it comes before the consumption, so
    /// that a late repeat of that is [`AlreadyUsed`](Consumption::AlreadyUsed). Other owners may
    /// use the token.
    ///
    /// # Errors
    /// [`Full`](StoreError::Full) also when this owner has no use and [`MAX_OWNERS`] releases of
    /// this id are kept.
    fn release(
        &self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> Result<(), StoreError<Self::Error>>;

    /// Takes the number of this owner's try of a code, before that code is compared. One owner
    /// tries one code: it gets the same number for a repeat.
    fn attempt(
        &self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> Result<Attempt, StoreError<Self::Error>>;

    /// Takes the try of this owner back, because there was no verdict on its code.
    ///
    /// It is final: a later attempt of this owner is [`TooMany`](Attempt::TooMany), also when this
    /// comes before it.
    fn withdraw(
        &self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> Result<(), StoreError<Self::Error>>;
}

/// A store that several guards share.
impl<S: ConsumedTokens + ?Sized> ConsumedTokens for &S {
    type Error = S::Error;

    fn consume(
        &self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> Result<Consumption, StoreError<Self::Error>> {
        (**self).consume(id, owner, remember_until, now)
    }

    fn release(
        &self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> Result<(), StoreError<Self::Error>> {
        (**self).release(id, owner, remember_until, now)
    }

    fn attempt(
        &self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> Result<Attempt, StoreError<Self::Error>> {
        (**self).attempt(id, owner, remember_until, now)
    }

    fn withdraw(
        &self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> Result<(), StoreError<Self::Error>> {
        (**self).withdraw(id, owner, remember_until, now)
    }
}

/// Why a store gives no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError<E> {
    /// It has no room, and refuses rather than forget a token that may still be replayed.
    Full,
    /// It could not be reached, or did not answer.
    Unavailable(E),
}

impl<E> From<Full> for StoreError<E> {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

impl<E: fmt::Display> fmt::Display for StoreError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => Full.fmt(f),
            Self::Unavailable(error) => {
                write!(f, "the store of used tokens is unavailable: {error}")
            }
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for StoreError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Full => None,
            Self::Unavailable(error) => Some(error),
        }
    }
}

/// A store that has no room and refuses rather than forget a token that may still be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the store of used tokens is full, and needs a larger capacity, \
             or one link was released too often",
        )
    }
}

impl core::error::Error for Full {}
