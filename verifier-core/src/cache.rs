//! A store of used tokens in memory that never grows and never forgets what may still be replayed.
//!
//! Two linked structures share one array of slots. A hash table with chains finds a token by its id. A radix heap orders
//! the tokens by the time at which they may be forgotten: the list of an entry is the position of the highest bit in
//! which its time differs from the clock, so that an advancing clock empties whole lists and splits at most one, and an
//! entry moves at most 64 times before it is forgotten.

use core::cell::RefCell;

use crate::consumed::{ConsumedId, ConsumedTokens, Consumption, Full};

/// No slot: an index that no array reaches.
const NONE: u32 = u32::MAX;

/// One list for every position of the highest differing bit, and one for no difference.
const LISTS: usize = 65;

/// The bit of `Slot::state` that says that the token was used; the other 31 count its tries.
const USED: u32 = 1 << 31;

/// Room for one token: 40 bytes.
#[derive(Clone, Debug)]
pub struct Slot {
    id: [u8; ConsumedId::LENGTH],
    /// Seconds since the Unix epoch at which this entry may be forgotten.
    until: u64,
    state: u32,
    /// The next slot with the same hash.
    next_in_chain: u32,
    /// The next slot in the same list of the heap, or the next free slot.
    next_in_list: u32,
    /// The first slot whose hash is this slot's index; of no concern to the entry itself.
    chain: u32,
}

const _: () = assert!(size_of::<Slot>() == 40, "the documented size of an entry");

impl Slot {
    /// A slot without a token.
    pub const EMPTY: Self =
        Self { id: [0; 16], until: 0, state: 0, next_in_chain: NONE, next_in_list: NONE, chain: NONE };
}

/// Remembers used tokens in the slots of `S`: an array, a boxed slice, a borrowed slice.
///
/// One process only: what another process remembers is not known here. The memory is `capacity × 40` bytes and a
/// constant; every operation takes amortised constant time. A cache that is full of entries that are not over refuses
/// with [`Full`]: forgetting one would let its token through a second time.
///
/// The cache keeps the highest `now` that it was given, so that a clock that is set back makes nothing valid again.
#[derive(Debug)]
pub struct MemoryCache<S> {
    slots: S,
    lists: [u32; LISTS],
    free: u32,
    len: u32,
    now: u64,
}

impl<S: AsMut<[Slot]>> MemoryCache<S> {
    /// A cache with as many slots as `slots` has; what they held is overwritten. Slots past 2³² − 2 stay unused.
    pub fn new(mut slots: S) -> Self {
        let mut free = NONE;
        for (index, slot) in (0..NONE).zip(slots.as_mut()) {
            *slot = Slot { next_in_list: free, ..Slot::EMPTY };
            free = index;
        }
        Self { slots, lists: [NONE; LISTS], free, len: 0, now: 0 }
    }

    /// Marks a token as used, as [`ConsumedTokens::consume`] says.
    pub fn consume(&mut self, id: ConsumedId, remember_until: u64, now: u64) -> Result<Consumption, Full> {
        Ok(match self.entry(id, remember_until, now)? {
            None => Consumption::TooLate,
            Some(slot) if slot.state & USED != 0 => Consumption::AlreadyUsed,
            Some(slot) => {
                slot.state |= USED;
                Consumption::FirstUse
            }
        })
    }

    /// Takes the next number for a try of a code, as [`ConsumedTokens::attempt`] says.
    pub fn attempt(&mut self, id: ConsumedId, remember_until: u64, now: u64) -> Result<Option<u32>, Full> {
        Ok(self.entry(id, remember_until, now)?.map(|slot| {
            let tries = (slot.state & !USED).saturating_add(1).min(USED - 1);
            slot.state = slot.state & USED | tries;
            tries
        }))
    }

    /// Takes the use of a token back; its tries stay counted.
    pub fn release(&mut self, id: ConsumedId) {
        let index = self.find(id);
        if let Some(slot) = self.slot(index) {
            slot.state &= !USED;
        }
    }

    /// The number of entries that are not forgotten yet.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Moves the clock and forgets what is over. A time before the highest so far changes nothing.
    fn advance(&mut self, now: u64) {
        let Some(passed) = list_of(now, self.now).filter(|_| now > self.now) else { return };
        self.now = now;
        // Whatever differs from the former clock only below the bit that has now become one is before it.
        for list in 0..=passed {
            let mut index = self.lists.get_mut(list).map_or(NONE, |head| core::mem::replace(head, NONE));
            while let Some((until, next)) = self.slot(index).map(|slot| (slot.until, slot.next_in_list)) {
                if until > now {
                    self.push(index, until);
                } else {
                    self.forget(index);
                }
                index = next;
            }
        }
    }

    /// Puts a slot on the list of its time, which is after the clock.
    fn push(&mut self, index: u32, until: u64) {
        let head = list_of(until, self.now).and_then(|list| self.lists.get_mut(list));
        let next = head.map_or(NONE, |head| core::mem::replace(head, index));
        if let Some(slot) = self.slot(index) {
            slot.next_in_list = next;
        }
    }

