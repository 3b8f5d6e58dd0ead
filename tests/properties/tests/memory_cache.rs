//! Millions of random operations on the memory cache.

use fastrand::Rng;
use mailroom_properties::store::{Clock, Entrance, Operation, assert_agrees_with_a_plain_map};

/// Mostly uses of a few more ids than there is room for, by a clock that mostly moves on.
fn operation(rng: &mut Rng, ids: u16) -> Operation {
    let id = rng.u16(0..ids);
    let now = match rng.u32(0..1000) {
        0 => Clock::Set(rng.u64(..) >> rng.u32(0..64)),
        1..10 => Clock::Moved(rng.i16(..)),
        10..200 => Clock::Moved(1),
        _ => Clock::Still,
    };
    let entrance = Entrance { id, now, lifetime: rng.i16(-100..2000) };
    match rng.u32(0..10) {
        0 => Operation::Release(id),
        1..4 => Operation::Attempt(entrance),
        _ => Operation::Consume(entrance),
    }
}

#[test]
fn millions_of_random_operations_agree_with_a_plain_map() {
    for (seed, capacity) in (0..600).zip([1, 2, 3, 10, 100, 1000].into_iter().cycle()) {
        let mut rng = Rng::with_seed(seed);
        let ids = u16::try_from(2 * capacity + 2).expect("a small number");
        let operations: Vec<_> = (0..5_000).map(|_| operation(&mut rng, ids)).collect();
        assert_agrees_with_a_plain_map(capacity, operations);
    }
}
