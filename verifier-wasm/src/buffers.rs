//! The fixed buffers in the module's memory that it shares with JavaScript.
//!
//! JavaScript writes and reads them between calls, by their addresses, which the compiler has to
//! expect of a cell. No flag guards them: a call that a stack overflow of JavaScript ends would
//! never reset it.

use core::cell::Cell;

use crate::single_thread::SingleThread;

/// Longer than any token and any key, so that a text that fills it is neither.
pub(crate) const TEXT_LENGTH: usize = 176;
/// Longer than any code.
pub(crate) const CODE_LENGTH: usize = 16;
/// Longer than any nonce.
pub(crate) const NONCE_LENGTH: usize = 48;
/// As long as a consumed-token id and a binding.
pub(crate) const OUTPUT_LENGTH: usize = 16;
/// One byte for each number of an action.
pub(crate) const ACTIONS_LENGTH: usize = 128;
/// As long as a prepared key.
#[cfg(feature = "shared")]
pub(crate) const KEY_LENGTH: usize = mailroom_verifier_core::SharedKey::PREPARED_LENGTH;
#[cfg(not(feature = "shared"))]
pub(crate) const KEY_LENGTH: usize = mailroom_verifier_core::PublicKey::LENGTH;

/// As long as a signature of v3.
#[cfg(not(feature = "shared"))]
pub(crate) const SIGNATURE_LENGTH: usize = 64;
/// As long as the message of a bound link.
#[cfg(not(feature = "shared"))]
pub(crate) const MESSAGE_LENGTH: usize = 79;

/// All of them, one behind the other without gaps, as `npm/src/wasm/engine.ts` expects them.
#[repr(C)]
pub(crate) struct Buffers {
    /// The token of the next call, or a key that is to be prepared.
    pub(crate) text: Buffer<TEXT_LENGTH>,
    /// The code of the next call.
    pub(crate) code: Buffer<CODE_LENGTH>,
    /// The nonce of the browser that the next call is about.
    pub(crate) nonce: Buffer<NONCE_LENGTH>,
    /// The result of the last call where it is more than a number.
    pub(crate) output: Buffer<OUTPUT_LENGTH>,
    /// The actions that are to be known, by number: the number of digits of the code, 255 for an
    /// action that is not known.
    pub(crate) actions: Buffer<ACTIONS_LENGTH>,
    /// The prepared key that is to be loaded.
    pub(crate) key: Buffer<KEY_LENGTH>,
    /// The signature that is left to the platform.
    #[cfg(not(feature = "shared"))]
    pub(crate) signature: Buffer<SIGNATURE_LENGTH>,
    /// Its message.
    #[cfg(not(feature = "shared"))]
    pub(crate) message: Buffer<MESSAGE_LENGTH>,
}

pub(crate) static BUFFERS: Buffers = Buffers {
    text: Buffer::new(),
    code: Buffer::new(),
    nonce: Buffer::new(),
    output: Buffer::new(),
    actions: Buffer::new(),
    key: Buffer::new(),
    #[cfg(not(feature = "shared"))]
    signature: Buffer::new(),
    #[cfg(not(feature = "shared"))]
    message: Buffer::new(),
};

/// Bytes of the module's memory that JavaScript reads and writes.
#[repr(transparent)]
pub(crate) struct Buffer<const LENGTH: usize>(SingleThread<Cell<[u8; LENGTH]>>);

impl<const LENGTH: usize> Buffer<LENGTH> {
    const fn new() -> Self {
        Self(SingleThread(Cell::new([0; LENGTH])))
    }

    /// A copy of the bytes.
    pub(crate) fn load(&self) -> [u8; LENGTH] {
        self.0.get()
    }

    /// Overwrites the first bytes.
    pub(crate) fn store(&self, bytes: &[u8]) {
        let places: &Cell<[u8]> = &self.0.0;
        for (place, byte) in places.as_slice_of_cells().iter().zip(bytes) {
            place.set(*byte);
        }
    }

    /// The bytes themselves: a copy of a token takes longer than to decode it.
    ///
    /// # Safety
    /// Nothing is stored to this buffer for as long as the reference is used.
    #[expect(
        unsafe_code,
        reason = "a third of the time that a verification takes apart from its hashes"
    )]
    pub(crate) unsafe fn borrow(&self) -> &[u8; LENGTH] {
        // SAFETY: the pointer is that of a cell that lives; the caller does not store to it, and
        // JavaScript, the only other writer, waits until the call returns.
        unsafe { &*self.0.as_ptr() }
    }
}
