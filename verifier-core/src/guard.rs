//! Lets a link work once: verify, count the tries of a code, consume, act.

use core::fmt;

use crate::{
    action::Action,
    code::Code,
    consumed::{Attempt, ConsumedTokens, Consumption, Full, StoreError},
    error::VerifyError,
    expiry::{CLOCK_MARGIN, Expiry, MAX_CLOCK_TOLERANCE, Moment},
    owner::Owner,
    ring::{KeyRing, VerifyingKey},
    token::{Expected, UntrustedToken, Version},
    verified::{VerifiedLink, VerifiedToken},
};

/// A verifier together with a store of used tokens.
///
/// It keeps forged, stale and replayed links away from the origin. It is a shield and not the authority: the database
/// still consumes every token itself, which is why a forgotten entry of the store forges nothing.
///
/// Verifying never consumes, since mail scanners open links: verify when a page is asked for, redeem when its button is
/// pressed. Tokens that are not genuine never reach the store, so that junk cannot fill it.
///
/// A use is remembered until nobody accepts its token any more: for [`MAX_CLOCK_TOLERANCE`] and five minutes after it ends,
/// whatever tolerance those who share the store allow.
#[derive(Clone, Debug)]
pub struct Guard<K, S> {
    ring: KeyRing<K>,
    store: S,
    max_code_attempts: u32,
    v1_remember_for: Option<u64>,
}

impl<K: AsRef<[VerifyingKey]>, S: ConsumedTokens> Guard<K, S> {
    /// A guard that allows five tries of a code on each link and refuses v1.
    pub const fn new(ring: KeyRing<K>, store: S) -> Self {
        Self { ring, store, max_code_attempts: 5, v1_remember_for: None }
    }

    /// Allows `attempts` tries of a code on each link.
    #[must_use]
    pub fn max_code_attempts(self, attempts: u32) -> Self {
        Self { max_code_attempts: attempts, ..self }
    }

    /// Accepts v1 activations and remembers each for `seconds`. They carry no expiry: once that is over a link **can be
    /// replayed**, and only the database stops it.
    #[must_use]
    pub fn remember_v1_for(self, seconds: u64) -> Self {
        Self { v1_remember_for: Some(seconds), ..self }
    }

    /// Verifies `token` for what is `expected`, marks it as used and runs `effect`, the call to the origin.
    ///
    /// Of everybody who shares the store, one gets to run the effect. If it fails, the token is released and can be
    /// used again.
    ///
    /// # Errors
    /// See [`RedeemError`]; whatever is not consent is an error.
    pub fn redeem<T, E>(
        &self,
        token: impl AsRef<[u8]>,
        expected: Expected<'_>,
        moment: Moment,
        owner: Owner,
        effect: impl FnOnce(&VerifiedToken) -> Result<T, E>,
    ) -> Result<T, RedeemError<S::Error, E>> {
        self.redeem_once(token.as_ref(), expected, moment, owner, None::<CodeCheck<S::Error, E>>, effect)
    }

