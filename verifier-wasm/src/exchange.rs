//! What both modules do: read what JavaScript has left, and show what a token consists of.

use mailroom_verifier_core::{
    Action, ConsumedId, Expected, KeyRing, Moment, Secret, UntrustedToken, VerifyError, VerifyingKey,
};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::{
    buffers::{CODE, CODE_LENGTH, OUTPUT, OUTPUT_LENGTH, TEXT, TEXT_LENGTH},
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

/// Leaves what a token consists of in the output buffer, **proving nothing**.
///
/// In this order: its version (1 byte), the action that it claims (1, 0 in v1), the id of its key (4, zeros in v1), its
/// expiry (8, big-endian, zeros in v1), its secret (32), its tag (32) or signature (64). `length` and the result are
/// those of `verify`.
#[wasm_bindgen]
pub fn inspect(length: usize) -> u32 {
    status::of(token(length).map(|token| {
        let mut output = [0; OUTPUT_LENGTH];
        let (header, rest) = output.split_at_mut(HEADER);
        let (secret, tag) = rest.split_at_mut(Secret::LENGTH);
        header[0] = token.version().number();
        header[1] = token.unauthenticated_action().map_or(0, Action::number);
        header[2..6].copy_from_slice(&token.unauthenticated_key_id().unwrap_or_default());
        let expiry = token.unauthenticated_expiry().map_or(0, |expiry| expiry.seconds());
        header[6..].copy_from_slice(&expiry.to_be_bytes());
        secret.copy_from_slice(token.unauthenticated_secret().as_bytes());
        for (to, from) in tag.iter_mut().zip(token.unauthenticated_tag()) {
            *to = *from;
        }
        OUTPUT.store(&output);
    }))
}

/// Version, action, key id and expiry.
const HEADER: usize = 14;

/// Leaves the consumed-token id (16 bytes) of a token in the output buffer, **proving nothing**.
///
/// `length` and the result are those of `verify`.
#[wasm_bindgen]
pub fn identify(length: usize) -> u32 {
    status::of(token(length).map(|token| {
        OUTPUT.store(ConsumedId::of(token.unauthenticated_secret()).as_bytes());
    }))
}

/// Judges the link in the text buffer by `ring`, and leaves its expiry (8 bytes, little-endian) in the output buffer.
pub(crate) fn judge_link(ring: &KeyRing<[VerifyingKey; 1]>, length: usize, action: u8, moment: Moment) -> u32 {
    let Some(action) = Action::from_number(action) else { return status::UNKNOWN };
    status::of(token(length).and_then(|token| {
        let link = token.verify_link(ring, action, moment)?;
        OUTPUT.store(&link.expires_at().seconds().to_le_bytes());
        Ok(())
    }))
}

/// Judges the token in the text buffer, and leaves its expiry (8 bytes, little-endian, 0 in v1) in the output buffer.
pub(crate) fn judge(
    ring: &KeyRing<[VerifyingKey; 1]>,
    length: usize,
    action: u8,
    code: i32,
    moment: Moment,
) -> u32 {
    with_expected(length, action, code, |token, expected| {
        let verified = token.verify(ring, expected, moment)?;
        OUTPUT.store(&verified.expires_at().map_or(0, |expiry| expiry.seconds()).to_le_bytes());
        Ok(())
    })
}

/// The verdict on the token in the text buffer and what is expected of it.
pub(crate) fn with_expected(
    length: usize,
    action: u8,
    code: i32,
    verdict: impl FnOnce(UntrustedToken, Expected<'_>) -> Result<(), VerifyError>,
) -> u32 {
    let Some(action) = Action::from_number(action) else { return status::UNKNOWN };
    let digits: [u8; CODE_LENGTH] = CODE.load();
    let code = usize::try_from(code).ok().map(|length| first(&digits, length));
    status::of(token(length).and_then(|token| verdict(token, Expected { action, code })))
}

/// The moment that JavaScript has judged to be one: whole seconds, none of them negative.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "out of range it is the nearest in range")]
pub(crate) fn moment(now: f64, tolerance: f64) -> Moment {
    Moment::at(now as u64).tolerating(tolerance as u64)
}

fn token(length: usize) -> Result<UntrustedToken, VerifyError> {
    let text: [u8; TEXT_LENGTH] = TEXT.load();
    UntrustedToken::parse(first(&text, length))
}

/// The first `length` bytes; all of them, which are more than any format has, for a length that is beyond them.
pub(crate) fn first(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(..length).unwrap_or(bytes)
}
