//! Public keys: v3.

use core::cell::Cell;

use mailroom_verifier_core::{Judgement, KeyRing, PublicKey, VerifyError};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::{
    buffers::BUFFERS,
    exchange::{RING, action as action_of, first, leave_link, moment, token, visitor},
    status,
};

/// Judges the key in the text buffer, leaves its 32 bytes in the key buffer and its id (4)
/// in the output buffer.
///
/// The key is the first `length` bytes as text, or, if `length` is negative, the first 32 bytes.
/// Returns `OK` or `INVALID_KEY`.
#[wasm_bindgen]
pub fn prepare_key(length: i32) -> u32 {
    let text = BUFFERS.text.load();
    let key = match (usize::try_from(length), text.first_chunk()) {
        (Ok(length), _) => PublicKey::parse(first(&text, length)),
        (Err(_), Some(bytes)) => PublicKey::from_bytes(bytes),
        (Err(_), None) => return status::UNKNOWN,
    };
    match key {
        Ok(key) => {
            BUFFERS.key.store(key.as_bytes());
            BUFFERS.output.store(&key.id());
            status::OK
        }
        Err(_) => status::INVALID_KEY,
    }
}

/// Loads the key in the key buffer, with which tokens are verified from now on.
#[wasm_bindgen]
pub fn load_key() {
    RING.replace(PublicKey::from_bytes(&BUFFERS.key.load()).ok().map(KeyRing::of));
}

/// Verifies the link of the token in the first `length` bytes of the text buffer with the key that
/// was loaded, and leaves its expiry (a number of 64 bits as JavaScript has them)
/// in the output buffer.
///
/// `nonce_length` is the length of the visitor's nonce in the nonce buffer; a link that was
/// accepted, but bound to another browser, has the status of [`VerifyError::OtherBrowser`].
/// `action` is the [number](mailroom_verifier_core::Action::number) of the action that the caller
/// expects, one that is known; `now` and `tolerance` are seconds. A length beyond the buffer stands
/// for whatever is too long. Returns a number of `status.rs` for tokens.
///
/// `signature` says who checks it: 0, or any number without a meaning, this module; 1 the platform,
/// to which signature and message are left in their buffers, with the result `PENDING`, unless the
/// module knows the verdict or platforms may disagree about it. 2 says that the platform accepted
/// it **of this token under the key that is loaded**, which nothing else proves.
#[wasm_bindgen]
pub fn verify_link(
    length: usize,
    action: u8,
    nonce_length: i32,
    now: f64,
    tolerance: f64,
    signature: u32,
) -> u32 {
    let pending = Cell::new(false);
    let judge = |message: &[u8], bytes: &[u8; 64]| match signature {
        1 => {
            BUFFERS.signature.store(bytes);
            BUFFERS.message.store(message);
            pending.set(true);
            Judgement::Pending
        }
        2 => Judgement::Accepted,
        _ => Judgement::Open,
    };
    let verdict = RING.with(status::UNKNOWN, |ring| {
        let Some(action) = action_of(action, ring) else { return status::UNKNOWN };
        status::of(token(length).and_then(|token| {
            // Checked first, so that the code of the other formats is not linked.
            if !token.version().is_public() {
                return Err(VerifyError::Signature);
            }
            let expiry = token.verify_link_with(ring, action, moment(now, tolerance), judge)?;
            leave_link(expiry, &token, visitor(nonce_length).as_ref())
        }))
    });
    if pending.get() { status::PENDING } else { verdict }
}

/// The same for a caller who may have a code, of which `code_length` is the length, negative for
/// none. No signature covers one, so a link that has one beside it is refused.
#[wasm_bindgen]
pub fn verify(
    length: usize,
    action: u8,
    code_length: i32,
    nonce_length: i32,
    now: f64,
    tolerance: f64,
    signature: u32,
) -> u32 {
    match verify_link(length, action, nonce_length, now, tolerance, signature) {
        status::OK if code_length >= 0 => status::of(Err(VerifyError::CodeUncheckable)),
        verdict => verdict,
    }
}
