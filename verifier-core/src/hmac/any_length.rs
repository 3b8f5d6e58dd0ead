//! Keys and messages longer than any of the formats, so that published test cases can be tried on
//! what the formats use: the states that a key is absorbed into,
//! the last block of a message, and its padding.

extern crate std;

use std::vec::Vec;

use sha2::block_api::compress256;

use super::{BLOCK, INITIAL, MacKey, Message};

/// The tag of any message under a key of any length (RFC 2104, section 2).
pub(crate) fn tag(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    let key = if key.len() > BLOCK { &digest(INITIAL, 0, key)[..] } else { key };
    block[..key.len()].copy_from_slice(key);
    let key = MacKey::of_block(&block);
    let inner = digest(key.inner, BLOCK, message);
    Message::<1>::starting_at(BLOCK, &inner).hash(key.outer)
}

/// SHA-256 from the state after `before` bytes.
/// The message is padded here as far as one block does not do.
fn digest(mut state: [u32; 8], before: usize, message: &[u8]) -> [u8; 32] {
    let (blocks, rest) = message.as_chunks::<BLOCK>();
    for block in blocks {
        compress256(&mut state, &[*block]);
    }
    let before = before + message.len() - rest.len();
    if rest.len() < BLOCK - 8 {
        return short(state, before, rest);
    }
    let mut padded = Vec::from(rest);
    padded.push(0x80);
    padded.resize(2 * BLOCK - 8, 0);
    padded.extend((8 * (before + rest.len()) as u64).to_be_bytes());
    for block in padded.as_chunks::<BLOCK>().0 {
        compress256(&mut state, &[*block]);
    }
    super::bytes(state)
}

/// What the formats use, for each length that it takes.
fn short(state: [u32; 8], before: usize, rest: &[u8]) -> [u8; 32] {
    macro_rules! of_length {
        ($($length:literal)*) => {
            match rest.len() {
                $($length => {
                    let rest = rest.try_into().unwrap();
                    Message::<1>::starting_at::<$length>(before, rest).hash(state)
                })*
                length => unreachable!("{length} bytes need another block"),
            }
        };
    }
    of_length!(
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27
        28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55
    )
}
