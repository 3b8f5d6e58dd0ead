//! A link works once, whoever shares the store and however often it is tried.
#![allow(
    clippy::unwrap_used,
    clippy::unnecessary_wraps,
    reason = "a test that cannot set up fails; effects are fallible"
)]

mod codes;
mod stores;

use std::{
    cell::RefCell,
    convert::Infallible,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use mailroom_verifier_core::{
    Action, Code, Expected, Expiry, Grant, Guard, KeyRing, Kind, MAX_CLOCK_TOLERANCE, MemoryCache,
    Moment, Owner, PrivateKey, RedeemError, Secret, SharedKey, Signer, Slot, StoreError,
    UntrustedToken, Unusable, VerifiedToken, VerifyError, VerifyingKey, v2,
};

const NOW: u64 = 1_800_000_000;
const EXPIRY: u64 = NOW + 900;

type Refusal = RedeemError<Unusable, Infallible>;

fn shared() -> SharedKey {
    SharedKey::from(&[3; 32])
}

fn private() -> PrivateKey {
    PrivateKey::from_seed(&[4; 32])
}

fn ring() -> KeyRing<[VerifyingKey; 2]> {
    KeyRing::new([shared().into(), private().public_key().clone().into()]).unwrap()
}

fn sign(signer: &Signer, secret: u8, code: Option<&str>) -> String {
    let code = code.map(|digits| Code::parse(digits).unwrap());
    let action = if code.is_some() { Action::Recover } else { Action::Activate };
    let expires_at = Expiry::from_seconds(EXPIRY).unwrap();
    let grant = Grant {
        secret: &Secret::from([secret; 32]),
        action,
        code: code.as_ref(),
        expires_at,
        binding: None,
    };
    signer.sign(grant).unwrap().to_string()
}

fn sign_until(seconds: u64, secret: u8) -> String {
    v2::sign_activation(
        &shared(),
        &Secret::from([secret; 32]),
        Expiry::from_seconds(seconds).unwrap(),
    )
    .to_string()
}

fn memory(capacity: usize) -> RefCell<MemoryCache<Vec<Slot>>> {
    RefCell::new(MemoryCache::new(vec![Slot::EMPTY; capacity]))
}

fn guard(capacity: usize) -> Guard<[VerifyingKey; 2], RefCell<MemoryCache<Vec<Slot>>>> {
    Guard::new(ring(), memory(capacity))
}

/// An owner that nobody had before.
fn fresh() -> Owner {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    Owner::from_random(bytes)
}

fn accept(_: &VerifiedToken) -> Result<(), Infallible> {
    Ok(())
}

#[test]
fn a_link_works_once_in_every_format() {
    let signers = [Signer::V1(shared()), Signer::V2(shared()), Signer::V3(private())];
    for (secret, signer) in (0..).zip(&signers) {
        let guard = guard(10).remember_v1_for(900);
        let token = sign(signer, secret, None);
        let redeem =
            || guard.redeem(&token, Expected::activation(), Moment::at(NOW), fresh(), accept);
        assert_eq!(redeem(), Ok(()));
        assert_eq!(redeem(), Err(Refusal::Used));
    }
}

#[test]
fn a_row_that_is_sent_again_in_another_format_is_the_same_link() {
    let guard = guard(10);
    let [second, third] =
        [Signer::V2(shared()), Signer::V3(private())].map(|signer| sign(&signer, 7, None));
    assert_eq!(
        guard.redeem(second, Expected::activation(), Moment::at(NOW), fresh(), accept),
        Ok(())
    );
    assert_eq!(
        guard.redeem(third, Expected::activation(), Moment::at(NOW), fresh(), accept),
        Err(Refusal::Used)
    );
}

#[test]
fn a_failed_callback_releases_the_link_and_a_callback_runs_once_among_all_threads() {
    let guard = Guard::new(ring(), Mutex::new(MemoryCache::new(vec![Slot::EMPTY; 10])));
    let token = sign(&Signer::V2(shared()), 1, None);
    let failed = guard.redeem(&token, Expected::activation(), Moment::at(NOW), fresh(), |_| {
        Err::<(), _>("origin is down")
    });
    assert_eq!(failed, Err(RedeemError::Callback("origin is down")));

    let effects = AtomicU32::new(0);
    let redeem = || {
        guard.redeem(&token, Expected::activation(), Moment::at(NOW), fresh(), |_| {
            effects.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(())
        })
    };
    let redeemed = thread::scope(|scope| {
        let threads: Vec<_> = (0..100).map(|_| scope.spawn(redeem)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).count()
    });
    assert_eq!((redeemed, effects.into_inner()), (1, 1));
}

#[test]
fn verifying_never_consumes() {
    let guard = guard(10);
    for code in [None, Some("04711")] {
        let token = sign(&Signer::V2(shared()), 1 + u8::from(code.is_some()), code);
        let expected = code.map_or(Expected::activation(), Expected::recovery);
        let untrusted = UntrustedToken::parse(&token).unwrap();
        for _ in 0..100 {
            assert!(untrusted.verify_link(&ring(), expected.action, Moment::at(NOW)).is_ok());
            assert!(untrusted.verify(&ring(), expected, Moment::at(NOW)).is_ok());
        }
        assert_eq!(guard.redeem(&token, expected, Moment::at(NOW), fresh(), accept), Ok(()));
        assert!(
            untrusted.verify(&ring(), expected, Moment::at(NOW)).is_ok(),
            "nor does it ask the store"
        );
    }
}

#[test]
fn errors_lead_to_their_sources() {
    use std::{error::Error, io};
    let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
    let kind = |error: &dyn Error| {
        error.source().and_then(|source| source.downcast_ref()).map(io::Error::kind)
    };
    for error in [
        RedeemError::<io::Error, io::Error>::Store(reset()),
        RedeemError::Callback(reset()),
        RedeemError::CodeCheck(reset()),
    ] {
        assert_eq!(kind(&error), Some(io::ErrorKind::ConnectionReset), "{error:?}");
    }
    let callback = io::Error::other("origin is down");
    let error = RedeemError::NotReleased { callback, store: StoreError::Unavailable(reset()) };
    assert_eq!(kind(error.source().unwrap()), Some(io::ErrorKind::ConnectionReset));
    assert!(error.to_string().contains("origin is down"), "{error}");
    let malformed = UntrustedToken::parse("x").unwrap_err();
    assert!(RedeemError::<io::Error, io::Error>::Token(malformed).source().is_some());
}

#[test]
fn visitors_and_operators_are_told_apart() {
    type Any = RedeemError<Unusable, Infallible>;
    for error in [VerifyError::Signature.into(), Any::Used, Any::TooManyAttempts, Any::TooLate] {
        assert_eq!(error.kind(), Kind::Visitor, "{error}");
    }
    for error in [Any::UncheckedRecovery, Any::NoExpiry, Any::StoreFull, Any::Store(Unusable)] {
        assert_eq!(error.kind(), Kind::Operator, "{error}");
    }
}

#[test]
fn a_guard_that_tolerates_nothing_remembers_for_one_that_tolerates_the_most() {
    let store = memory(10);
    let token = sign(&Signer::V2(shared()), 1, None);
    let redeem = |moment| {
        Guard::new(ring(), &store).redeem(&token, Expected::activation(), moment, fresh(), accept)
    };
    assert_eq!(redeem(Moment::at(NOW)), Ok(()));
    for late in [900, 998] {
        assert_eq!(
            redeem(Moment::at(EXPIRY + late).tolerating(u64::MAX)),
            Err(Refusal::Used),
            "{late} s late"
        );
    }
    let over = redeem(Moment::at(EXPIRY + MAX_CLOCK_TOLERANCE).tolerating(u64::MAX));
    assert!(matches!(over, Err(RedeemError::Token(VerifyError::Expired { .. }))), "{over:?}");
}