    /// Takes a slot that is on no list any more out of its chain.
    fn forget(&mut self, index: u32) {
        let Some(slot) = self.slot(index) else { return };
        let (id, after) = (slot.id, slot.next_in_chain);
        let home = self.home(&id);
        let mut before = home.and_then(|home| self.slot(home)).map_or(NONE, |slot| slot.chain);
        if before == index {
            if let Some(slot) = home.and_then(|home| self.slot(home)) {
                slot.chain = after;
            }
        } else {
            while let Some(slot) = self.slot(before) {
                if slot.next_in_chain == index {
                    slot.next_in_chain = after;
                    break;
                }
                before = slot.next_in_chain;
            }
        }
        let free = core::mem::replace(&mut self.free, index);
        if let Some(slot) = self.slot(index) {
            slot.next_in_list = free;
        }
        self.len -= 1;
    }

    /// The entry of an id, made if there is none; `None` if `remember_until` is over.
    fn entry(&mut self, id: ConsumedId, remember_until: u64, now: u64) -> Result<Option<&mut Slot>, Full> {
        self.advance(now);
        if remember_until <= self.now {
            return Ok(None);
        }
        let index = match self.find(id) {
            NONE => self.insert(id, remember_until)?,
            index => index,
        };
        // An entry whose time is extended stays on its list, which is emptied no later than it should be.
        let slot = self.slot(index).ok_or(Full)?;
        slot.until = slot.until.max(remember_until);
        Ok(Some(slot))
    }

    fn find(&mut self, id: ConsumedId) -> u32 {
        let mut index =
            self.home(id.as_bytes()).and_then(|home| self.slot(home)).map_or(NONE, |slot| slot.chain);
        while let Some(slot) = self.slot(index) {
            if slot.id == *id.as_bytes() {
                break;
            }
            index = slot.next_in_chain;
        }
        index
    }

    fn insert(&mut self, id: ConsumedId, until: u64) -> Result<u32, Full> {
        let index = self.free;
        let free = self.slot(index).ok_or(Full)?.next_in_list;
        self.free = free;
        let home = self.home(id.as_bytes()).and_then(|home| self.slot(home));
        let next = home.map_or(NONE, |home| core::mem::replace(&mut home.chain, index));
        if let Some(slot) = self.slot(index) {
            slot.id = *id.as_bytes();
            slot.until = until;
            slot.state = 0;
            slot.next_in_chain = next;
        }
        self.push(index, until);
        self.len += 1;
        Ok(index)
    }

    /// The slot that holds the head of an id's chain. Ids are digests, so any bits of them are a hash.
    fn home(&mut self, id: &[u8; ConsumedId::LENGTH]) -> Option<u32> {
        let [b0, b1, b2, b3, ..] = *id;
        let slots = u32::try_from(self.slots.as_mut().len()).unwrap_or(NONE);
        u32::from_le_bytes([b0, b1, b2, b3]).checked_rem(slots)
    }

    fn slot(&mut self, index: u32) -> Option<&mut Slot> {
        self.slots.as_mut().get_mut(index as usize)
    }
}

/// The list for a time, seen from the clock.
fn list_of(time: u64, clock: u64) -> Option<usize> {
    usize::try_from(u64::BITS - (time ^ clock).leading_zeros()).ok()
}

/// For one thread; a call during another call of the same cache is answered with [`Full`].
impl<S: AsMut<[Slot]>> ConsumedTokens for RefCell<MemoryCache<S>> {
    type Error = Full;

    fn consume(&self, id: ConsumedId, remember_until: u64, now: u64) -> Result<Consumption, Full> {
        self.try_borrow_mut().map_err(|_| Full)?.consume(id, remember_until, now)
    }

    fn attempt(&self, id: ConsumedId, remember_until: u64, now: u64) -> Result<Option<u32>, Full> {
        self.try_borrow_mut().map_err(|_| Full)?.attempt(id, remember_until, now)
    }

    fn release(&self, id: ConsumedId) -> Result<(), Full> {
        self.try_borrow_mut().map_err(|_| Full)?.release(id);
        Ok(())
    }
}

/// For any number of threads of one process.
#[cfg(feature = "std")]
impl<S: AsMut<[Slot]>> ConsumedTokens for std::sync::Mutex<MemoryCache<S>> {
    type Error = Full;

    fn consume(&self, id: ConsumedId, remember_until: u64, now: u64) -> Result<Consumption, Full> {
        self.lock().map_err(|_| Full)?.consume(id, remember_until, now)
    }

    fn attempt(&self, id: ConsumedId, remember_until: u64, now: u64) -> Result<Option<u32>, Full> {
        self.lock().map_err(|_| Full)?.attempt(id, remember_until, now)
    }

    fn release(&self, id: ConsumedId) -> Result<(), Full> {
        self.lock().map_err(|_| Full)?.release(id);
        Ok(())
    }
}
