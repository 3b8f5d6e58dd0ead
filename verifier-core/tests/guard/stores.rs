//! Stores that fail, are full, are shared, have another clock, or must not be asked at all.

use std::cell::Cell;

use mailroom_verifier_core::{Attempt, ConsumedId, ConsumedTokens, Consumption};

use super::*;

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
fn a_v3_recovery_without_a_way_to_compare_its_code_takes_no_number() {
    let token = sign(&Signer::V3(private()), 1, Some("04711"));
    let guard = Guard::new(ring(), Untouched);
    let verdict =
        guard.redeem(token, Expected::recovery("04711"), Moment::at(NOW), fresh(), accept);
    assert_eq!(verdict, Err(RedeemError::UncheckedRecovery));
}
