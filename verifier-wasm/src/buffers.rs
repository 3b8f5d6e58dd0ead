//! The fixed places in the module's memory through which bytes cross.
//!
//! JavaScript writes to them and reads from them behind the compiler's back, between calls. Atomic cells allow for that
//! without `unsafe`; in WebAssembly without threads they compile to plain loads and stores.

use core::{
    ptr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Longer than any token and any key, so that a text that fills it is neither.
pub(crate) const TEXT_LENGTH: usize = 160;
/// Longer than any code.
pub(crate) const CODE_LENGTH: usize = 8;
/// As long as a consumed-token id.
pub(crate) const OUTPUT_LENGTH: usize = 16;
/// As long as a prepared key, in whole words.
#[cfg(feature = "shared")]
pub(crate) const KEY_LENGTH: usize = 200;
#[cfg(not(feature = "shared"))]
pub(crate) const KEY_LENGTH: usize = 32;

/// The prepared key of the next call.
pub(crate) static KEY: Buffer<{ KEY_LENGTH / 8 }> = Buffer::new();
/// The token of the next call, or a key that is to be prepared.
pub(crate) static TEXT: Buffer<{ TEXT_LENGTH / 8 }> = Buffer::new();
/// The code of the next call.
pub(crate) static CODE: Buffer<{ CODE_LENGTH / 8 }> = Buffer::new();
/// What the last call found out, where a number does not say it.
pub(crate) static OUTPUT: Buffer<{ OUTPUT_LENGTH / 8 }> = Buffer::new();

/// Words of memory that JavaScript reads and writes as bytes.
pub(crate) struct Buffer<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Buffer<WORDS> {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; WORDS])
    }

    /// Where JavaScript finds the first byte.
    pub(crate) fn address(&self) -> *const u8 {
        ptr::from_ref(self).cast()
    }

    /// The first `BYTES` bytes.
    pub(crate) fn load<const BYTES: usize>(&self) -> [u8; BYTES] {
        const { assert!(BYTES <= 8 * WORDS, "the buffer has fewer bytes") };
        let mut bytes = [0; BYTES];
        for (bytes, word) in bytes.chunks_mut(8).zip(&self.0) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes()[..bytes.len()]);
        }
        bytes
    }

    /// Overwrites the first `BYTES` bytes, a whole number of words.
    pub(crate) fn store<const BYTES: usize>(&self, bytes: &[u8; BYTES]) {
        const { assert!(BYTES <= 8 * WORDS && BYTES.is_multiple_of(8), "the buffer has fewer bytes") };
        for (word, bytes) in self.0.iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
    }
}
