//! Shared keys: v1 and v2.

use mailroom_verifier_core::{Expected, KeyRing, Moment, SharedKey};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::{
    buffers::{BUFFERS, TEXT_LENGTH},
    exchange::{
        RING, action as action_of, first, leave_expiry, leave_link, moment, token, visitor,
    },
    status,
};

/// Prepares the key in the text buffer, leaves its state ([`SharedKey::PREPARED_LENGTH`] bytes) in
/// the key buffer and its id (4 bytes) in the output buffer.
///
/// The key is what the first `hex` bytes spell in hexadecimal, or, if `hex` is negative, the first
/// 32 bytes. The text buffer is overwritten. Returns `OK` or `INVALID_KEY`.
#[wasm_bindgen]
pub fn prepare_key(hex: i32) -> u32 {
    let text = BUFFERS.text.load();
    BUFFERS.text.store(&[0; TEXT_LENGTH]);
    let key = match (usize::try_from(hex), text.first_chunk()) {
        (Ok(length), _) => SharedKey::from_hex(first(&text, length)),
        (Err(_), Some(bytes)) => Ok(SharedKey::from(bytes)),
        (Err(_), None) => return status::UNKNOWN,
    };
    match key {
        Ok(key) => {
            BUFFERS.key.store(&key.to_prepared());
            BUFFERS.output.store(&key.id());
            status::OK
        }
        Err(_) => status::INVALID_KEY,
    }
}

/// Loads the prepared key in the key buffer, with which tokens are verified from now on.
#[wasm_bindgen]
pub fn load_key() {
    RING.replace(Some(KeyRing::of(SharedKey::from_prepared(&BUFFERS.key.load()))));
}

/// Verifies the token in the first `length` bytes of the text buffer, together with its code, with
/// the key that was loaded, and leaves its expiry (a number of 64 bits as JavaScript has them, 0 in
/// v1) in the output buffer.
///
/// `action` is the [number](mailroom_verifier_core::Action::number) of the action that the caller
/// expects, `code_length` the length of the code in the code buffer, negative for no code;
/// `nonce_length` that of the visitor's nonce in the nonce buffer, negative for a visitor in the
/// right browser; `now` and `tolerance` are seconds. Lengths beyond the buffers stand for whatever
/// is too long. Returns a number of `status.rs` for tokens.
#[wasm_bindgen]
pub fn verify(
    length: usize,
    action: u8,
    code_length: i32,
    nonce_length: i32,
    now: f64,
    tolerance: f64,
) -> u32 {
    let digits = BUFFERS.code.load();
    let code = usize::try_from(code_length).ok().map(|length| first(&digits, length));
    judge(length, action, nonce_length, Asked::Token { code }, moment(now, tolerance))
}

/// Verifies the link of the token in the text buffer, apart from its code: for v2, since a v1 token
/// is one with its code.
///
/// The arguments and the result are those of `verify`; a link that was accepted, but bound to
/// another browser, has the status of
/// [`OtherBrowser`](mailroom_verifier_core::VerifyError::OtherBrowser).
#[wasm_bindgen]
pub fn verify_link(length: usize, action: u8, nonce_length: i32, now: f64, tolerance: f64) -> u32 {
    judge(length, action, nonce_length, Asked::Link, moment(now, tolerance))
}

/// What is to be judged.
#[derive(Clone, Copy)]
enum Asked<'a> {
    Link,
    Token { code: Option<&'a [u8]> },
}

/// Judges the token in the text buffer and leaves the expiry of an accepted one
/// in the output buffer.
// Not inlined: the code of a verification would be linked twice.
#[inline(never)]
fn judge(length: usize, action: u8, nonce_length: i32, asked: Asked<'_>, moment: Moment) -> u32 {
    RING.with(status::UNKNOWN, |ring| {
        let Some(action) = action_of(action, ring) else { return status::UNKNOWN };
        status::of(token(length).and_then(|token| {
            let visitor = visitor(nonce_length);
            // The browser of a token is the right one where none is judged.
            let binding =
                if nonce_length < 0 { token.unauthenticated_binding() } else { visitor.as_ref() };
            let expiry = match asked {
                Asked::Link => {
                    let expiry = token.verify_link(ring, action, moment)?.expires_at();
                    return leave_link(expiry, &token, binding);
                }
                Asked::Token { code } => {
                    token.verify(ring, Expected { action, code, binding }, moment)?.expires_at()
                }
            };
            leave_expiry(expiry);
            Ok(())
        }))
    })
}
