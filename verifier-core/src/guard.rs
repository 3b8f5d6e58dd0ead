//! Lets a link work once: verify, count the attempts at a code, consume, run the callback.

use core::{fmt, future::Pending};

use crate::{
    async_store::AsyncConsumedTokens,
    code::Code,
    consumed::{ConsumedTokens, MAX_OWNERS},
    expiry::Moment,
    owner::Owner,
    redeem_error::RedeemError,
    redemption::Redemption,
    ring::{KeyRing, VerifyingKey},
    token::{Expected, VerifiedLink},
    verified::VerifiedToken,
};

/// A verifier together with a store of used tokens.
///
/// It keeps forged, stale and replayed links away from the origin. The authority is the database,
/// which still consumes every token itself: an entry that the store forgets forges nothing.
///
/// Verifying never consumes, since mail scanners open links: verify when a page is asked for,
/// redeem when its button is pressed. Tokens that are not genuine never reach the store, so they
/// cannot fill it.
///
/// A use is remembered until no verifier accepts its token any more: for
/// [`MAX_CLOCK_TOLERANCE`](crate::MAX_CLOCK_TOLERANCE) and five minutes after its expiry, since
/// another guard of the same store may have another tolerance.
///
/// Each redemption takes an [`Owner`] of its own, which the caller makes of random bytes. By it the
/// store tells a repeated operation from a second redemption: a consumption without an answer is
/// repeated once, and released if the repeat fails, too. A failed release or withdrawal is repeated
/// once.
#[derive(Clone, Debug)]
pub struct Guard<K, S> {
    ring: KeyRing<K>,
    store: S,
    max_code_attempts: u32,
    v1_remember_for: Option<u64>,
}

impl<K, S> Guard<K, S> {
    /// A guard that allows five attempts at a code on each link and refuses v1.
    pub const fn new(ring: KeyRing<K>, store: S) -> Self {
        Self { ring, store, max_code_attempts: 5, v1_remember_for: None }
    }

    /// Allows `attempts` attempts at a code on each link, from 1 to [`MAX_OWNERS`].
    ///
    /// # Errors
    /// Any other number: zero would refuse every recovery, and stores count no further.
    pub fn max_code_attempts(self, attempts: u32) -> Result<Self, InvalidAttempts> {
        if (1..=MAX_OWNERS).contains(&attempts) {
            Ok(Self { max_code_attempts: attempts, ..self })
        } else {
            Err(InvalidAttempts)
        }
    }

    /// Accepts v1 activations and remembers each for `seconds`. They carry no expiry: once that is
    /// over a link **can be replayed**, and only the database stops it.
    #[must_use]
    pub fn remember_v1_for(self, seconds: u64) -> Self {
        Self { v1_remember_for: Some(seconds), ..self }
    }

    const fn redemption(&self, moment: Moment, owner: Owner) -> Redemption<'_, K, S> {
        let Self { ring, store, max_code_attempts, v1_remember_for } = self;
        Redemption {
            ring,
            store,
            max_code_attempts: *max_code_attempts,
            v1_remember_for: *v1_remember_for,
            moment,
            owner,
        }
    }
}

impl<K: AsRef<[VerifyingKey]>, S: ConsumedTokens> Guard<K, S> {
    /// Verifies `token` for what is `expected`, marks it as used by `owner` and runs `callback`,
    /// the call to the origin.
    ///
    /// Among all guards of the store, one runs the callback. If it fails, the token is released and
    /// can be used again; whether its effect happened all the same, as after a timeout, only the
    /// database knows.
    ///
    /// # Errors
    /// See [`RedeemError`]; whatever is not consent is an error.
    pub fn redeem<T, E>(
        &self,
        token: impl AsRef<[u8]>,
        expected: Expected<'_>,
        moment: Moment,
        owner: Owner,
        callback: impl FnOnce(&VerifiedToken) -> Result<T, E>,
    ) -> Result<T, RedeemError<S::Error, E>> {
        self.redemption(moment, owner).run(
            token.as_ref(),
            expected,
            None::<CodeCheck<Result<bool, E>>>,
            callback,
        )
    }

    /// As [`redeem`](Self::redeem), for v3 recoveries too: `check_code` compares their code where
    /// that can be done in private. It is called after the attempt was counted and before the token
    /// is consumed.
    ///
    /// If it returns `true`, [`code_is_proven`](VerifiedToken::code_is_proven) holds for the token.
    /// If it fails, there was no verdict and the attempt is withdrawn.
    ///
    /// # Errors
    /// See [`RedeemError`].
    pub fn redeem_with<T, E>(
        &self,
        token: impl AsRef<[u8]>,
        expected: Expected<'_>,
        moment: Moment,
        owner: Owner,
        check_code: impl FnOnce(&VerifiedLink<'_>, &Code) -> Result<bool, E>,
        callback: impl FnOnce(&VerifiedToken) -> Result<T, E>,
    ) -> Result<T, RedeemError<S::Error, E>> {
        self.redemption(moment, owner).run(token.as_ref(), expected, Some(check_code), callback)
    }
}

/// For stores behind a network. The futures need no particular runtime; they can be sent to another
/// thread if those of store and callbacks can be.
///
/// A future that is dropped stops where it is: a token that it consumed stays used, an attempt
/// stays counted.
impl<K: AsRef<[VerifyingKey]>, S: AsyncConsumedTokens> Guard<K, S> {
    /// As [`redeem`](Self::redeem).
    ///
    /// # Errors
    /// See [`RedeemError`].
    pub async fn redeem_async<T, E>(
        &self,
        token: impl AsRef<[u8]>,
        expected: Expected<'_>,
        moment: Moment,
        owner: Owner,
        callback: impl AsyncFnOnce(&VerifiedToken) -> Result<T, E>,
    ) -> Result<T, RedeemError<S::Error, E>> {
        self.redemption(moment, owner)
            .run_async(
                token.as_ref(),
                expected,
                None::<CodeCheck<Pending<Result<bool, E>>>>,
                callback,
            )
            .await
    }

    /// As [`redeem_with`](Self::redeem_with).
    ///
    /// # Errors
    /// See [`RedeemError`].
    pub async fn redeem_async_with<T, E>(
        &self,
        token: impl AsRef<[u8]>,
        expected: Expected<'_>,
        moment: Moment,
        owner: Owner,
        check_code: impl AsyncFnOnce(&VerifiedLink<'_>, &Code) -> Result<bool, E>,
        callback: impl AsyncFnOnce(&VerifiedToken) -> Result<T, E>,
    ) -> Result<T, RedeemError<S::Error, E>> {
        self.redemption(moment, owner)
            .run_async(token.as_ref(), expected, Some(check_code), callback)
            .await
    }
}

/// The type of a code comparison that is not given.
type CodeCheck<A> = fn(&VerifiedLink<'_>, &Code) -> A;

/// A number of attempts that a guard cannot allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidAttempts;

impl fmt::Display for InvalidAttempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a guard allows from 1 to {MAX_OWNERS} tries of a code")
    }
}

impl core::error::Error for InvalidAttempts {}
