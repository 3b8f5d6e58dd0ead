//! What both modules do: read what JavaScript has left, and show what a token consists of.

use mailroom_verifier_core::{ConsumedId, KeyId, Moment, UntrustedToken, VerifyError};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::{
    buffers::{CODE, OUTPUT, TEXT, TEXT_LENGTH},
    status,
};

/// Where the token of the next call lies, in ASCII; also the key that is to be prepared, in bytes or in text.
#[wasm_bindgen]
pub fn text_buffer() -> *const u8 {
    TEXT.address()
}

/// Where the code of the next call lies, in ASCII.
#[wasm_bindgen]
pub fn code_buffer() -> *const u8 {
    CODE.address()
}

/// Where the last call left what a number does not say.
#[wasm_bindgen]
pub fn output_buffer() -> *const u8 {
    OUTPUT.address()
}

/// Leaves the consumed-token id (16 bytes) of a token in the output buffer, **proving nothing**.
///
/// `length` and the result are those of `verify`.
#[wasm_bindgen]
pub fn identify(length: usize) -> u32 {
    status::of(token(length).map(|token| {
        OUTPUT.store(ConsumedId::of(token.unauthenticated_secret()).as_bytes());
    }))
}

/// The moment that JavaScript has judged to be one: whole seconds, none of them negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "out of range it is the nearest in range"
)]
pub(crate) fn moment(now: f64, tolerance: f64) -> Moment {
    Moment::at(now as u64).tolerating(tolerance as u64)
}

/// The token in the text buffer.
pub(crate) fn token(length: usize) -> Result<UntrustedToken, VerifyError> {
    let text: [u8; TEXT_LENGTH] = TEXT.load();
    UntrustedToken::parse(first(&text, length))
}

/// The first `length` bytes; all of them, which are more than any format has, for a length that is beyond them.
pub(crate) fn first(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(..length).unwrap_or(bytes)
}

/// The id of a key in a whole word, as buffers want it.
pub(crate) fn word([i0, i1, i2, i3]: KeyId) -> [u8; 8] {
    [i0, i1, i2, i3, 0, 0, 0, 0]
}
