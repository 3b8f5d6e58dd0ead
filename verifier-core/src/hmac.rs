//! HMAC-SHA-256 (RFC 2104, FIPS 198-1) with the key absorbed once.
//!
//! The `hmac` crate keeps its two midstates to itself. Here they are the key's whole representation, 64 bytes, so that
//! a caller without an allocator can keep them wherever it likes (the npm package keeps them in JavaScript, where the
//! garbage collector owns them), and a tag costs two compressions for every message of the token formats.

use sha2::block_api::compress256;
use subtle::ConstantTimeEq;

const BLOCK: usize = 64;

/// SHA-256's initial hash value (FIPS 180-4, section 5.3.3).
const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// A key for HMAC-SHA-256, held as SHA-256's states after the inner and the outer pad.
///
/// Whoever has these states can make tags: they are as secret as the key itself.
#[derive(Clone)]
pub struct MacKey {
    inner: [u32; 8],
    outer: [u32; 8],
}

impl MacKey {
    /// The number of bytes of [`to_bytes`](Self::to_bytes).
    pub const LENGTH: usize = 64;

    /// Absorbs a key of any length; one of more than 64 bytes is hashed first, as RFC 2104 says.
    pub fn new(key: &[u8]) -> Self {
        let mut block = [0; BLOCK];
        if let Some(start) = block.get_mut(..key.len()) {
            start.copy_from_slice(key);
        } else {
            let (digest, _) = block.split_at_mut(32);
            digest.copy_from_slice(&sha256(&[key]));
        }
        let absorb = |pad: u8| {
            let mut state = INITIAL;
            compress256(&mut state, &[block.map(|byte| byte ^ pad)]);
            state
        };
        let key = Self { inner: absorb(0x36), outer: absorb(0x5c) };
        #[cfg(feature = "zeroize")]
        zeroize::Zeroize::zeroize(&mut block);
        key
    }

    /// The tag of the concatenated `parts`.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; 32] {
        let inner = Hasher::resume(self.inner).hash(parts);
        Hasher::resume(self.outer).hash(&[&inner])
    }

    /// Whether `tag` is the tag of the concatenated `parts`, or, for fewer than 32 bytes, what it begins with (RFC 2104,
    /// section 5); decided in constant time.
    pub(crate) fn verifies<const N: usize>(&self, parts: &[&[u8]], tag: &[u8; N]) -> bool {
        const { assert!(0 < N && N <= 32, "a truncated tag has 1 to 32 bytes") };
        self.tag(parts)[..N].ct_eq(tag).into()
    }

    /// The states, inner before outer, every word big-endian.
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let words = self.inner.iter().chain(&self.outer);
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// The key whose [`to_bytes`](Self::to_bytes) is `bytes`; not every 64 bytes come from a key, which nobody can tell.
    pub fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let mut key = Self { inner: [0; 8], outer: [0; 8] };
        for (state, word) in key.inner.iter_mut().chain(&mut key.outer).zip(words) {
            *state = u32::from_be_bytes(*word);
        }
        key
    }
}

impl core::fmt::Debug for MacKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("MacKey(..)")
    }
}

#[cfg(feature = "zeroize")]
impl Drop for MacKey {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.inner);
        zeroize::Zeroize::zeroize(&mut self.outer);
    }
}

/// The SHA-256 digest of the concatenated `parts`.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    Hasher { state: INITIAL, block: [0; BLOCK], absorbed: 0 }.hash(parts)
}

/// SHA-256 from any state at a block boundary.
struct Hasher {
    state: [u32; 8],
    block: [u8; BLOCK],
    /// Bytes absorbed from the beginning of the message; its last six bits are where the block is filled up to.
    absorbed: u64,
}

impl Hasher {
    /// Goes on from the state after one block.
    fn resume(state: [u32; 8]) -> Self {
        Self { state, block: [0; BLOCK], absorbed: BLOCK as u64 }
    }

