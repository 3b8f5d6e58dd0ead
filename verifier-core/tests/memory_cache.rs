//! What the memory cache remembers, forgets and refuses.
//! `tests/properties` compares it with plain maps.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use std::{sync::Mutex, thread};

use mailroom_verifier_core::{
    Attempt, ConsumedId, ConsumedTokens, Consumption, Full, MAX_OWNERS, MemoryCache, Owner, Slot,
};

use Attempt::{Number, TooMany};
use Consumption::{AlreadyUsed, FirstUse, TooLate};

fn id(number: u32) -> ConsumedId {
    ConsumedId::from(bytes(number))
}

fn owner(number: u32) -> Owner {
    Owner::from_random(bytes(number))
}

fn bytes(number: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn cache(capacity: usize) -> MemoryCache<Vec<Slot>> {
    MemoryCache::new(vec![Slot::EMPTY; capacity])
}

/// The owners of most tests.
const A: u32 = 1001;
const B: u32 = 1002;

#[test]
fn a_clock_that_jumps_by_years_forgets_what_is_over_and_nothing_else() {
    let mut cache = cache(8);
    let years = 1 << 40;
    assert_eq!(cache.consume(id(1), owner(A), 100, 0), Ok(FirstUse));
    assert_eq!(cache.consume(id(2), owner(A), 2 * years, 0), Ok(FirstUse));
    assert_eq!(cache.consume(id(3), owner(A), u64::MAX, years), Ok(FirstUse));
    assert_eq!(cache.len(), 2);
    assert_eq!(cache.consume(id(2), owner(B), 2 * years, years), Ok(AlreadyUsed));
    assert_eq!(
        cache.consume(id(2), owner(B), 2 * years, 0),
        Ok(AlreadyUsed),
        "the clock was set back"
    );
    assert_eq!(cache.consume(id(1), owner(B), 100, 0), Ok(TooLate), "the clock was set back");
    assert_eq!(cache.consume(id(4), owner(A), u64::MAX, u64::MAX), Ok(TooLate));
    assert!(cache.is_empty());
}

#[test]
fn a_clock_that_once_read_the_future_refuses_old_links_and_no_new_ones() {
    let (now, lifetime) = (1_800_000_000, 2199);
    let mut cache = cache(8);
    assert_eq!(cache.consume(id(1), owner(A), now + lifetime, now), Ok(FirstUse));
    assert_eq!(cache.consume(id(2), owner(A), now + lifetime, u64::MAX), Ok(TooLate));
    assert!(cache.is_empty());
    for (wait, answer) in [(0, TooLate), (1, FirstUse), (60, FirstUse)] {
        let later = now + wait;
        let until = later + lifetime;
        assert_eq!(cache.consume(id(3), owner(A), until, later), Ok(answer), "{wait} s later");
    }
    assert_eq!(
        cache.consume(id(1), owner(B), now + lifetime, now + 60),
        Ok(TooLate),
        "its use was forgotten"
    );
    assert_eq!(cache.consume(id(3), owner(B), now + lifetime + 60, now + 60), Ok(AlreadyUsed));
    assert_eq!(
        cache.consume(id(4), owner(A), now + 2 * lifetime, now + lifetime + 60),
        Ok(FirstUse)
    );
    assert_eq!(cache.len(), 1, "what was over by the clock that is right again was forgotten");
}

#[test]
fn a_small_step_back_of_the_clock_is_ignored() {
    let mut cache = cache(8);
    assert_eq!(cache.consume(id(1), owner(A), 2000, 1000), Ok(FirstUse));
    assert_eq!(cache.consume(id(2), owner(A), 1000, 700), Ok(TooLate));
    assert_eq!(cache.consume(id(2), owner(A), 1000, 699), Ok(FirstUse), "it was set back");
}

#[test]
fn a_full_cache_refuses_new_tokens_and_still_knows_the_old_ones() {
    let mut cache = cache(2);
    assert_eq!(cache.consume(id(1), owner(A), 100, 0), Ok(FirstUse));
    assert_eq!(cache.attempt(id(2), owner(A), 200, 0), Ok(Number(1)));
    assert_eq!(cache.consume(id(3), owner(A), 300, 0), Err(Full));
    assert_eq!(cache.attempt(id(3), owner(A), 300, 99), Err(Full));
    assert_eq!(cache.release(id(3), owner(A), 300, 99), Err(Full));
    assert_eq!(cache.withdraw(id(3), owner(A), 300, 99), Err(Full));
    assert_eq!(cache.consume(id(1), owner(B), 100, 99), Ok(AlreadyUsed));
    assert_eq!(cache.consume(id(3), owner(A), 300, 100), Ok(FirstUse), "the first token is over");
    assert_eq!(cache.consume(id(2), owner(A), 200, 100), Ok(FirstUse), "a try is no use");
}

#[test]
fn a_cache_without_slots_refuses_everything() {
    assert_eq!(cache(0).consume(id(1), owner(A), 100, 0), Err(Full));
    assert_eq!(cache(0).attempt(id(1), owner(A), 100, 0), Err(Full));
}

#[test]
fn a_repeat_by_the_same_owner_is_still_its_first_use() {
    let mut cache = cache(8);
    for now in [0, 0, 50] {
        assert_eq!(cache.consume(id(1), owner(A), 100, now), Ok(FirstUse));
        assert_eq!(cache.consume(id(1), owner(B), 100, now), Ok(AlreadyUsed));
    }
}

#[test]
fn a_release_ends_the_use_of_its_owner_and_no_other_and_a_late_repeat_revives_nothing() {
    let mut cache = cache(8);
    assert_eq!(cache.consume(id(1), owner(A), 100, 0), Ok(FirstUse));
    assert_eq!(cache.release(id(1), owner(B), 100, 0), Ok(()), "nothing of its own");
    assert_eq!(cache.consume(id(1), owner(3), 100, 0), Ok(AlreadyUsed));
    assert_eq!(cache.release(id(1), owner(A), 100, 0), Ok(()));
    assert_eq!(cache.consume(id(1), owner(A), 100, 0), Ok(AlreadyUsed), "a late repeat");
    assert_eq!(cache.consume(id(1), owner(3), 100, 0), Ok(FirstUse));
    assert_eq!(cache.release(id(1), owner(A), 100, 50), Ok(()), "a late repeat");
    assert_eq!(cache.consume(id(1), owner(4), 100, 99), Ok(AlreadyUsed));
    assert_eq!(cache.consume(id(1), owner(B), 100, 99), Ok(AlreadyUsed), "its release came first");
}

#[test]
fn a_release_that_overtakes_its_consumption_is_final_until_its_time() {
    let mut cache = cache(8);
    assert_eq!(cache.release(id(1), owner(A), 100, 0), Ok(()));
    assert_eq!(cache.consume(id(1), owner(A), 100, 99), Ok(AlreadyUsed));
    assert_eq!(cache.consume(id(1), owner(B), 100, 99), Ok(FirstUse));
    assert_eq!(cache.consume(id(1), owner(A), 100, 100), Ok(TooLate));
    assert!(cache.is_empty());
}

#[test]
fn the_marks_of_one_link_are_bounded() {
    let mut cache = cache(1000);
    assert_eq!(cache.consume(id(1), owner(A), 100, 0), Ok(FirstUse));
    for number in 0..MAX_OWNERS {
        assert_eq!(cache.release(id(1), owner(number), 100, 0), Ok(()));
    }
    assert_eq!(cache.release(id(1), owner(B), 100, 0), Err(Full));
    assert_eq!(cache.consume(id(1), owner(B), 100, 0), Ok(AlreadyUsed));
    assert_eq!(
        cache.release(id(1), owner(A), 100, 0),
        Ok(()),
        "whoever has the use can always end it"
    );
    assert_eq!(
        cache.consume(id(1), owner(B), 100, 0),
        Err(Full),
        "a use that could not be released"
    );
    assert_eq!(cache.consume(id(1), owner(A), 100, 0), Ok(AlreadyUsed), "a late repeat");
    assert_eq!(cache.release(id(1), owner(0), 100, 0), Ok(()), "its mark is there");
    assert_eq!(cache.release(id(2), owner(A), 100, 0), Ok(()), "another link");
}

#[test]
fn each_owner_gets_the_number_of_those_that_stand_and_the_same_again() {
    let mut cache = cache(8);
    for (number, count) in [(1, 1), (2, 2), (1, 1), (3, 3), (2, 2)] {
        assert_eq!(cache.attempt(id(1), owner(number), 100, 0), Ok(Number(count)));
    }
    assert_eq!(cache.withdraw(id(1), owner(2), 100, 0), Ok(()));
    assert_eq!(cache.attempt(id(1), owner(4), 100, 0), Ok(Number(3)));
    assert_eq!(cache.attempt(id(1), owner(2), 100, 0), Ok(TooMany), "it has withdrawn");
    assert_eq!(cache.withdraw(id(1), owner(5), 100, 0), Ok(()));
    assert_eq!(cache.attempt(id(1), owner(5), 100, 0), Ok(TooMany), "its withdrawal came first");
    assert_eq!(cache.attempt(id(1), owner(3), 100, 0), Ok(Number(3)), "what it was told");
    assert_eq!(cache.attempt(id(1), owner(6), 100, 0), Ok(Number(4)));
}

#[test]
fn above_the_most_owners_nothing_is_recorded() {
    let mut cache = cache(1000);
    for number in 0..MAX_OWNERS {
        let _ = cache.attempt(id(1), owner(number), 100, 0);
        if number % 2 == 0 {
            assert_eq!(cache.withdraw(id(1), owner(number), 100, 0), Ok(()));
        }
    }
    assert_eq!(cache.attempt(id(1), owner(A), 100, 0), Ok(TooMany));
    assert_eq!(cache.withdraw(id(1), owner(B), 100, 0), Ok(()));
    assert_eq!(cache.len(), MAX_OWNERS);
    assert_eq!(cache.attempt(id(1), owner(99), 100, 0), Ok(Number(50)));
}

#[test]
fn a_later_time_for_an_id_extends_all_that_is_remembered_of_it() {
    let mut cache = cache(8);
    assert_eq!(cache.consume(id(1), owner(A), 100, 0), Ok(FirstUse));
    assert_eq!(cache.release(id(1), owner(B), 100, 0), Ok(()));
    assert_eq!(cache.attempt(id(1), owner(3), 200, 0), Ok(Number(1)));
    assert_eq!(cache.consume(id(1), owner(4), 100, 99), Ok(AlreadyUsed));
    assert_eq!(cache.consume(id(1), owner(4), 200, 150), Ok(AlreadyUsed));
    assert_eq!(cache.release(id(1), owner(A), 200, 150), Ok(()));
    assert_eq!(cache.consume(id(1), owner(B), 200, 150), Ok(AlreadyUsed));
    assert_eq!(cache.attempt(id(1), owner(4), 200, 199), Ok(Number(2)));
    assert_eq!(cache.consume(id(2), owner(4), 300, 200), Ok(FirstUse));
    assert_eq!(cache.len(), 1);
}

#[test]
fn a_released_token_can_be_used_again_and_its_tries_stay_counted() {
    let mut cache = cache(2);
    assert_eq!(cache.attempt(id(1), owner(A), 100, 0), Ok(Number(1)));
    assert_eq!(cache.consume(id(1), owner(A), 100, 0), Ok(FirstUse));
    assert_eq!(cache.release(id(1), owner(A), 100, 0), Ok(()));
    assert_eq!(cache.attempt(id(1), owner(B), 100, 0), Ok(Number(2)));
    assert_eq!(cache.consume(id(1), owner(B), 100, 0), Ok(FirstUse));
    assert_eq!(cache.len(), 2, "each owner takes a slot, whatever it does");
}

#[test]
fn of_many_threads_that_use_one_token_one_is_the_first() {
    let cache = Mutex::new(cache(1000));
    for number in 0..100 {
        let firsts = thread::scope(|scope| {
            let cache = &cache;
            let consume = |own| cache.consume(id(number), owner(own), 100, 0) == Ok(FirstUse);
            let threads: Vec<_> = (0..8).map(|own| scope.spawn(move || consume(own))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|first| *first).count()
        });
        assert_eq!(firsts, 1);
    }
}
