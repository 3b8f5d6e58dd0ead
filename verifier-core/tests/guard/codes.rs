//! The numbers of a code: how many tries a link has, and what takes none.

use std::cell::Cell;
use std::sync::Barrier;

use mailroom_verifier_core::{InvalidAttempts, VerifiedLink};

use super::*;

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
