//! Finds the keys of a large ring by their id, without looking at each.

use crate::header::KeyId;

/// A hash table of places in a ring: ids are digests, so their first byte is a hash.
///
/// It takes half a kibibyte, whatever the ring,
/// and covers the first [`CAPACITY`](Self::CAPACITY) keys.
#[derive(Clone)]
pub(crate) struct KeyIndex {
    /// The first place for each hash.
    first: [u8; 256],
    /// The next place with the same hash.
    next: [u8; 256],
}

/// No place.
const NONE: u8 = u8::MAX;

impl KeyIndex {
    /// How many places a byte can name besides [`NONE`].
    pub(crate) const CAPACITY: usize = NONE as usize;

    /// The index of a ring whose keys have these ids.
    pub(crate) fn new(ids: impl DoubleEndedIterator<Item = KeyId> + ExactSizeIterator) -> Self {
        let mut index = Self { first: [NONE; 256], next: [NONE; 256] };
        // From the last to the first, so that the chains are in the order of the ring.
        for (place, id) in (0..NONE).zip(ids).rev() {
            let first = &mut index.first[hash(id)];
            index.next[usize::from(place)] = core::mem::replace(first, place);
        }
        index
    }

    /// The places of all keys that may have this id, in the order of the ring.
    pub(crate) fn places(&self, id: KeyId) -> impl Iterator<Item = usize> {
        let place = |place: u8| (place != NONE).then_some(usize::from(place));
        core::iter::successors(place(self.first[hash(id)]), move |&last| {
            place(self.next[last & 255])
        })
    }
}

fn hash(id: KeyId) -> usize {
    let [first, ..] = id;
    first.into()
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{vec, vec::Vec};

    #[test]
    fn keys_that_share_a_hash_are_found_in_the_order_of_the_ring() {
        let ids = [[1, 0, 0, 0], [2, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]];
        let index = KeyIndex::new(ids.into_iter());
        let places = |id| index.places(id).collect::<Vec<_>>();
        assert_eq!(places(ids[0]), [0, 2, 3]);
        assert_eq!(places(ids[1]), [1]);
        assert_eq!(places([3; 4]), [0; 0]);
    }

    #[test]
    fn every_place_up_to_the_capacity_is_found_once() {
        for length in [0, 1, 254, 255, 256, 1000] {
            let index = KeyIndex::new(vec![[7; 4]; length].into_iter());
            let expected: Vec<_> = (0..length.min(KeyIndex::CAPACITY)).collect();
            assert_eq!(index.places([7; 4]).collect::<Vec<_>>(), expected);
        }
    }
}
