//! A store of used tokens in memory that never grows and never forgets what may still be replayed.
//!
//! There is one slot for each owner of each id, and two linked structures share the array of them.
//! A hash table with chains finds the slots of an id. A radix heap orders them by the time at which
//! they may be forgotten: the list of a slot is the position of the highest bit in which its time
//! differs from the clock, so that an advancing clock empties whole lists and splits at most one,
//! and a slot moves at most 64 times before it is forgotten.

use core::{cell::RefCell, fmt};

use crate::{
    consumed::{Attempt, ConsumedId, ConsumedTokens, Consumption, Full, MAX_OWNERS, StoreError},
    expiry::CLOCK_MARGIN,
    owner::Owner,
};

/// No slot: an index that no array reaches.
const NONE: u32 = u32::MAX;

/// One list for every position of the highest differing bit, and one for no difference.
const LISTS: usize = 65;

/// The record of one owner's operations on one token: 56 bytes.
#[derive(Clone, Debug)]
pub struct Slot {
    id: [u8; ConsumedId::LENGTH],
    owner: [u8; Owner::LENGTH],
    /// Seconds since the Unix epoch at which this entry may be forgotten; the same in all entries
    /// of an id.
    until: u64,
    /// The next slot with the same hash.
    next_in_chain: u32,
    /// The next slot in the same list of the heap, or the next free slot.
    next_in_list: u32,
    /// The first slot whose hash is this slot's index. This head of a chain is unrelated to the
    /// entry in the slot.
    chain: u32,
    /// The number of the try, 0 for none, or [`WITHDRAWN`].
    number: u8,
    usage: Usage,
}

const _: () = assert!(size_of::<Slot>() == 56, "the documented size of an entry");

/// Above every number.
const WITHDRAWN: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Usage {
    None,
    Used,
    Released,
}

impl Slot {
    /// A slot without a token.
    pub const EMPTY: Self = Self {
        id: [0; 16],
        owner: [0; 16],
        until: 0,
        next_in_chain: NONE,
        next_in_list: NONE,
        chain: NONE,
        number: 0,
        usage: Usage::None,
    };
}

/// Remembers used tokens in the slots of `S`: an array, a boxed slice, a borrowed slice.
///
/// One process only: other processes do not see it. The memory is `capacity × 56` bytes and a
/// constant. Each owner of an id takes one slot, for its try of a code and its use together; one
/// link takes at most `2 * MAX_OWNERS + 1` slots. An operation takes amortised constant time, apart
/// from the slots of its id that it looks through. A cache that is full of entries that are not
/// over refuses with [`Full`]: forgetting one would let its token through a second time.
///
/// The caller passes the clock. Steps back of up to five minutes are ignored, so that threads may
/// read the clock in any order. After a larger step back the cache scans every slot and uses the
/// new time. Entries that were forgotten before stay refused: every time up to the latest forgotten
/// one is [`TooLate`](Consumption::TooLate). So after a clock was ahead, the cache refuses links
/// that were redeemed before, or that end no later than one of them, and no others.
#[derive(Debug)]
pub struct MemoryCache<S> {
    slots: S,
    lists: [u32; LISTS],
    free: u32,
    len: u32,
    now: u64,
    /// The latest time of an entry that was forgotten.
    forgotten: u64,
}

/// The state of one id, as one owner sees it.
struct Seen {
    /// The slot of this owner.
    own: u32,
    /// Whether another owner has the use.
    used: bool,
    /// How many owners took a number or have withdrawn.
    owners: u32,
    /// How many took a number and have not withdrawn.
    standing: u32,
    /// How many released their use.
    released: u32,
    /// Until when the id is remembered; 0 if it is not.
    until: u64,
    /// Whether the time that the caller asks for is over.
    too_late: bool,
}

impl<S: AsMut<[Slot]>> MemoryCache<S> {
    /// A cache with as many slots as `slots` has; what they held is overwritten.
    /// Slots past 2³² − 2 stay unused.
    pub fn new(mut slots: S) -> Self {
        let mut free = NONE;
        for (index, slot) in (0..NONE).zip(slots.as_mut()) {
            *slot = Slot { next_in_list: free, ..Slot::EMPTY };
            free = index;
        }
        Self { slots, lists: [NONE; LISTS], free, len: 0, now: 0, forgotten: 0 }
    }

