//! The steps of a redemption, each of which may end it.

use crate::{
    action::Action,
    async_store::AsyncConsumedTokens,
    code::Code,
    consumed::{Attempt, ConsumedId, ConsumedTokens, Consumption, StoreError},
    error::VerifyError,
    expiry::{CLOCK_MARGIN, Expiry, MAX_CLOCK_TOLERANCE, Moment},
    guard::Guard,
    owner::Owner,
    redeem_error::RedeemError,
    ring::VerifyingKey,
    token::{Expected, UntrustedToken, Version},
    verified::{VerifiedLink, VerifiedToken},
};

/// One redemption by a guard.
pub(crate) struct Redemption<'a, K, S> {
    pub(crate) guard: &'a Guard<K, S>,
    pub(crate) moment: Moment,
    pub(crate) owner: Owner,
}

impl<K: AsRef<[VerifyingKey]>, S> Redemption<'_, K, S> {
    fn verify_v1<F, E>(
        &self,
        token: &UntrustedToken,
        expected: Expected<'_>,
    ) -> Result<(VerifiedToken, u64), RedeemError<F, E>> {
        // A v1 verdict on a code tells whoever asks whether the code was right, and nothing can count the tries.
        if expected.action == Action::Recover {
            return Err(RedeemError::UncheckedRecovery);
        }
        let Some(seconds) = self.guard.v1_remember_for else { return Err(RedeemError::NoExpiry) };
        let verified = token.verify(&self.guard.ring, expected, self.moment)?;
        Ok((verified, self.moment.now.saturating_add(seconds).saturating_add(CLOCK_MARGIN)))
    }
}