    fn hash(mut self, parts: &[&[u8]]) -> [u8; 32] {
        for part in parts {
            self.absorb(part);
        }
        self.finish()
    }

    #[expect(clippy::cast_possible_truncation, reason = "a remainder of 64 fits every integer")]
    fn filled(&self) -> usize {
        (self.absorbed % BLOCK as u64) as usize
    }

    fn absorb(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let filled = self.filled();
            let room = &mut self.block[filled..];
            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            self.absorbed += now.len() as u64;
            if self.filled() == 0 {
                compress256(&mut self.state, &[self.block]);
            }
            bytes = later;
        }
    }

    /// Pads with a one bit, zeros and the length in bits (FIPS 180-4, section 5.1.1).
    fn finish(mut self) -> [u8; 32] {
        let filled = self.filled();
        self.block[filled] = 0x80;
        self.block[filled + 1..].fill(0);
        if filled >= BLOCK - 8 {
            compress256(&mut self.state, &[self.block]);
            self.block.fill(0);
        }
        let (_, length) = self.block.split_at_mut(BLOCK - 8);
        length.copy_from_slice(&(self.absorbed * 8).to_be_bytes());
        compress256(&mut self.state, &[self.block]);

        let mut digest = [0; 32];
        for (bytes, word) in digest.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        digest
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use ::hmac::{Hmac, KeyInit, Mac};
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};
    use std::{format, vec::Vec};

    fn peer(key: &[u8], message: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(message);
        mac.finalize().into_bytes().into()
    }

    /// RFC 4231, section 4; test case 5 gives only the first 128 bits.
    #[test]
    fn the_vectors_of_rfc_4231_pass() {
        let cases: [(&[u8], &[u8], &str); 7] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
            (
                &core::array::from_fn::<u8, 25, _>(|index| u8::try_from(index + 1).unwrap()),
                &[0xcd; 50],
                "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
            ),
            (&[0x0c; 20], b"Test With Truncation", "a3b6167473100ee06e0c796c2955552b"),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
            (
                &[0xaa; 131],
                b"This is a test using a larger than block-size key and a larger than block-size data. \
                  The key needs to be hashed before being used by the HMAC algorithm.",
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
            ),
        ];
        for (number, (key, message, expected)) in (1..).zip(cases) {
            let tag = MacKey::new(key).tag(&[message]);
            let hexadecimal = format!("{:x}", base16ct::HexDisplay(&tag));
            assert!(hexadecimal.starts_with(expected), "test case {number}: {hexadecimal}");
        }
    }

    #[test]
    fn every_length_around_the_block_boundaries_agrees_with_the_hmac_crate() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..200 {
            assert_eq!(
                MacKey::new(&bytes[..length]).tag(&[&bytes]),
                peer(&bytes[..length], &bytes),
                "key of {length}"
            );
            assert_eq!(
                MacKey::new(b"key").tag(&[&bytes[..length]]),
                peer(b"key", &bytes[..length]),
                "message of {length}"
            );
            assert_eq!(sha256(&[&bytes[..length]]), *Sha256::digest(&bytes[..length]), "digest of {length}");
        }
    }

    #[test]
    fn a_tag_that_differs_in_one_bit_is_refused() {
        let key = MacKey::new(b"key");
        let tag = key.tag(&[b"message"]);
        assert!(key.verifies(&[b"message"], &tag));
        for bit in 0..256 {
            let mut altered = tag;
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verifies(&[b"message"], &altered), "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn parts_are_concatenated(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..6)) {
            let borrowed: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(MacKey::new(b"key").tag(&borrowed), peer(b"key", &parts.concat()));
        }

        #[test]
        fn a_key_survives_its_bytes(key in prop::collection::vec(any::<u8>(), 0..100)) {
            let prepared = MacKey::new(&key).to_bytes();
            prop_assert_eq!(MacKey::from_bytes(&prepared).tag(&[b"message"]), peer(&key, b"message"));
        }
    }
}