    /// Marks a token as used, as [`ConsumedTokens::consume`] says.
    pub fn consume(
        &mut self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> Result<Consumption, Full> {
        let seen = self.look(id, owner, remember_until, now);
        if seen.too_late {
            return Ok(Consumption::TooLate);
        }
        if seen.used {
            return Ok(Consumption::AlreadyUsed);
        }
        match self.usage(&seen) {
            Usage::Released => return Ok(Consumption::AlreadyUsed),
            // A use that could not be released later would stay, and so would one whose release
            // came before it.
            Usage::None if seen.released >= MAX_OWNERS => return Err(Full),
            Usage::None | Usage::Used => {}
        }
        self.own(&seen, id, owner, remember_until)?.usage = Usage::Used;
        Ok(Consumption::FirstUse)
    }

    /// Ends the use of an owner, as [`ConsumedTokens::release`] says.
    pub fn release(
        &mut self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> Result<(), Full> {
        let seen = self.look(id, owner, remember_until, now);
        // No consumption with this time is a first use any more.
        if seen.own == NONE && seen.too_late {
            return Ok(());
        }
        if self.usage(&seen) == Usage::None && seen.released >= MAX_OWNERS {
            return Err(Full);
        }
        self.own(&seen, id, owner, remember_until)?.usage = Usage::Released;
        Ok(())
    }

    /// Takes the number of a try of a code, as [`ConsumedTokens::attempt`] says.
    pub fn attempt(
        &mut self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> Result<Attempt, Full> {
        let seen = self.look(id, owner, remember_until, now);
        if seen.too_late {
            return Ok(Attempt::TooLate);
        }
        let number = match self.slot(seen.own).map_or(0, |slot| slot.number) {
            0 if seen.owners >= MAX_OWNERS => WITHDRAWN,
            0 => {
                let number = u8::try_from(seen.standing + 1).unwrap_or(WITHDRAWN);
                self.own(&seen, id, owner, remember_until)?.number = number;
                number
            }
            number => number,
        };
        Ok(if number == WITHDRAWN { Attempt::TooMany } else { Attempt::Number(number.into()) })
    }

    /// Takes the try of an owner back, as [`ConsumedTokens::withdraw`] says.
    pub fn withdraw(
        &mut self,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
        now: u64,
    ) -> Result<(), Full> {
        let seen = self.look(id, owner, remember_until, now);
        let tried = self.slot(seen.own).is_some_and(|slot| slot.number != 0);
        // With a slot of its own, or at the bound, no later attempt of this owner gets a number.
        if tried || !seen.too_late && seen.owners < MAX_OWNERS {
            self.own(&seen, id, owner, remember_until)?.number = WITHDRAWN;
        }
        Ok(())
    }

    /// The number of slots that are in use.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether no slot is in use.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Moves the clock and looks through the slots of an id, whose time is extended if the one
    /// asked for is later.
    fn look(&mut self, id: ConsumedId, owner: Owner, remember_until: u64, now: u64) -> Seen {
        self.advance(now);
        let too_late = remember_until <= self.now.max(self.forgotten);
        let mut own = NONE;
        let mut used = false;
        let mut owners = 0;
        let mut standing = 0;
        let mut released = 0;
        let mut until = 0;
        let mut index = self.first(&id);
        while let Some(slot) = self.slot(index) {
            let here = index;
            index = slot.next_in_chain;
            if slot.id != *id.as_bytes() {
                continue;
            }
            // An entry whose time is extended stays on its list,
            // which is emptied no later than it should be.
            slot.until = slot.until.max(remember_until);
            until = slot.until;
            owners += u32::from(slot.number != 0);
            standing += u32::from(slot.number != 0 && slot.number != WITHDRAWN);
            released += u32::from(slot.usage == Usage::Released);
            if slot.owner == *owner.as_bytes() {
                own = here;
            } else {
                used |= slot.usage == Usage::Used;
            }
        }
        Seen { own, used, owners, standing, released, until, too_late }
    }

    /// What the owner of these slots did.
    fn usage(&mut self, seen: &Seen) -> Usage {
        self.slot(seen.own).map_or(Usage::None, |slot| slot.usage)
    }

    /// The slot of an owner, made if there is none.
    fn own(
        &mut self,
        seen: &Seen,
        id: ConsumedId,
        owner: Owner,
        remember_until: u64,
    ) -> Result<&mut Slot, Full> {
        let index = match seen.own {
            NONE => self.insert(id, owner, remember_until.max(seen.until))?,
            index => index,
        };
        self.slot(index).ok_or(Full)
    }

    /// Moves the clock and forgets what is over.
    fn advance(&mut self, now: u64) {
        let last = if now > self.now {
            // Whatever differs from the former clock only below the bit
            // that has now become one is before it.
            list_of(now, self.now)
        } else if self.now - now > CLOCK_MARGIN {
            LISTS - 1
        } else {
            return;
        };
        self.now = now;
        for list in 0..=last {
            // Slots that move to a later list are visited once more there.
            let mut index =
                self.lists.get_mut(list).map_or(NONE, |head| core::mem::replace(head, NONE));
            while let Some((until, next)) =
                self.slot(index).map(|slot| (slot.until, slot.next_in_list))
            {
                if until > now {
                    self.push(index, until);
                } else {
                    self.forgotten = self.forgotten.max(until);
                    self.forget(index);
                }
                index = next;
            }
        }
    }

    /// Puts a slot on the list of its time, which is after the clock.
    fn push(&mut self, index: u32, until: u64) {
        let head = self.lists.get_mut(list_of(until, self.now));
        let next = head.map_or(NONE, |head| core::mem::replace(head, index));
        if let Some(slot) = self.slot(index) {
            slot.next_in_list = next;
        }
    }

    /// Takes a slot that is on no list any more out of its chain.
    fn forget(&mut self, index: u32) {
        let Some(slot) = self.slot(index) else { return };
        let id = slot.id;
        let after = slot.next_in_chain;
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

    fn insert(&mut self, id: ConsumedId, owner: Owner, until: u64) -> Result<u32, Full> {
        let index = self.free;
        let free = self.slot(index).ok_or(Full)?.next_in_list;
        self.free = free;
        let home = self.home(id.as_bytes()).and_then(|home| self.slot(home));
        let next = home.map_or(NONE, |home| core::mem::replace(&mut home.chain, index));
        if let Some(slot) = self.slot(index) {
            slot.id = *id.as_bytes();
            slot.owner = *owner.as_bytes();
            slot.until = until;
            slot.next_in_chain = next;
            slot.number = 0;
            slot.usage = Usage::None;
        }
        self.push(index, until);
        self.len += 1;
        Ok(index)
    }

    /// The first slot in the chain of an id.
    fn first(&mut self, id: &ConsumedId) -> u32 {
        self.home(id.as_bytes()).and_then(|home| self.slot(home)).map_or(NONE, |slot| slot.chain)
    }

    /// The slot that holds the head of an id's chain.
    /// Ids are digests, so any bits of them are a hash.
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
const fn list_of(time: u64, clock: u64) -> usize {
    (u64::BITS - (time ^ clock).leading_zeros()) as usize
}

/// A cache that another call is using, or in whose use a thread panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unusable;

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cache is in use by a call that has not returned, or that panicked")
    }
}

impl core::error::Error for Unusable {}

/// The store that every operation borrows as `$borrow` says.
macro_rules! shared_cache {
    ($borrow:ident) => {
        type Error = Unusable;

        fn consume(
            &self,
            id: ConsumedId,
            owner: Owner,
            remember_until: u64,
            now: u64,
        ) -> Result<Consumption, StoreError<Unusable>> {
            let mut cache = self.$borrow().map_err(|_| StoreError::Unavailable(Unusable))?;
            Ok(cache.consume(id, owner, remember_until, now)?)
        }

        fn release(
            &self,
            id: ConsumedId,
            owner: Owner,
            remember_until: u64,
            now: u64,
        ) -> Result<(), StoreError<Unusable>> {
            let mut cache = self.$borrow().map_err(|_| StoreError::Unavailable(Unusable))?;
            Ok(cache.release(id, owner, remember_until, now)?)
        }

        fn attempt(
            &self,
            id: ConsumedId,
            owner: Owner,
            remember_until: u64,
            now: u64,
        ) -> Result<Attempt, StoreError<Unusable>> {
            let mut cache = self.$borrow().map_err(|_| StoreError::Unavailable(Unusable))?;
            Ok(cache.attempt(id, owner, remember_until, now)?)
        }

        fn withdraw(
            &self,
            id: ConsumedId,
            owner: Owner,
            remember_until: u64,
            now: u64,
        ) -> Result<(), StoreError<Unusable>> {
            let mut cache = self.$borrow().map_err(|_| StoreError::Unavailable(Unusable))?;
            Ok(cache.withdraw(id, owner, remember_until, now)?)
        }
    };
}

/// For one thread; a call during another call of the same cache is refused as [`Unusable`].
impl<S: AsMut<[Slot]>> ConsumedTokens for RefCell<MemoryCache<S>> {
    shared_cache!(try_borrow_mut);
}

/// For any number of threads of one process.
#[cfg(feature = "std")]
impl<S: AsMut<[Slot]>> ConsumedTokens for std::sync::Mutex<MemoryCache<S>> {
    shared_cache!(lock);
}