    /// As [`redeem`](Self::redeem), for v3 recoveries too: `check_code` compares their code where that can be done in
    /// private. It is asked after the try was counted and before the token is consumed.
    ///
    /// # Errors
    /// See [`RedeemError`].
    pub fn redeem_with<T, E>(
        &self,
        token: impl AsRef<[u8]>,
        expected: Expected<'_>,
        moment: Moment,
        owner: Owner,
        check_code: impl FnOnce(&VerifiedLink<'_>, &Code) -> Result<bool, RedeemError<S::Error, E>>,
        effect: impl FnOnce(&VerifiedToken) -> Result<T, E>,
    ) -> Result<T, RedeemError<S::Error, E>> {
        self.redeem_once(token.as_ref(), expected, moment, owner, Some(check_code), effect)
    }

    fn redeem_once<T, E>(
        &self,
        token: &[u8],
        expected: Expected<'_>,
        moment: Moment,
        owner: Owner,
        check_code: Option<impl FnOnce(&VerifiedLink<'_>, &Code) -> Result<bool, RedeemError<S::Error, E>>>,
        effect: impl FnOnce(&VerifiedToken) -> Result<T, E>,
    ) -> Result<T, RedeemError<S::Error, E>> {
        let token = UntrustedToken::parse(token)?;
        let (verified, remember_until) = if token.version() == Version::V1 {
            self.verify_v1(&token, expected, moment)?
        } else {
            let link = token.verify_link(&self.ring, expected.action, moment)?;
            let until = remember_until(link.expires_at());
            (self.verify_code(link, expected, until, moment, owner, check_code)?, until)
        };
        let id = verified.consumed_id();
        match self.store.consume(id, owner, remember_until, moment.now)? {
            Consumption::FirstUse => {}
            Consumption::AlreadyUsed => return Err(RedeemError::Used),
            Consumption::TooLate => return Err(RedeemError::TooLate),
        }
        effect(&verified).or_else(|error| {
            self.store.release(id, owner, remember_until, moment.now)?;
            Err(RedeemError::Effect(error))
        })
    }

    fn verify_v1<E>(
        &self,
        token: &UntrustedToken,
        expected: Expected<'_>,
        moment: Moment,
    ) -> Result<(VerifiedToken, u64), RedeemError<S::Error, E>> {
        // A v1 verdict on a code tells whoever asks whether the code was right, and nothing can count the tries.
        if expected.action == Action::Recover {
            return Err(RedeemError::UncheckedRecovery);
        }
        let Some(seconds) = self.v1_remember_for else { return Err(RedeemError::NoExpiry) };
        let verified = token.verify(&self.ring, expected, moment)?;
        Ok((verified, moment.now.saturating_add(seconds).saturating_add(CLOCK_MARGIN)))
    }

    fn verify_code<E>(
        &self,
        link: VerifiedLink<'_>,
        expected: Expected<'_>,
        remember_until: u64,
        moment: Moment,
        owner: Owner,
        check_code: Option<impl FnOnce(&VerifiedLink<'_>, &Code) -> Result<bool, RedeemError<S::Error, E>>>,
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
        // The number is taken before the comparison: otherwise any number of simultaneous guesses would get verdicts.
        match self.store.attempt(link.consumed_id(), owner, remember_until, moment.now)? {
            Attempt::TooLate => return Err(RedeemError::TooLate),
            Attempt::Number(number) if number <= self.max_code_attempts => {}
            Attempt::Number(_) | Attempt::TooMany => return Err(RedeemError::TooManyAttempts),
        }
        let Some(check_code) = check_code else { return Ok(link.with_code(Some(text))?) };
        if check_code(&link, &code)? {
            Ok(link.with_code(None)?)
        } else {
            Err(VerifyError::CodeMismatch.into())
        }
    }
}

/// A comparison that could be given; the type of the one that is not.
type CodeCheck<S, E> = fn(&VerifiedLink<'_>, &Code) -> Result<bool, RedeemError<S, E>>;

/// Until when the use of a link is remembered: until no verifier accepts it any more, whatever its clock.
const fn remember_until(expires_at: Expiry) -> u64 {
    expires_at.seconds() + MAX_CLOCK_TOLERANCE + CLOCK_MARGIN
}

/// Why a token was not redeemed; `S` is the store's error and `E` that of the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedeemError<S, E> {
    /// The token or its code is refused.
    Token(VerifyError),
    /// The token was used.
    Used,
    /// More codes were tried on this link than are allowed. Nothing is said about this one.
    TooManyAttempts,
    /// The store's clock is so far ahead that the token's use could not be remembered.
    TooLate,
    /// A v1 recovery, or a v3 recovery without a way to compare its code.
    UncheckedRecovery,
    /// A v1 activation, although the guard was not told for how long to remember one.
    NoExpiry,
    /// The store has no room.
    StoreFull,
    /// The store could not answer.
    Store(S),
    /// What the token was used for failed; the token was released.
    Effect(E),
}

impl<S, E> RedeemError<S, E> {
    /// The stable code, `ERR_…`; `None` for an error of the effect.
    pub const fn code(&self) -> Option<&'static str> {
        match self {
            Self::Token(error) => Some(error.code()),
            Self::Used => Some("ERR_TOKEN_USED"),
            Self::TooManyAttempts => Some("ERR_TOO_MANY_ATTEMPTS"),
            Self::TooLate => Some("ERR_TOKEN_EXPIRED"),
            Self::UncheckedRecovery | Self::NoExpiry => Some("ERR_GUARD_UNSUPPORTED"),
            Self::StoreFull => Some("ERR_STORE_FULL"),
            Self::Store(_) => Some("ERR_STORE_UNAVAILABLE"),
            Self::Effect(_) => None,
        }
    }
}

impl<S, E> From<VerifyError> for RedeemError<S, E> {
    fn from(error: VerifyError) -> Self {
        Self::Token(error)
    }
}

impl<S, E> From<StoreError<S>> for RedeemError<S, E> {
    fn from(error: StoreError<S>) -> Self {
        match error {
            StoreError::Full => Self::StoreFull,
            StoreError::Unavailable(error) => Self::Store(error),
        }
    }
}

impl<S: fmt::Display, E: fmt::Display> fmt::Display for RedeemError<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(error) => error.fmt(f),
            Self::Used => f.write_str("the token was used"),
            Self::TooManyAttempts => f.write_str("too many codes were tried on this link; ask for a new one"),
            Self::TooLate => f.write_str("the token ended longer ago than its use is remembered"),
            Self::UncheckedRecovery => f.write_str(
                "this recovery cannot be judged here: let the database compare its code, through `redeem_with` for v3",
            ),
            Self::NoExpiry => f.write_str("a v1 token carries no expiry: say with `remember_v1_for` how long it is remembered"),
            Self::StoreFull => Full.fmt(f),
            Self::Store(error) => write!(f, "the store of used tokens: {error}"),
            Self::Effect(error) => error.fmt(f),
        }
    }
}

impl<S: fmt::Debug + fmt::Display, E: fmt::Debug + fmt::Display> core::error::Error for RedeemError<S, E> {}
