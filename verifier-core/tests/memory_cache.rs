//! What the memory cache remembers, forgets and refuses. `tests/properties` compares it with a plain map.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use std::{sync::Mutex, thread};

use mailroom_verifier_core::{ConsumedId, ConsumedTokens, Consumption, Full, MemoryCache, Slot};

fn id(number: u32) -> ConsumedId {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    ConsumedId::from(bytes)
}

fn cache(capacity: usize) -> MemoryCache<Vec<Slot>> {
    MemoryCache::new(vec![Slot::EMPTY; capacity])
}

#[test]
fn a_clock_that_jumps_by_years_forgets_what_is_over_and_nothing_else() {
    let mut cache = cache(8);
    let years = 1 << 40;
    assert_eq!(cache.consume(id(1), 100, 0), Ok(Consumption::FirstUse));
    assert_eq!(cache.consume(id(2), 2 * years, 0), Ok(Consumption::FirstUse));
    assert_eq!(cache.consume(id(3), u64::MAX, years), Ok(Consumption::FirstUse));
    assert_eq!(cache.len(), 2);
    assert_eq!(cache.consume(id(2), 2 * years, years), Ok(Consumption::AlreadyUsed));
    assert_eq!(cache.consume(id(2), 2 * years, 0), Ok(Consumption::AlreadyUsed), "the clock was set back");
    assert_eq!(cache.consume(id(1), 100, 0), Ok(Consumption::TooLate), "the clock was set back");
    assert_eq!(cache.consume(id(4), u64::MAX, u64::MAX), Ok(Consumption::TooLate));
    assert!(cache.is_empty());
}

#[test]
fn a_full_cache_refuses_new_tokens_and_still_knows_the_old_ones() {
    let mut cache = cache(2);
    assert_eq!(cache.consume(id(1), 100, 0), Ok(Consumption::FirstUse));
    assert_eq!(cache.attempt(id(2), 200, 0), Ok(Some(1)));
    assert_eq!(cache.consume(id(3), 300, 0), Err(Full));
    assert_eq!(cache.attempt(id(3), 300, 99), Err(Full));
    assert_eq!(cache.consume(id(1), 100, 99), Ok(Consumption::AlreadyUsed));
    assert_eq!(cache.consume(id(3), 300, 100), Ok(Consumption::FirstUse), "the first token is over");
    assert_eq!(cache.consume(id(2), 200, 100), Ok(Consumption::FirstUse), "a try is no use");
}

#[test]
fn a_cache_without_slots_refuses_everything() {
    assert_eq!(cache(0).consume(id(1), 100, 0), Err(Full));
    assert_eq!(cache(0).attempt(id(1), 100, 0), Err(Full));
}

#[test]
fn a_released_token_can_be_used_again_and_its_tries_stay_counted() {
    let mut cache = cache(2);
    assert_eq!(cache.attempt(id(1), 100, 0), Ok(Some(1)));
    assert_eq!(cache.consume(id(1), 100, 0), Ok(Consumption::FirstUse));
    cache.release(id(1));
    assert_eq!(cache.consume(id(1), 100, 0), Ok(Consumption::FirstUse));
    assert_eq!(cache.consume(id(1), 100, 0), Ok(Consumption::AlreadyUsed));
    assert_eq!(cache.attempt(id(1), 100, 0), Ok(Some(2)));
}

#[test]
fn of_many_threads_that_use_one_token_one_is_the_first() {
    let cache = Mutex::new(cache(1000));
    for number in 0..100 {
        let firsts = thread::scope(|scope| {
            let consume = || cache.consume(id(number), 100, 0) == Ok(Consumption::FirstUse);
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(consume)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|first| *first).count()
        });
        assert_eq!(firsts, 1);
    }
}
