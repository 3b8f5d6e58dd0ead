//! A link works once, whoever shares the store and however often it is tried.
#![allow(
    clippy::unwrap_used,
    clippy::unnecessary_wraps,
    reason = "a test that cannot set up fails; effects are fallible"
)]

use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use mailroom_verifier_core::{
    Action, Attempt, Code, ConsumedId, ConsumedTokens, Consumption, Expected, Expiry, Grant, Guard,
    InvalidAttempts, KeyRing, Kind, MAX_CLOCK_TOLERANCE, MemoryCache, Moment, Owner, PrivateKey,
    RedeemError, Secret, SharedKey, Signer, Slot, StoreError, UntrustedToken, Unusable,
    VerifiedLink, VerifiedToken, VerifyError, VerifyingKey, v2,
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
fn of_all_codes_tried_on_a_link_five_get_a_verdict() {
    let guard = guard(100);
    let token = sign(&Signer::V2(shared()), 1, Some("04711"));
    let mut verdicts = Vec::new();
    for guess in 0..10_000 {
        let code = format!("{guess:05}");
        verdicts.push(guard.redeem(
            &token,
            Expected::recovery(&code),
            Moment::at(NOW),
            fresh(),
            accept,
        ));
    }
    let mismatch = Err(VerifyError::CodeMismatch.into());
    assert!(verdicts[..5].iter().all(|verdict| *verdict == mismatch), "{:?}", &verdicts[..5]);
    assert!(
        verdicts[5..].iter().all(|verdict| *verdict == Err(Refusal::TooManyAttempts)),
        "the right code included"
    );
}

#[test]
fn of_ten_thousand_guesses_in_parallel_at_most_five_get_a_verdict() {
    const THREADS: usize = 16;
    let guard = Guard::new(ring(), Mutex::new(MemoryCache::new(vec![Slot::EMPTY; 100])));
    let token = sign(&Signer::V2(shared()), 1, Some("04711"));
    let (guard, token, start) = (&guard, token.as_str(), &Barrier::new(THREADS));
    let guesses = |thread: usize| {
        move || {
            start.wait();
            let guesses = (thread..10_000).step_by(THREADS);
            guesses
                .map(|guess| {
                    let code = format!("{guess:05}");
                    guard.redeem(token, Expected::recovery(&code), Moment::at(NOW), fresh(), accept)
                })
                .collect::<Vec<_>>()
        }
    };
    let verdicts: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(guesses(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let refused =
        verdicts.iter().filter(|verdict| **verdict == Err(Refusal::TooManyAttempts)).count();
    assert_eq!((verdicts.len(), refused), (10_000, 9_995));
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
fn the_right_code_within_five_tries_recovers() {
    let guard = guard(10);
    let token = sign(&Signer::V2(shared()), 1, Some("04711"));
    for wrong in ["00000", "11111", "22222", "33333"] {
        let refused =
            guard.redeem(&token, Expected::recovery(wrong), Moment::at(NOW), fresh(), accept);
        assert_eq!(refused, Err(VerifyError::CodeMismatch.into()));
    }
    assert_eq!(
        guard.redeem(&token, Expected::recovery("04711"), Moment::at(NOW), fresh(), accept),
        Ok(())
    );
}

#[test]
fn a_missing_or_malformed_code_takes_no_number() {
    let guard = guard(10).max_code_attempts(1).unwrap();
    let token = sign(&Signer::V2(shared()), 1, Some("04711"));
    let without = Expected { code: None, ..Expected::recovery("") };
    let redeem = |expected| guard.redeem(&token, expected, Moment::at(NOW), fresh(), accept);
    assert_eq!(redeem(without), Err(VerifyError::CodeRequired { digits: 5 }.into()));
    assert_eq!(
        redeem(Expected::recovery("4711")),
        Err(VerifyError::CodeMalformed { digits: 5 }.into())
    );
    assert_eq!(redeem(Expected::recovery("04711")), Ok(()));
}

#[test]
fn a_v3_code_is_compared_after_its_number_was_taken_and_before_the_token_is_consumed() {
    let guard = guard(10).max_code_attempts(2).unwrap();
    let token = sign(&Signer::V3(private()), 1, Some("04711"));
    let asked = Cell::new(0);
    let redeem = |code| {
        guard.redeem_with(
            &token,
            Expected::recovery(code),
            Moment::at(NOW),
            fresh(),
            |_, code| {
                asked.set(asked.get() + 1);
                Ok(code.as_bytes() == b"04711")
            },
            accept,
        )
    };
    assert_eq!(redeem("00000"), Err(VerifyError::CodeMismatch.into()));
    assert_eq!(redeem("04711"), Ok(()));
    assert_eq!(redeem("04711"), Err(Refusal::TooManyAttempts));
    assert_eq!(asked.get(), 2);
}

#[test]
fn what_cannot_be_judged_here_is_refused_before_the_store_is_asked() {
    let guard = guard(0);
    let redeem =
        |token: String, expected| guard.redeem(token, expected, Moment::at(NOW), fresh(), accept);
    let first = |code| sign(&Signer::V1(shared()), 1, code);
    assert_eq!(
        redeem(first(Some("04711")), Expected::recovery("04711")),
        Err(Refusal::UncheckedRecovery)
    );
    assert_eq!(redeem(first(None), Expected::activation()), Err(Refusal::NoExpiry));
}

/// A store that must not be asked.
struct Untouched;

impl ConsumedTokens for Untouched {
    type Error = Infallible;

    fn consume(
        &self,
        _: ConsumedId,
        _: Owner,
        _: u64,
        _: u64,
    ) -> Result<Consumption, StoreError<Infallible>> {
        panic!("the store was asked to consume");
    }

    fn release(
        &self,
        _: ConsumedId,
        _: Owner,
        _: u64,
        _: u64,
    ) -> Result<(), StoreError<Infallible>> {
        panic!("the store was asked to release");
    }

    fn attempt(
        &self,
        _: ConsumedId,
        _: Owner,
        _: u64,
        _: u64,
    ) -> Result<Attempt, StoreError<Infallible>> {
        panic!("the store was asked for a number");
    }

    fn withdraw(
        &self,
        _: ConsumedId,
        _: Owner,
        _: u64,
        _: u64,
    ) -> Result<(), StoreError<Infallible>> {
        panic!("the store was asked to withdraw");
    }
}

/// A store in memory, of which one operation fails.
struct Failing {
    operation: &'static str,
    memory: RefCell<MemoryCache<Vec<Slot>>>,
}

/// What a store says that cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unreachable;

impl Failing {
    fn ask<T>(
        &self,
        operation: &str,
        question: impl FnOnce(&RefCell<MemoryCache<Vec<Slot>>>) -> Result<T, StoreError<Unusable>>,
    ) -> Result<T, StoreError<Unreachable>> {
        let is_reached = operation != self.operation;
        is_reached
            .then(|| question(&self.memory).ok())
            .flatten()
            .ok_or(StoreError::Unavailable(Unreachable))
    }
}

impl ConsumedTokens for Failing {
    type Error = Unreachable;

    fn consume(
        &self,
        id: ConsumedId,
        owner: Owner,
        until: u64,
        now: u64,
    ) -> Result<Consumption, StoreError<Unreachable>> {
        self.ask("consume", |memory| memory.consume(id, owner, until, now))
    }

    fn release(
        &self,
        id: ConsumedId,
        owner: Owner,
        until: u64,
        now: u64,
    ) -> Result<(), StoreError<Unreachable>> {
        self.ask("release", |memory| memory.release(id, owner, until, now))
    }

    fn attempt(
        &self,
        id: ConsumedId,
        owner: Owner,
        until: u64,
        now: u64,
    ) -> Result<Attempt, StoreError<Unreachable>> {
        self.ask("attempt", |memory| memory.attempt(id, owner, until, now))
    }

    fn withdraw(
        &self,
        id: ConsumedId,
        owner: Owner,
        until: u64,
        now: u64,
    ) -> Result<(), StoreError<Unreachable>> {
        self.ask("withdraw", |memory| memory.withdraw(id, owner, until, now))
    }
}

#[test]
fn a_store_that_fails_denies_and_no_callback_runs() {
    let token = sign(&Signer::V2(shared()), 1, Some("04711"));
    for operation in ["attempt", "consume"] {
        let guard = Guard::new(ring(), Failing { operation, memory: memory(10) });
        let ran = Cell::new(false);
        let verdict =
            guard.redeem(&token, Expected::recovery("04711"), Moment::at(NOW), fresh(), |_| {
                ran.set(true);
                Ok::<(), Infallible>(())
            });
        assert!(!ran.get(), "the effect ran although `{operation}` failed");
        assert_eq!(verdict, Err(RedeemError::Store(Unreachable)));
        assert_eq!(verdict.unwrap_err().reason(), Some("ERR_STORE_UNAVAILABLE"));
    }
}

#[test]
fn a_use_that_cannot_be_taken_back_is_told_beside_the_callbacks_error_and_the_link_stays_used() {
    let guard = Guard::new(ring(), Failing { operation: "release", memory: memory(10) });
    let token = sign(&Signer::V2(shared()), 1, None);
    let redeem = |answer: Result<(), &'static str>| {
        guard.redeem(&token, Expected::activation(), Moment::at(NOW), fresh(), |_| answer)
    };
    let told = redeem(Err("origin is down")).unwrap_err();
    let store = StoreError::Unavailable(Unreachable);
    assert_eq!(told, RedeemError::NotReleased { callback: "origin is down", store });
    assert_eq!((told.reason(), told.kind()), (Some("ERR_STORE_UNAVAILABLE"), Kind::Operator));
    assert_eq!(redeem(Ok(())), Err(RedeemError::Used));
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
fn a_guard_allows_from_one_to_a_hundred_tries() {
    for attempts in [1, 5, 100] {
        assert!(guard(0).max_code_attempts(attempts).is_ok(), "{attempts}");
    }
    for attempts in [0, 101, u32::MAX] {
        assert_eq!(
            guard(0).max_code_attempts(attempts).unwrap_err(),
            InvalidAttempts,
            "{attempts}"
        );
    }
}

#[test]
fn a_comparison_that_fails_uses_no_try_up() {
    let guard = guard(10).max_code_attempts(1).unwrap();
    let token = sign(&Signer::V3(private()), 1, Some("04711"));
    let redeem = |answer: Result<bool, &'static str>| {
        let check = |_: &VerifiedLink<'_>, _: &Code| answer;
        guard.redeem_with(
            &token,
            Expected::recovery("04711"),
            Moment::at(NOW),
            fresh(),
            check,
            |token| {
                assert!(token.code_is_proven());
                Ok(())
            },
        )
    };
    for _ in 0..3 {
        assert_eq!(redeem(Err("origin is down")), Err(RedeemError::CodeCheck("origin is down")));
    }
    assert_eq!(redeem(Ok(true)), Ok(()));
    assert_eq!(redeem(Ok(true)), Err(RedeemError::TooManyAttempts));
}

#[test]
fn a_token_that_is_not_genuine_valid_and_for_this_action_never_touches_the_store() {
    let guard = Guard::new(ring(), Untouched).remember_v1_for(900);
    let other = SharedKey::from(&[9; 32]);
    for token in [
        String::new(),
        "A".repeat(86),
        sign(&Signer::V1(other.clone()), 1, None),
        sign(&Signer::V2(other), 1, None),
        sign(&Signer::V3(PrivateKey::from_seed(&[9; 32])), 1, None),
        sign(&Signer::V2(shared()), 1, Some("04711")),
    ] {
        assert!(
            guard.redeem(token, Expected::activation(), Moment::at(NOW), fresh(), accept).is_err()
        );
    }
    let expired = sign(&Signer::V2(shared()), 1, None);
    assert!(
        guard.redeem(expired, Expected::activation(), Moment::at(EXPIRY), fresh(), accept).is_err()
    );
}

#[test]
fn a_v3_recovery_without_a_way_to_compare_its_code_takes_no_number() {
    let token = sign(&Signer::V3(private()), 1, Some("04711"));
    let guard = Guard::new(ring(), Untouched);
    let verdict =
        guard.redeem(token, Expected::recovery("04711"), Moment::at(NOW), fresh(), accept);
    assert_eq!(verdict, Err(RedeemError::UncheckedRecovery));
}

#[test]
fn guards_that_share_a_store_let_a_link_through_once_among_them() {
    let store = memory(10);
    let token = sign(&Signer::V2(shared()), 1, None);
    let redeem = || {
        Guard::new(ring(), &store).redeem(
            &token,
            Expected::activation(),
            Moment::at(NOW),
            fresh(),
            accept,
        )
    };
    assert_eq!(redeem(), Ok(()));
    assert_eq!(redeem(), Err(Refusal::Used));
}

#[test]
fn a_full_store_denies() {
    let verdict = guard(0).redeem(
        sign(&Signer::V2(shared()), 1, None),
        Expected::activation(),
        Moment::at(NOW),
        fresh(),
        accept,
    );
    assert_eq!(verdict, Err(Refusal::StoreFull));
    assert_eq!(verdict.unwrap_err().reason(), Some("ERR_STORE_FULL"));
}

#[test]
fn a_store_whose_clock_runs_ahead_lets_nothing_through_twice() {
    let guard = guard(10);
    let token = sign(&Signer::V2(shared()), 1, None);
    let redeem = |moment| guard.redeem(&token, Expected::activation(), moment, fresh(), accept);
    assert_eq!(redeem(Moment::at(EXPIRY - 1)), Ok(()));
    // Another holder of the store whose clock is half an hour ahead makes it forget the entry.
    let other = sign_until(EXPIRY + 3600, 2);
    let ahead = Moment::at(EXPIRY + 1800);
    assert_eq!(guard.redeem(other, Expected::activation(), ahead, fresh(), accept), Ok(()));
    assert_eq!(redeem(Moment::at(EXPIRY - 1)), Err(Refusal::TooLate));
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
