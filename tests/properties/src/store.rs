//! The memory cache against a plain map, with a clock that also goes backwards.

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Unstructured};
use mailroom_verifier_core::{ConsumedId, Consumption, Full, MemoryCache, Slot};

/// What the cache should do, written as plainly as possible.
#[derive(Debug)]
pub struct Model {
    capacity: usize,
    now: u64,
    entries: BTreeMap<ConsumedId, Entry>,
}

#[derive(Debug)]
struct Entry {
    until: u64,
    used: bool,
    tries: u32,
}

impl Model {
    /// A store for `capacity` ids.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, now: 0, entries: BTreeMap::new() }
    }

    fn entry(&mut self, id: ConsumedId, until: u64, now: u64) -> Result<Option<&mut Entry>, Full> {
        if now > self.now {
            self.now = now;
            self.entries.retain(|_, entry| entry.until > now);
        }
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

    /// As [`mailroom_verifier_core::ConsumedTokens::consume`].
    pub fn consume(&mut self, id: ConsumedId, until: u64, now: u64) -> Result<Consumption, Full> {
        Ok(match self.entry(id, until, now)? {
            None => Consumption::TooLate,
            Some(entry) if entry.used => Consumption::AlreadyUsed,
            Some(entry) => {
                entry.used = true;
                Consumption::FirstUse
            }
        })
    }

    /// As [`mailroom_verifier_core::ConsumedTokens::attempt`].
    pub fn attempt(&mut self, id: ConsumedId, until: u64, now: u64) -> Result<Option<u32>, Full> {
        Ok(self.entry(id, until, now)?.map(|entry| {
            entry.tries += 1;
            entry.tries
        }))
    }

    /// As [`mailroom_verifier_core::ConsumedTokens::release`].
    pub fn release(&mut self, id: ConsumedId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.used = false;
        }
    }

    /// The number of entries that are not forgotten yet.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// A question to a store.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Operation {
    /// Uses an id.
    Consume(Entrance),
    /// Takes a number for an id.
    Attempt(Entrance),
    /// Takes the use of an id back.
    Release(u16),
}

/// An id, and when it is used.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Entrance {
    /// Stands for an id; some share a hash.
    pub id: u16,
    /// The clock.
    pub now: Clock,
    /// Seconds from the clock until the entry may be forgotten.
    pub lifetime: i16,
}

/// How the clock of the next caller differs from that of the last.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Clock {
    /// It does not.
    Still,
    /// By seconds, also backwards.
    Moved(i16),
    /// It shows something else entirely.
    Set(u64),
}

impl Clock {
    /// What the next clock shows.
    #[must_use]
    pub fn after(self, now: u64) -> u64 {
        match self {
            Self::Still => now,
            Self::Moved(seconds) => now.saturating_add_signed(seconds.into()),
            Self::Set(time) => time,
        }
    }
}

/// Puts each operation to a cache and to the model.
///
/// # Panics
/// If an answer differs, or what is remembered afterwards.
pub fn assert_agrees_with_a_plain_map(capacity: usize, operations: impl IntoIterator<Item = Operation>) {
    let mut cache = MemoryCache::new(vec![Slot::EMPTY; capacity]);
    let mut model = Model::new(capacity);
    let mut now = 0;
    for (step, operation) in operations.into_iter().enumerate() {
        match operation {
            Operation::Release(number) => {
                cache.release(id(number));
                model.release(id(number));
            }
            Operation::Consume(entrance) => {
                let until = times(entrance, &mut now);
                let id = id(entrance.id);
                assert_eq!(cache.consume(id, until, now), model.consume(id, until, now), "step {step}");
            }
            Operation::Attempt(entrance) => {
                let until = times(entrance, &mut now);
                let id = id(entrance.id);
                assert_eq!(cache.attempt(id, until, now), model.attempt(id, until, now), "step {step}");
            }
        }
        assert_eq!(usize::try_from(cache.len()), Ok(model.len()), "step {step}: {operation:?}");
        assert_eq!(cache.is_empty(), model.is_empty());
    }
}

/// Moves the clock and returns until when the entry is remembered.
fn times(entrance: Entrance, now: &mut u64) -> u64 {
    *now = entrance.now.after(*now);
    now.saturating_add_signed(entrance.lifetime.into())
}

/// Each even number has the hash of the odd one after it.
fn id(number: u16) -> ConsumedId {
    let [high, low] = (number >> 1).to_be_bytes();
    let mut bytes = [0; ConsumedId::LENGTH];
    bytes[0] = low;
    bytes[1] = high;
    bytes[15] = u8::from(number & 1 == 1);
    ConsumedId::from(bytes)
}

/// Reads a capacity of at most 255 and operations.
pub fn memory_cache(data: &[u8]) {
    let Ok((capacity, operations)) = <(u8, Vec<Operation>)>::arbitrary_take_rest(Unstructured::new(data))
    else {
        return;
    };
    assert_agrees_with_a_plain_map(capacity.into(), operations);
}
