//! HMAC-SHA-256 (RFC 2104, FIPS 198-1) with the key absorbed once.
//!
//! The `hmac` crate does not expose its two midstates. Here they are the key's representation, 64
//! bytes that a caller without an allocator can store (the npm package stores them in JavaScript,
//! where the garbage collector owns them), and a tag costs two compressions. Keys have 32 bytes,
//! and all messages of the token formats fit one block with its padding or, where a link is bound
//! to a browser, two: longer ones are not supported.

use sha2::block_api::compress256;
use subtle::ConstantTimeEq;

use crate::{code::Code, secret::wipe};

#[cfg(test)]
pub(crate) mod any_length;

const BLOCK: usize = 64;

/// SHA-256's initial hash value (FIPS 180-4, section 5.3.3).
const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// A key for HMAC-SHA-256, held as SHA-256's states after the inner and the outer pad.
///
/// These states make tags: they are as secret as the key itself.
#[derive(Clone)]
pub(crate) struct MacKey {
    inner: [u32; 8],
    outer: [u32; 8],
}

impl MacKey {
    /// The number of bytes of [`to_bytes`](Self::to_bytes).
    pub(crate) const LENGTH: usize = 64;

    /// Absorbs a key of 32 bytes.
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let mut block = [0; BLOCK];
        let (start, _) = block.split_at_mut(key.len());
        start.copy_from_slice(key);
        let key = Self::of_block(&block);
        #[cfg(feature = "zeroize")]
        zeroize::Zeroize::zeroize(&mut block);
        key
    }

    /// Absorbs a key that zeros fill up to a block.
    // Once per key: a copy at each place that prepares one would cost WebAssembly a kilobyte.
    #[inline(never)]
    fn of_block(block: &[u8; BLOCK]) -> Self {
        let absorb = |pad: u8| {
            let mut state = INITIAL;
            compress256(&mut state, &[block.map(|byte| byte ^ pad)]);
            state
        };
        Self { inner: absorb(0x36), outer: absorb(0x5c) }
    }

    /// The tag of a message.
    // Its two compressions take much longer than a call,
    // and every copy of it half a kilobyte of WebAssembly.
    #[inline(never)]
    pub(crate) fn tag(&self, message: &[[u8; BLOCK]]) -> [u8; 32] {
        #[cfg(test)]
        count::one_more();
        let mut state = self.inner;
        compress256(&mut state, message);
        Message::<1>::starting_at(BLOCK, &bytes(state)).hash(self.outer)
    }

    /// Computes the tag of a message. `write` fills a buffer of `N` bytes and returns the message's
    /// length; `code`, if given, is appended.
    pub(crate) fn tag_of<const N: usize>(
        &self,
        write: impl FnOnce(&mut [u8; N]) -> usize,
        code: Option<&Code>,
    ) -> [u8; 32] {
        const { assert!(N + Code::LONGEST < 2 * BLOCK - 8, "padding and length need nine bytes") };
        let mut blocks = [[0; BLOCK]; 2];
        let length = blocks.as_flattened_mut().first_chunk_mut().map_or(0, write);
        self.tag(end_with(&mut blocks, length, code))
    }

    /// The states, inner before outer, every word little-endian,
    /// which is how most machines keep it.
    pub(crate) fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let words = self.inner.iter().chain(&self.outer);
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The key whose [`to_bytes`](Self::to_bytes) is `bytes`;
    /// 64 bytes of other origin are not detected.
    pub(crate) fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let mut key = Self { inner: [0; 8], outer: [0; 8] };
        for (state, word) in key.inner.iter_mut().chain(&mut key.outer).zip(words) {
            *state = u32::from_le_bytes(*word);
        }
        key
    }
}

/// Counts tags, so that tests can say what a verification costs without timing it.
#[cfg(test)]
pub(crate) mod count {
    extern crate std;

    use core::cell::Cell;

    std::thread_local!(static MADE: Cell<usize> = const { Cell::new(0) });

    pub(super) fn one_more() {
        MADE.set(MADE.get() + 1);
    }

