//! The store of used tokens as an asynchronous service.

use core::future::Future;

use crate::{
    consumed::{Attempt, ConsumedId, Consumption, StoreError},
    owner::Owner,
};

/// [`ConsumedTokens`](crate::ConsumedTokens) for stores behind a network;
/// each operation means the same.
///
/// Implement it with `async fn`. The guard sets no timeout: a store that has one
/// returns [`Unavailable`](StoreError::Unavailable) after it.
pub trait AsyncConsumedTokens {
    /// Why the store could not answer. The caller must refuse the token then.
    type Error;

    /// As [`ConsumedTokens::consume`](crate::ConsumedTokens::consume).
    fn consume(
        &self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> impl Future<Output = Result<Consumption, StoreError<Self::Error>>>;

    /// As [`ConsumedTokens::release`](crate::ConsumedTokens::release).
    fn release(
        &self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> impl Future<Output = Result<(), StoreError<Self::Error>>>;

    /// As [`ConsumedTokens::attempt`](crate::ConsumedTokens::attempt).
    fn attempt(
        &self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> impl Future<Output = Result<Attempt, StoreError<Self::Error>>>;

    /// As [`ConsumedTokens::withdraw`](crate::ConsumedTokens::withdraw).
    fn withdraw(
        &self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> impl Future<Output = Result<(), StoreError<Self::Error>>>;
}
