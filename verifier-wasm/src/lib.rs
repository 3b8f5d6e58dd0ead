//! The verifier as a WebAssembly module, inside the npm package `mailroom-verifier`.
//!
//! Every export takes and returns integers. Bytes cross through fixed buffers in the module's memory, which JavaScript
//! fills before a call and reads after it ([`key_buffer`], [`text_buffer`], [`code_buffer`], [`output_buffer`]): no
//! string encoder, no allocator, nothing to free, and a call that is refused leaves the module as it was. The module
//! imports nothing, so the script that wasm-bindgen generates beside it has nothing to do and is not part of the
//! package; its declarations of the exports are (`npm/src/engine.ts`).
//!
//! Prepared keys live in JavaScript, where the garbage collector owns them; one of them is in the key buffer while it
//! is used.

#![cfg_attr(target_family = "wasm", no_std)]

#[cfg(target_family = "wasm")]
mod bare;
mod buffers;
mod status;

use mailroom_verifier_core::{
    Action, ConsumedId, Expected, KeyRing, Malformed, Moment, Secret, SharedKey, UntrustedToken, VerifyError,
    Version, v1,
};
use wasm_bindgen::prelude::wasm_bindgen;

use buffers::{CODE, CODE_LENGTH, KEY, KEY_LENGTH, OUTPUT, OUTPUT_LENGTH, TEXT, TEXT_LENGTH};

/// Where the prepared key of the next call lies: what v1 needs of [`SharedKey::to_prepared`], 64 bytes.
#[wasm_bindgen]
pub fn key_buffer() -> *const u8 {
    KEY.address()
}

/// Where the token of the next call lies, in ASCII; also the key that [`prepare_key`] reads, in bytes or in text.
#[wasm_bindgen]
pub fn text_buffer() -> *const u8 {
    TEXT.address()
}

/// Where the code of the next call lies, in ASCII.
#[wasm_bindgen]
pub fn code_buffer() -> *const u8 {
    CODE.address()
}

/// Where [`inspect`], [`identify`] and [`expected_tag`] leave what they found.
#[wasm_bindgen]
pub fn output_buffer() -> *const u8 {
    OUTPUT.address()
}

/// Prepares the key in the text buffer and leaves its state in the key buffer.
///
/// The key is what the first `hex` bytes spell in hexadecimal, or, if `hex` is negative, the first 32 bytes. The text
/// buffer is overwritten. Returns a number of `status.rs` for keys.
#[wasm_bindgen]
pub fn prepare_key(hex: i32) -> u32 {
    let text: [u8; TEXT_LENGTH] = TEXT.load();
    let key = match usize::try_from(hex) {
        Ok(length) => SharedKey::from_hex(first(&text, length)),
        Err(_) => Ok(SharedKey::from(&TEXT.load())),
    };
    TEXT.store(&[0; TEXT_LENGTH]);
    match key {
        Ok(key) => {
            if let Some(prepared) = key.to_prepared().first_chunk::<KEY_LENGTH>() {
                KEY.store(prepared);
            }
            status::OK
        }
        Err(error) => status::of_key(error),
    }
}

/// Verifies the token in the first `length` bytes of the text buffer with the key in the key buffer.
///
/// `action` is the [number](Action::number) of the action that the caller expects, `code` the length of the code in the
/// code buffer, or negative for no code. Lengths beyond the buffers stand for whatever is too long. Returns a number
/// of `status.rs` for tokens.
#[wasm_bindgen]
pub fn verify(length: usize, action: u8, code: i32) -> u32 {
    judge(length, action, code, |token, expected| {
        token.verify(&KeyRing::of(key()), expected, Moment::at(0)).map(|_| ())
    })
}

/// Leaves secret (32 bytes) and tag (32) of a token in the output buffer, **proving nothing**.
///
/// `length` and the result are those of [`verify`].
#[wasm_bindgen]
pub fn inspect(length: usize) -> u32 {
    status::of(token(length).map(|token| {
        let mut output = [0; OUTPUT_LENGTH];
        let (secret, tag) = output.split_at_mut(Secret::LENGTH);
        secret.copy_from_slice(token.unauthenticated_secret().as_bytes());
        for (to, from) in tag.iter_mut().zip(token.unauthenticated_tag()) {
            *to = *from;
        }
        OUTPUT.store(&output);
    }))
}

/// Leaves the consumed-token id (16 bytes) of a token in the output buffer, **proving nothing**.
///
/// `length` and the result are those of [`verify`].
#[wasm_bindgen]
pub fn identify(length: usize) -> u32 {
    status::of(token(length).map(|token| {
        OUTPUT.store(ConsumedId::of(token.unauthenticated_secret()).as_bytes());
    }))
}

/// Leaves the tag (32 bytes) that the token should have in the output buffer, for those who look for what is wrong.
///
/// Arguments and result are those of [`verify`], except that a wrong tag is no failure.
#[wasm_bindgen]
pub fn expected_tag(length: usize, action: u8, code: i32) -> u32 {
    judge(length, action, code, |token, expected| {
        token.expected_tag(&key(), expected).map(|tag| OUTPUT.store(&tag))
    })
}

fn judge(
    length: usize,
    action: u8,
    code: i32,
    verdict: impl FnOnce(UntrustedToken, Expected<'_>) -> Result<(), VerifyError>,
) -> u32 {
    let Some(action) = Action::from_number(action) else { return status::UNKNOWN };
    let digits: [u8; CODE_LENGTH] = CODE.load();
    let code = usize::try_from(code).ok().map(|length| first(&digits, length));
    status::of(token(length).and_then(|token| match token.version() {
        // Says to the optimiser what `token` made sure of, so that it leaves out what judges other formats.
        Version::V1 => verdict(token, Expected { action, code }),
        _ => Err(VerifyError::Signature),
    }))
}

fn token(length: usize) -> Result<UntrustedToken, VerifyError> {
    let text: [u8; TEXT_LENGTH] = TEXT.load();
    let text = first(&text, length);
    // The package verifies v1 only: to it, a token of another format is a string of another length.
    if text.len() != v1::CHARACTERS {
        return Err(Malformed::Length { found: text.len() }.into());
    }
    UntrustedToken::parse(text)
}

/// The key in the key buffer, good for v1 only: what other formats need of it is not there.
fn key() -> SharedKey {
    let mut prepared = [0; SharedKey::PREPARED_LENGTH];
    if let Some(start) = prepared.first_chunk_mut::<KEY_LENGTH>() {
        *start = KEY.load();
    }
    SharedKey::from_prepared(&prepared)
}

/// The first `length` bytes; all of them, which are more than any format has, for a length that is beyond them.
fn first(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(..length).unwrap_or(bytes)
}