    /// How many tags this thread makes while `work` runs.
    pub(crate) fn tags(work: impl FnOnce()) -> usize {
        let before = MADE.get();
        work();
        MADE.get() - before
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

/// Whether `given` is `tag` or, where it has fewer bytes, what `tag` begins with (RFC 2104,
/// section 5); decided in constant time.
pub(crate) fn same_tag<const N: usize>(tag: &[u8; 32], given: &[u8; N]) -> bool {
    const { assert!(0 < N && N <= 32, "a tag has 1 to 32 bytes") };
    // By words, because `subtle` hides each comparison from the optimiser,
    // which costs more than the comparison.
    let words_of = |bytes: &[u8]| -> [u64; 4] {
        let mut whole = [0; 32];
        whole[..N].copy_from_slice(&bytes[..N]);
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(whole.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        words
    };
    words_of(tag).ct_eq(&words_of(given)).into()
}

/// Whether a `tag` that was computed begins with the bytes that were `given`. It is overwritten,
/// since it would forge its message.
pub(crate) fn confirm<const N: usize>(mut tag: [u8; 32], given: &[u8; N]) -> bool {
    let is_confirmed = same_tag(&tag, given);
    wipe(&mut tag);
    is_confirmed
}

/// The SHA-256 digest of a message that fills `BLOCKS` blocks with its padding.
pub(crate) fn sha256<const BLOCKS: usize, const N: usize>(message: &[u8; N]) -> [u8; 32] {
    Message::<BLOCKS>::starting_at(0, message).hash(INITIAL)
}

/// A message, its padding and its length (FIPS 180-4, section 5.1.1): one block for at most 55
/// bytes, two for 56 to 119.
pub(crate) struct Message<const BLOCKS: usize>([[u8; BLOCK]; BLOCKS]);

impl<const BLOCKS: usize> Message<BLOCKS> {
    /// A message for a [`MacKey`], whose key fills the block before it.
    pub(crate) fn new<const N: usize>(message: &[u8; N]) -> Self {
        Self::starting_at(BLOCK, message)
    }

    /// `before` is the number of bytes in earlier blocks.
    fn starting_at<const N: usize>(before: usize, end: &[u8; N]) -> Self {
        const { assert!(BLOCK * (BLOCKS - 1) < N + 9, "the message fits fewer blocks") };
        const { assert!(N < BLOCK * BLOCKS - 8, "padding and length need nine bytes") };
        let mut blocks = [[0; BLOCK]; BLOCKS];
        let bytes = blocks.as_flattened_mut();
        bytes[..N].copy_from_slice(end);
        bytes[N] = 0x80;
        bytes[BLOCK * BLOCKS - 8..].copy_from_slice(&(8 * (before + N) as u64).to_be_bytes());
        Self(blocks)
    }

    /// What a [`MacKey`] takes.
    pub(crate) const fn blocks(&self) -> &[[u8; BLOCK]] {
        &self.0
    }

    fn hash(&self, mut state: [u32; 8]) -> [u8; 32] {
        compress256(&mut state, &self.0);
        bytes(state)
    }
}

/// Completes a message of `start` bytes and returns its blocks: appends the code, if any, the
/// padding and the length (FIPS 180-4, 5.1.1). The rest of `blocks` must be zero.
// Not inlined: WebAssembly has codes in two formats.
#[inline(never)]
fn end_with<'b>(
    blocks: &'b mut [[u8; BLOCK]; 2],
    start: usize,
    code: Option<&Code>,
) -> &'b [[u8; BLOCK]] {
    let bytes = blocks.as_flattened_mut();
    let mut length = start;
    if let Some(code) = code {
        for (place, digit) in bytes.iter_mut().skip(start).zip(code.padded()) {
            *place = *digit;
        }
        length += usize::from(code.digits());
    }
    // The remainder tells the compiler that the padding is inside of the blocks.
    bytes[length % (2 * BLOCK)] = 0x80;
    let bits = (8 * (BLOCK + length) as u64).to_be_bytes();
    if length < BLOCK - 8 {
        blocks[0][BLOCK - 8..].copy_from_slice(&bits);
        &blocks[..1]
    } else {
        blocks[1][BLOCK - 8..].copy_from_slice(&bits);
        blocks
    }
}

/// The bytes of words, big-endian.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn bytes(words: [u32; 8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_be_bytes();
    }
    bytes
}

