//! The store of used tokens: the core's cache, in memory that the instance grows
//! by when the store is made.
//!
//! An instance holds one store, and one that holds a store verifies nothing: growing moves the
//! buffers that JavaScript has looked up.

use core::{arch::wasm32, cell::RefCell, ptr, slice};

use mailroom_verifier_core::{
    Attempt, ConsumedId, Consumption, MAX_OWNERS, MemoryCache, Owner, Slot,
};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::{buffers::BUFFERS, single_thread::SingleThread};

const PAGE: usize = 65_536;

type Cache = MemoryCache<&'static mut [Slot]>;

static STORE: SingleThread<RefCell<Option<Cache>>> = SingleThread(RefCell::new(None));

/// Makes the store, once, with room for `capacity` tokens. Returns whether there is enough memory.
#[wasm_bindgen]
pub fn open_store(capacity: u32) -> bool {
    let Ok(mut store) = STORE.try_borrow_mut() else { return false };
    let bytes =
        usize::try_from(capacity).ok().and_then(|slots| slots.checked_mul(size_of::<Slot>()));
    let (None, Some(bytes)) = (&*store, bytes) else { return false };
    let pages = wasm32::memory_grow::<0>(bytes.div_ceil(PAGE));
    if pages == usize::MAX {
        return false;
    }
    let start = ptr::with_exposed_provenance_mut::<Slot>(pages * PAGE);
    #[expect(
        unsafe_code,
        reason = "without an allocator nothing else gives out memory whose size is known late"
    )]
    // SAFETY: these pages were just added and nothing else uses them: there is no allocator. They
    // are zeros, which every field of a slot may be, aligned by far,
    // and stay for as long as the instance.
    let slots = unsafe { slice::from_raw_parts_mut(start, bytes / size_of::<Slot>()) };
    *store = Some(MemoryCache::new(slots));
    true
}

/// Marks the token as used by the owner: 0 for the first use, 1 for any other, 2 if
/// `remember_until` is over, 3 if there is no room.
///
/// For this call and the others the text buffer holds the token's id (16 bytes) and the owner (16).
#[wasm_bindgen]
pub fn consume(remember_until: f64, now: f64) -> u32 {
    with_store(FULL, |store, id, owner| {
        match store.consume(id, owner, seconds(remember_until), seconds(now)) {
            Ok(Consumption::FirstUse) => 0,
            Ok(Consumption::AlreadyUsed) => 1,
            Ok(Consumption::TooLate) => 2,
            Err(_) => FULL,
        }
    })
}

const FULL: u32 = 3;

/// Ends the owner's use of the token: 0 if it has, 3 if there is no room.
#[wasm_bindgen]
pub fn release(remember_until: f64, now: f64) -> u32 {
    with_store(FULL, |store, id, owner| {
        store.release(id, owner, seconds(remember_until), seconds(now)).map_or(FULL, |()| 0)
    })
}

/// The number of the owner's try of a code: 0 if `remember_until` is over, 101 if it is one too
/// many, −1 if there is no room.
#[wasm_bindgen]
pub fn attempt(remember_until: f64, now: f64) -> i32 {
    with_store(-1, |store, id, owner| {
        match store.attempt(id, owner, seconds(remember_until), seconds(now)) {
            Ok(Attempt::Number(number)) => number.cast_signed(),
            Ok(Attempt::TooMany) => MAX_OWNERS.cast_signed() + 1,
            Ok(Attempt::TooLate) => 0,
            Err(_) => -1,
        }
    })
}

/// Takes the owner's try back: 0 if it has, 3 if there is no room.
#[wasm_bindgen]
pub fn withdraw(remember_until: f64, now: f64) -> u32 {
    with_store(FULL, |store, id, owner| {
        store.withdraw(id, owner, seconds(remember_until), seconds(now)).map_or(FULL, |()| 0)
    })
}

/// What `act` answers for the id and the owner in the text buffer.
fn with_store<T>(otherwise: T, act: impl FnOnce(&mut Cache, ConsumedId, Owner) -> T) -> T {
    let text = BUFFERS.text.load();
    let (Some((id, owner)), Ok(mut store)) = (text.split_first_chunk(), STORE.try_borrow_mut())
    else {
        return otherwise;
    };
    let (Some(owner), Some(store)) = (owner.first_chunk(), store.as_mut()) else {
        return otherwise;
    };
    act(store, ConsumedId::from(*id), Owner::from_random(*owner))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "out of range it is the nearest in range"
)]
const fn seconds(number: f64) -> u64 {
    number as u64
}
