//! The steps of a redemption.

use crate::{
    async_store::AsyncConsumedTokens,
    binding::Browser,
    code::Code,
    consumed::{Attempt, ConsumedId, ConsumedTokens, Consumption, StoreError},
    error::VerifyError,
    expiry::{CLOCK_MARGIN, Expiry, MAX_CLOCK_TOLERANCE, Moment},
    owner::Owner,
    redeem_error::RedeemError,
    ring::{KeyRing, VerifyingKey},
    token::{Expected, UntrustedToken, VerifiedLink},
    verified::VerifiedToken,
};

/// One redemption by a guard.
pub(crate) struct Redemption<'a, K, S> {
    pub(crate) ring: &'a KeyRing<K>,
    pub(crate) store: &'a S,
    pub(crate) max_code_attempts: u32,
    pub(crate) v1_remember_for: Option<u64>,
    pub(crate) moment: Moment,
    pub(crate) owner: Owner,
}

impl<K: AsRef<[VerifyingKey]>, S> Redemption<'_, K, S> {
    fn verify_v1<F, E>(
        &self,
        token: &UntrustedToken,
        expected: Expected<'_>,
    ) -> Result<(VerifiedToken, u64), RedeemError<F, E>> {
        // A v1 verdict shows whether the code was right, and attempts cannot be counted before it.
        if expected.action.digits() > 0 {
            return Err(RedeemError::UncheckedRecovery);
        }
        let Some(seconds) = self.v1_remember_for else { return Err(RedeemError::NoExpiry) };
        let verified = token.verify(self.ring, expected, self.moment)?;
        Ok((verified, self.moment.now.saturating_add(seconds).saturating_add(CLOCK_MARGIN)))
    }
}

/// The steps that call the store or the caller,
/// for synchronous or asynchronous stores and callbacks.
//
// Both kinds differ only in `await`. Polling the future once would do for synchronous stores, but a
// future that is polled after its end panics.
macro_rules! redemption {
    (
        $store:ident, $callback:ident, [$($async:ident)?], [$($wait:tt)*],
        $run:ident, $verify_code:ident,
        $consume:ident, $attempt:ident, $release:ident, $withdraw:ident
    ) => {
        impl<K: AsRef<[VerifyingKey]>, S: $store> Redemption<'_, K, S> {
            /// Verifies, takes a number for the code, consumes, and runs the callback only after
            /// the first use.
            pub(crate) $($async)? fn $run<T, E>(
                &self,
                token: &[u8],
                expected: Expected<'_>,
                check_code: Option<impl $callback(&VerifiedLink<'_>, &Code) -> Result<bool, E>>,
                callback: impl $callback(&VerifiedToken) -> Result<T, E>,
            ) -> Result<T, RedeemError<S::Error, E>> {
                let token = UntrustedToken::parse(token)?;
                let (verified, until) = if token.version().has_header() {
                    let link = token.verify_link(self.ring, expected.action, self.moment)?;
                    let until = remember_until(link.expires_at());
                    (self.$verify_code(link, expected, until, check_code)$($wait)*?, until)
                } else {
                    self.verify_v1(&token, expected)?
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
                let digits = link.action().digits();
                let visitor = expected.binding;
                let browser = link.browser(visitor);
                // This comes before a number is taken: tries from elsewhere would use up the tries
                // of the person who asked for the link.
                if browser == Browser::Other {
                    return Err(VerifyError::OtherBrowser.into());
                }
                if digits == 0 {
                    return Ok(link.with_code(expected.code, visitor)?);
                }
                let text = expected.code.ok_or(VerifyError::CodeRequired { digits })?;
                let code = Code::of(digits, text)?;
                let check_code = match check_code {
                    _ if link.version().has_code_tag() => None,
                    None => return Err(RedeemError::UncheckedRecovery),
                    check_code => check_code,
                };
                let id = link.consumed_id();
                // The number is taken before the comparison: otherwise simultaneous guesses would
                // all get verdicts.
                match self.$attempt(id, until)$($wait)*? {
                    Attempt::TooLate => return Err(RedeemError::TooLate),
                    Attempt::Number(number) if number <= self.max_code_attempts => {}
                    Attempt::Number(_) | Attempt::TooMany => {
                        return Err(RedeemError::TooManyAttempts);
                    }
                }
                let Some(check_code) = check_code else {
                    return Ok(link.with_code(Some(text), visitor)?);
                };
                match check_code(&link, &code)$($wait)* {
                    Ok(true) => Ok(link.with_proven_code(browser)),
                    Ok(false) => Err(VerifyError::CodeMismatch.into()),
                    Err(error) => {
                        self.$withdraw(id, until)$($wait)*;
                        Err(RedeemError::CodeCheck(error))
                    }
                }
            }

            /// Repeats a consumption without an answer,
            /// and releases it if the repeat has none either.
            $($async)? fn $consume(
                &self,
                id: ConsumedId,
                until: u64,
            ) -> Result<Consumption, StoreError<S::Error>> {
                let (Self { store, owner, .. }, now) = (self, self.moment.now);
                let first = store.consume(id, *owner, until, now)$($wait)*;
                let Err(StoreError::Unavailable(_)) = first else { return first };
                let second = store.consume(id, *owner, until, now)$($wait)*;
                if second.is_err() {
                    // If that fails, too, the link may stay used; the error is the same.
                    let _ = self.$release(id, until)$($wait)*;
                }
                second
            }

            /// Takes a number, and withdraws it if there is no answer.
            $($async)? fn $attempt(
                &self,
                id: ConsumedId,
                until: u64,
            ) -> Result<Attempt, StoreError<S::Error>> {
                let attempt = self.store.attempt(id, self.owner, until, self.moment.now)$($wait)*;
                if let Err(StoreError::Unavailable(_)) = attempt {
                    self.$withdraw(id, until)$($wait)*;
                }
                attempt
            }

            $($async)? fn $release(
                &self,
                id: ConsumedId,
                until: u64,
            ) -> Result<(), StoreError<S::Error>> {
                let (Self { store, owner, .. }, now) = (self, self.moment.now);
                match store.release(id, *owner, until, now)$($wait)* {
                    Err(_) => store.release(id, *owner, until, now)$($wait)*,
                    released => released,
                }
            }

            /// If this fails, the attempt stays counted; the caller gets the error that came first.
            $($async)? fn $withdraw(&self, id: ConsumedId, until: u64) {
                let (Self { store, owner, .. }, now) = (self, self.moment.now);
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

/// Until when the use of a link is remembered: until no verifier accepts it any more, whatever its
/// clock and tolerance.
const fn remember_until(expires_at: Expiry) -> u64 {
    expires_at.seconds() + MAX_CLOCK_TOLERANCE + CLOCK_MARGIN
}
