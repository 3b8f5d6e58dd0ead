//! The memory cache against plain maps, with owners that repeat, overtake and withdraw, and a clock
//! that goes backwards.

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Unstructured};
use mailroom_verifier_core::{Attempt, ConsumedId, Consumption, Full, MemoryCache, Owner, Slot};

/// How many owners take a number of one id, and how many marks of releases it has at most.
const MOST: usize = 100;
/// The steps back of the clock that are ignored, in seconds.
const IGNORED: u64 = 300;

/// What the cache should do, written as plainly as possible.
#[derive(Debug)]
pub struct Model {
    capacity: usize,
    now: u64,
    forgotten: u64,
    ids: BTreeMap<ConsumedId, Remembered>,
}

/// What is remembered of one id.
#[derive(Debug, Default)]
struct Remembered {
    until: u64,
    owners: BTreeMap<[u8; 16], Deeds>,
}

/// What one owner did with one id.
#[derive(Debug, Default)]
struct Deeds {
    used: bool,
    released: bool,
    tried: Option<Tried>,
}

#[derive(Clone, Copy, Debug)]
enum Tried {
    Number(u32),
    Withdrawn,
}

impl Model {
    /// A store for what `capacity` owners do.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, now: 0, forgotten: 0, ids: BTreeMap::new() }
    }

    /// Moves the clock, forgets what is over and extends what is not;
    /// returns whether `until` is over.
    fn moves_past(&mut self, id: ConsumedId, until: u64, now: u64) -> bool {
        if now > self.now || self.now - now > IGNORED {
            self.now = now;
        }
        let over: Vec<_> =
            self.ids.iter().filter(|(_, of)| of.until <= self.now).map(|(id, _)| *id).collect();
        for id in over {
            let of = self.ids.remove(&id).expect("it was just there");
            self.forgotten = self.forgotten.max(of.until);
        }
        if let Some(of) = self.ids.get_mut(&id) {
            of.until = of.until.max(until);
        }
        until <= self.now || until <= self.forgotten
    }

    fn deeds(&self, id: ConsumedId) -> impl Iterator<Item = (&[u8; 16], &Deeds)> {
        self.ids.get(&id).into_iter().flat_map(|of| &of.owners)
    }

    fn own(&self, id: ConsumedId, owner: Owner) -> Option<&Deeds> {
        self.ids.get(&id)?.owners.get(owner.as_bytes())
    }

    /// What an owner did, to be changed; a new owner needs room.
    fn change(&mut self, id: ConsumedId, owner: Owner, until: u64) -> Result<&mut Deeds, Full> {
        if self.own(id, owner).is_none() && self.len() == self.capacity {
            return Err(Full);
        }
        let of = self.ids.entry(id).or_default();
        of.until = of.until.max(until);
        Ok(of.owners.entry(*owner.as_bytes()).or_default())
    }

    /// As [`mailroom_verifier_core::ConsumedTokens::consume`].
    pub fn consume(
        &mut self,
        id: ConsumedId,
        owner: Owner,
        until: u64,
        now: u64,
    ) -> Result<Consumption, Full> {
        if self.moves_past(id, until, now) {
            return Ok(Consumption::TooLate);
        }
        if self.deeds(id).any(|(other, deeds)| deeds.used && other != owner.as_bytes()) {
            return Ok(Consumption::AlreadyUsed);
        }
        let own = self.own(id, owner);
        if own.is_some_and(|own| own.released) {
            return Ok(Consumption::AlreadyUsed);
        }
        if !own.is_some_and(|own| own.used) && self.is_full_of_marks(id) {
            return Err(Full);
        }
        self.change(id, owner, until)?.used = true;
        Ok(Consumption::FirstUse)
    }

    fn is_full_of_marks(&self, id: ConsumedId) -> bool {
        self.deeds(id).filter(|(_, deeds)| deeds.released).count() >= MOST
    }

    /// As [`mailroom_verifier_core::ConsumedTokens::release`].
    pub fn release(
        &mut self,
        id: ConsumedId,
        owner: Owner,
        until: u64,
        now: u64,
    ) -> Result<(), Full> {
        let over = self.moves_past(id, until, now);
        match self.own(id, owner) {
            Some(own) if own.released => return Ok(()),
            None if over => return Ok(()),
            _ => {}
        }
        if !self.own(id, owner).is_some_and(|own| own.used) && self.is_full_of_marks(id) {
            return Err(Full);
        }
        let own = self.change(id, owner, until)?;
        (own.used, own.released) = (false, true);
        Ok(())
    }

    /// As [`mailroom_verifier_core::ConsumedTokens::attempt`].
    pub fn attempt(
        &mut self,
        id: ConsumedId,
        owner: Owner,
        until: u64,
        now: u64,
    ) -> Result<Attempt, Full> {
        if self.moves_past(id, until, now) {
            return Ok(Attempt::TooLate);
        }
        match self.own(id, owner).and_then(|own| own.tried) {
            Some(Tried::Number(number)) => return Ok(Attempt::Number(number)),
            Some(Tried::Withdrawn) => return Ok(Attempt::TooMany),
            None => {}
        }
        if self.tried(id) == MOST {
            return Ok(Attempt::TooMany);
        }
        let stand = self
            .deeds(id)
            .filter(|(_, deeds)| matches!(deeds.tried, Some(Tried::Number(_))))
            .count();
        let number = u32::try_from(stand + 1).expect("it is at most a hundred");
        self.change(id, owner, until)?.tried = Some(Tried::Number(number));
        Ok(Attempt::Number(number))
    }

    /// As [`mailroom_verifier_core::ConsumedTokens::withdraw`].
    pub fn withdraw(
        &mut self,
        id: ConsumedId,
        owner: Owner,
        until: u64,
        now: u64,
    ) -> Result<(), Full> {
        let over = self.moves_past(id, until, now);
        let has_tried = self.own(id, owner).is_some_and(|own| own.tried.is_some());
        if has_tried || !over && self.tried(id) < MOST {
            self.change(id, owner, until)?.tried = Some(Tried::Withdrawn);
        }
        Ok(())
    }

    fn tried(&self, id: ConsumedId) -> usize {
        self.deeds(id).filter(|(_, deeds)| deeds.tried.is_some()).count()
    }

    /// How many owners are not forgotten yet, each counted for each id.
    pub fn len(&self) -> usize {
        self.ids.values().map(|of| of.owners.len()).sum()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A question to a store.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Operation {
    /// What is asked.
    pub question: Question,
    /// Stands for an id; some share a hash.
    pub id: u16,
    /// Stands for an owner.
    pub owner: u8,
    /// The clock.
    pub now: Clock,
    /// Seconds from the clock until the entry may be forgotten.
    pub lifetime: i16,
}

/// What a store is asked.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Question {
    /// To use an id.
    Consume,
    /// To end a use.
    Release,
    /// For the number of a try.
    Attempt,
    /// To take a try back.
    Withdraw,
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
pub fn assert_agrees_with_plain_maps(
    capacity: usize,
    operations: impl IntoIterator<Item = Operation>,
) {
    let mut cache = MemoryCache::new(vec![Slot::EMPTY; capacity]);
    let mut model = Model::new(capacity);
    let mut now = 0;
    for (step, operation) in operations.into_iter().enumerate() {
        now = operation.now.after(now);
        let until = now.saturating_add_signed(operation.lifetime.into());
        let (id, owner) = (id(operation.id), Owner::from_random([operation.owner; 16]));
        match operation.question {
            Question::Consume => {
                let expected = model.consume(id, owner, until, now);
                assert_eq!(cache.consume(id, owner, until, now), expected, "step {step}");
            }
            Question::Release => {
                let expected = model.release(id, owner, until, now);
                assert_eq!(cache.release(id, owner, until, now), expected, "step {step}");
            }
            Question::Attempt => {
                let expected = model.attempt(id, owner, until, now);
                assert_eq!(cache.attempt(id, owner, until, now), expected, "step {step}");
            }
            Question::Withdraw => {
                let expected = model.withdraw(id, owner, until, now);
                assert_eq!(cache.withdraw(id, owner, until, now), expected, "step {step}");
            }
        }
        assert_eq!(usize::try_from(cache.len()), Ok(model.len()), "step {step}: {operation:?}");
        assert_eq!(cache.is_empty(), model.is_empty());
    }
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
    let Ok((capacity, operations)) =
        <(u8, Vec<Operation>)>::arbitrary_take_rest(Unstructured::new(data))
    else {
        return;
    };
    assert_agrees_with_plain_maps(capacity.into(), operations);
}
