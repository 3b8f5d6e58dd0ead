//! The memory cache against a plain map, over millions of random operations and a clock that also goes backwards.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use std::{collections::HashMap, sync::Mutex, thread};

use fastrand::Rng;
use mailroom_verifier_core::{ConsumedId, ConsumedTokens, Consumption, Full, MemoryCache, Slot};

/// What the cache should do, written as plainly as possible.
struct Model {
    capacity: usize,
    now: u64,
    entries: HashMap<ConsumedId, Entry>,
}

struct Entry {
    until: u64,
    used: bool,
    tries: u32,
}

impl Model {
    fn entry(&mut self, id: ConsumedId, until: u64, now: u64) -> Result<Option<&mut Entry>, Full> {
        self.now = self.now.max(now);
        self.entries.retain(|_, entry| entry.until > self.now);
        if until <= self.now {
            return Ok(None);
        }
        if !self.entries.contains_key(&id) && self.entries.len() == self.capacity {
            return Err(Full);
        }
        let entry = self.entries.entry(id).or_insert(Entry { until, used: false, tries: 0 });
        entry.until = entry.until.max(until);
        Ok(Some(entry))
    }

    fn consume(&mut self, id: ConsumedId, until: u64, now: u64) -> Result<Consumption, Full> {
        Ok(match self.entry(id, until, now)? {
            None => Consumption::TooLate,
            Some(entry) if entry.used => Consumption::AlreadyUsed,
            Some(entry) => {
                entry.used = true;
                Consumption::FirstUse
            }
        })
    }

    fn attempt(&mut self, id: ConsumedId, until: u64, now: u64) -> Result<Option<u32>, Full> {
        Ok(self.entry(id, until, now)?.map(|entry| {
            entry.tries += 1;
            entry.tries
        }))
    }

    fn release(&mut self, id: ConsumedId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.used = false;
        }
    }
}

fn id(number: u32) -> ConsumedId {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    ConsumedId::from(bytes)
}

fn cache(capacity: usize) -> MemoryCache<Vec<Slot>> {
    MemoryCache::new(vec![Slot::EMPTY; capacity])
}

/// `operations` random ones; all choices come from `rng`, so that a seed repeats a failure.
fn compare_with_the_model(rng: &mut Rng, capacity: usize, operations: u32) {
    let mut cache = cache(capacity);
    let mut model = Model { capacity, now: 0, entries: HashMap::new() };
    let ids = u32::try_from(capacity).unwrap() * 2 + 2;
    let mut now: u64 = rng.u64(0..1 << 40);
    for step in 0..operations {
        now = match rng.u32(0..100) {
            0 => now + rng.u64(0..10_000),
            1 => now.saturating_sub(rng.u64(0..10_000)),
            2..20 => now + 1,
            _ => now,
        };
        let id = id(rng.u32(0..ids));
        let until = (now + rng.u64(0..2_000)).saturating_sub(100);
        match rng.u32(0..10) {
            0 => {
                cache.release(id);
                model.release(id);
            }
            1..4 => assert_eq!(cache.attempt(id, until, now), model.attempt(id, until, now), "step {step}"),
            _ => assert_eq!(cache.consume(id, until, now), model.consume(id, until, now), "step {step}"),
        }
        assert!(cache.len() as usize <= capacity, "step {step}");
        if step % 64 == 0 {
            assert_eq!(cache.len() as usize, model.entries.len(), "step {step}");
        }
    }
}

#[test]
fn millions_of_random_operations_agree_with_a_plain_map() {
    for (seed, capacity) in (0..).zip([1, 2, 3, 10, 100, 1000]) {
        compare_with_the_model(&mut Rng::with_seed(seed), capacity, 500_000);
    }
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
