//! Millions of random operations on the memory cache.

use fastrand::Rng;
use mailroom_properties::store::{Clock, Operation, Question, assert_agrees_with_plain_maps};

/// Mostly uses of a few more ids than there is room for,
/// by a few owners and a clock that mostly moves on.
fn operation(rng: &mut Rng, ids: u16, owners: u8) -> Operation {
    let now = match rng.u32(0..1000) {
        0 => Clock::Set(rng.u64(..) >> rng.u32(0..64)),
        1..10 => Clock::Moved(rng.i16(..)),
        10..200 => Clock::Moved(1),
        _ => Clock::Still,
    };
    let question = match rng.u32(0..10) {
        0..4 => Question::Consume,
        4..6 => Question::Release,
        6..9 => Question::Attempt,
        _ => Question::Withdraw,
    };
    Operation {
        question,
        id: rng.u16(0..ids),
        owner: rng.u8(0..owners),
        now,
        lifetime: rng.i16(-100..2000),
    }
}

#[test]
fn millions_of_random_operations_agree_with_plain_maps() {
    for (seed, capacity) in (0..600).zip([1, 2, 3, 10, 100, 1000].into_iter().cycle()) {
        let mut rng = Rng::with_seed(seed);
        let ids = u16::try_from(2 * capacity + 2).expect("a small number");
        let operations: Vec<_> = (0..5_000).map(|_| operation(&mut rng, ids, 4)).collect();
        assert_agrees_with_plain_maps(capacity, operations);
    }
}

#[test]
fn more_owners_than_a_link_may_have_agree_with_plain_maps() {
    for seed in 0..50 {
        let mut rng = Rng::with_seed(seed);
        let operations: Vec<_> = (0..5_000).map(|_| operation(&mut rng, 2, 255)).collect();
        assert_agrees_with_plain_maps(1000, operations);
    }
}