/// The same. Of its integers WebAssembly can swap no bytes: shifts would be a third of a kilobyte.
// Not inlined: there are four callers.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline(never)]
fn bytes(words: [u32; 8]) -> [u8; 32] {
    use core::arch::wasm32::{u8x16_shuffle, u32x4, u64x2_extract_lane};
    let mut bytes = [0; 32];
    for (bytes, [a, b, c, d]) in
        bytes.as_chunks_mut::<16>().0.iter_mut().zip(words.as_chunks::<4>().0)
    {
        let words = u32x4(*a, *b, *c, *d);
        let swapped =
            u8x16_shuffle::<3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12>(words, words);
        let (low, high) = bytes.split_at_mut(8);
        low.copy_from_slice(&u64x2_extract_lane::<0>(swapped).to_le_bytes());
        high.copy_from_slice(&u64x2_extract_lane::<1>(swapped).to_le_bytes());
    }
    bytes
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
            (
                &[0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 20],
                &[0xdd; 50],
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
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
                b"This is a test using a larger than block-size key and a larger than block-size \
                  data. The key needs to be hashed before being used by the HMAC algorithm.",
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
            ),
        ];
        for (number, (key, message, expected)) in (1..).zip(cases) {
            let tag = any_length::tag(key, message);
            let hexadecimal = format!("{:x}", base16ct::HexDisplay(&tag));
            assert!(hexadecimal.starts_with(expected), "test case {number}: {hexadecimal}");
        }
    }

    #[test]
    fn every_length_around_the_block_boundaries_agrees_with_the_hmac_crate() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..200 {
            let some = &bytes[..length];
            assert_eq!(any_length::tag(some, &bytes), peer(some, &bytes), "key of {length}");
            assert_eq!(any_length::tag(b"key", some), peer(b"key", some), "message of {length}");
        }
    }

    #[test]
    fn every_length_that_the_formats_use_agrees_with_the_hmac_crate() {
        fn check<const BLOCKS: usize, const N: usize>(key: &[u8; 32]) {
            let message = core::array::from_fn(|index| u8::try_from(index).unwrap());
            let tag = MacKey::new(key).tag(Message::<BLOCKS>::new::<N>(&message).blocks());
            assert_eq!(tag, peer(key, &message), "message of {N}");
            assert_eq!(sha256::<BLOCKS, N>(&message), *Sha256::digest(message), "digest of {N}");
        }
        check::<1, 0>(&[0; 32]);
        check::<1, 1>(&[1; 32]);
        check::<1, 17>(&[2; 32]);
        check::<1, 19>(&[3; 32]);
        check::<1, 32>(&[4; 32]);
        check::<1, 41>(&[0xaa; 32]);
        check::<1, 45>(&[0xff; 32]);
        check::<1, 46>(&[5; 32]);
        check::<1, 51>(&[6; 32]);
        check::<1, 55>(&[7; 32]);
        check::<2, 56>(&[8; 32]);
        check::<2, 60>(&[9; 32]);
        check::<2, 62>(&[10; 32]);
        check::<2, 63>(&[11; 32]);
        check::<2, 64>(&[12; 32]);
        check::<2, 70>(&[13; 32]);
        check::<2, 119>(&[14; 32]);
    }

    #[test]
    fn a_code_ends_a_message_as_its_digits_do() {
        let key = MacKey::new(&[7; 32]);
        let bytes: [u8; 111] = core::array::from_fn(|index| u8::try_from(index).unwrap());
        let codes = ["01234", "012345", "0123456", "01234567"]
            .map(|digits| Some(Code::parse(digits).unwrap()));
        for code in codes.iter().chain([&None]) {
            let digits = code.as_ref().map_or(&b""[..], Code::as_bytes);
            for length in 0..=111 {
                let write = |start: &mut [u8; 111]| {
                    start[..length].copy_from_slice(&bytes[..length]);
                    length
                };
                let expected = peer(&[7; 32], &[&bytes[..length], digits].concat());
                assert_eq!(
                    key.tag_of(write, code.as_ref()),
                    expected,
                    "{digits:?} behind {length}"
                );
            }
        }
    }

    #[test]
    fn a_tag_that_differs_in_one_bit_is_refused() {
        fn check<const N: usize>(tag: &[u8; 32]) {
            let given: [u8; N] = tag[..N].try_into().unwrap();
            assert!(same_tag(tag, &given));
            for bit in 0..8 * N {
                let mut altered = given;
                altered[bit / 8] ^= 1 << (bit % 8);
                assert!(!same_tag(tag, &altered), "bit {bit} of {N} bytes");
            }
        }
        let tag = any_length::tag(b"key", b"message");
        check::<1>(&tag);
        check::<15>(&tag);
        check::<16>(&tag);
        check::<32>(&tag);
    }

    #[test]
    fn a_truncated_tag_says_nothing_of_the_rest() {
        let tag = any_length::tag(b"key", b"message");
        let mut other = tag;
        other[15] ^= 1;
        assert!(same_tag::<15>(&other, &tag[..15].try_into().unwrap()));
        assert!(!same_tag::<16>(&other, &tag[..16].try_into().unwrap()));
    }

    proptest! {
        #[test]
        fn any_key_and_message_have_the_tag_that_the_hmac_crate_makes(
            key: [u8; 32],
            v2: [u8; 46],
            with_code: [u8; 51],
            bound in prop::array::uniform32(any::<[u8; 2]>()),
        ) {
            let bound: [u8; 62] = bound.as_flattened()[..62].try_into().unwrap();
            let prepared = MacKey::new(&key);
            prop_assert_eq!(prepared.tag(Message::<1>::new(&v2).blocks()), peer(&key, &v2));
            let tag_with_code = prepared.tag(Message::<1>::new(&with_code).blocks());
            prop_assert_eq!(tag_with_code, peer(&key, &with_code));
            prop_assert_eq!(prepared.tag(Message::<2>::new(&bound).blocks()), peer(&key, &bound));
            let again = MacKey::from_bytes(&prepared.to_bytes());
            prop_assert_eq!(again.tag(Message::<1>::new(&v2).blocks()), peer(&key, &v2));
        }

        #[test]
        fn keys_and_messages_of_any_length_have_it_too(
            key in prop::collection::vec(any::<u8>(), 0..200),
            message in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            prop_assert_eq!(any_length::tag(&key, &message), peer(&key, &message));
        }
    }
}