/// The steps that ask the store or the caller, for a kind of store, a kind of callback and a way to wait for an answer. The
/// names are those of the steps.
//
// Both kinds are the same but for the waiting. A future that is polled once would do for stores that answer at once, and would
// bring a panic for whoever polls it twice.
macro_rules! redemption {
    (
        $store:ident, $callback:ident, [$($async:ident)?], [$($wait:tt)*],
        $run:ident, $verify_code:ident, $consume:ident, $attempt:ident, $release:ident, $withdraw:ident
    ) => {
        impl<K: AsRef<[VerifyingKey]>, S: $store> Redemption<'_, K, S> {
            /// Every check first, then a number for the code, consumption last, and the callback only with consent.
            pub(crate) $($async)? fn $run<T, E>(
                &self,
                token: &[u8],
                expected: Expected<'_>,
                check_code: Option<impl $callback(&VerifiedLink<'_>, &Code) -> Result<bool, E>>,
                callback: impl $callback(&VerifiedToken) -> Result<T, E>,
            ) -> Result<T, RedeemError<S::Error, E>> {
                let token = UntrustedToken::parse(token)?;
                let (verified, until) = if token.version() == Version::V1 {
                    self.verify_v1(&token, expected)?
                } else {
                    let link = token.verify_link(&self.guard.ring, expected.action, self.moment)?;
                    let until = remember_until(link.expires_at());
                    (self.$verify_code(link, expected, until, check_code)$($wait)*?, until)
                };
                let id = verified.consumed_id();
                match self.$consume(id, until)$($wait)*? {
                    Consumption::FirstUse => {}
                    Consumption::AlreadyUsed => return Err(RedeemError::Used),
                    Consumption::TooLate => return Err(RedeemError::TooLate),
                }
                let error = match callback(&verified)$($wait)* {
                    Ok(result) => return Ok(result),
                    Err(error) => error,
                };
                match self.$release(id, until)$($wait)* {
                    Ok(()) => Err(RedeemError::Callback(error)),
                    Err(store) => Err(RedeemError::NotReleased { callback: error, store }),
                }
            }

            $($async)? fn $verify_code<E>(
                &self,
                link: VerifiedLink<'_>,
                expected: Expected<'_>,
                until: u64,
                check_code: Option<impl $callback(&VerifiedLink<'_>, &Code) -> Result<bool, E>>,
            ) -> Result<VerifiedToken, RedeemError<S::Error, E>> {
                if expected.action == Action::Activate {
                    return Ok(link.with_code(expected.code)?);
                }
                let text = expected.code.ok_or(VerifyError::CodeRequired)?;
                let code = Code::parse(text).map_err(|_| VerifyError::CodeMalformed)?;
                let check_code = match (link.version(), check_code) {
                    (Version::V3, None) => return Err(RedeemError::UncheckedRecovery),
                    (Version::V3, check_code) => check_code,
                    // v2 carries a tag of its code.
                    _ => None,
                };
                let id = link.consumed_id();
                // The number is taken before the comparison: otherwise any number of simultaneous guesses would get verdicts.
                match self.$attempt(id, until)$($wait)*? {
                    Attempt::TooLate => return Err(RedeemError::TooLate),
                    Attempt::Number(number) if number <= self.guard.max_code_attempts => {}
                    Attempt::Number(_) | Attempt::TooMany => return Err(RedeemError::TooManyAttempts),
                }
                let Some(check_code) = check_code else { return Ok(link.with_code(Some(text))?) };
                match check_code(&link, &code)$($wait)* {
                    Ok(true) => Ok(link.with_proven_code()),
                    Ok(false) => Err(VerifyError::CodeMismatch.into()),
                    Err(error) => {
                        self.$withdraw(id, until)$($wait)*;
                        Err(RedeemError::CodeCheck(error))
                    }
                }
            }

            /// Asks a second time if there is no answer, and then sees to it that nothing is used by this redemption.
            $($async)? fn $consume(&self, id: ConsumedId, until: u64) -> Result<Consumption, StoreError<S::Error>> {
                let (Self { guard: Guard { store, .. }, owner, .. }, now) = (self, self.moment.now);
                let first = store.consume(id, *owner, until, now)$($wait)*;
                let Err(StoreError::Unavailable(_)) = first else { return first };
                let second = store.consume(id, *owner, until, now)$($wait)*;
                if second.is_err() {
                    // If that fails, too, the link may stay used, which the error says as it is.
                    let _ = self.$release(id, until)$($wait)*;
                }
                second
            }

            /// Takes a number, and takes it back if it is not known.
            $($async)? fn $attempt(&self, id: ConsumedId, until: u64) -> Result<Attempt, StoreError<S::Error>> {
                let attempt = self.guard.store.attempt(id, self.owner, until, self.moment.now)$($wait)*;
                if let Err(StoreError::Unavailable(_)) = attempt {
                    self.$withdraw(id, until)$($wait)*;
                }
                attempt
            }

            $($async)? fn $release(&self, id: ConsumedId, until: u64) -> Result<(), StoreError<S::Error>> {
                let (Self { guard: Guard { store, .. }, owner, .. }, now) = (self, self.moment.now);
                match store.release(id, *owner, until, now)$($wait)* {
                    Err(_) => store.release(id, *owner, until, now)$($wait)*,
                    released => released,
                }
            }

            /// A try that cannot be taken back stays counted: whoever redeems gets the error that came first.
            $($async)? fn $withdraw(&self, id: ConsumedId, until: u64) {
                let (Self { guard: Guard { store, .. }, owner, .. }, now) = (self, self.moment.now);
                if store.withdraw(id, *owner, until, now)$($wait)*.is_err() {
                    let _ = store.withdraw(id, *owner, until, now)$($wait)*;
                }
            }
        }
    };
}

redemption!(ConsumedTokens, FnOnce, [], [], run, verify_code, consume, attempt, release, withdraw);
redemption!(
    AsyncConsumedTokens, AsyncFnOnce, [async], [.await],
    run_async, verify_code_async, consume_async, attempt_async, release_async, withdraw_async
);

/// Until when the use of a link is remembered: until no verifier accepts it any more, whatever its clock and tolerance.
const fn remember_until(expires_at: Expiry) -> u64 {
    expires_at.seconds() + MAX_CLOCK_TOLERANCE + CLOCK_MARGIN
}
