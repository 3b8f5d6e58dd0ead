//! The exports of both modules: the buffers, and the parts of a token.

use core::{
    cell::{Cell, UnsafeCell},
    ptr,
};

use mailroom_verifier_core::{
    Action, Binding, Browser, ConsumedId, Expiry, Further, KeyRing, KnownActions, Moment,
    UntrustedToken, VerifyError,
};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::{buffers::BUFFERS, single_thread::SingleThread, status};

/// The key that was loaded, as a ring.
pub(crate) static RING: Loaded = Loaded(SingleThread(UnsafeCell::new(None)));

/// A key that stays from one call to the next, since to load it takes longer
/// than to decode a token.
pub(crate) struct Loaded(SingleThread<UnsafeCell<Option<KeyRing>>>);

#[expect(unsafe_code, reason = "a flag that guards the key would stay set where a call is cut off")]
impl Loaded {
    /// Calls `judge` with the key. Returns `otherwise` if no key was loaded.
    pub(crate) fn with<T>(&self, otherwise: T, judge: impl FnOnce(&KeyRing) -> T) -> T {
        // SAFETY: only `change` and `replace` write, which are called by nothing that `judge` can
        // be: this crate calls both from exported functions alone, and none of those calls another.
        match unsafe { &*self.0.get() } {
            Some(ring) => judge(ring),
            None => otherwise,
        }
    }

    /// Lets `change` write to the key, if one was loaded.
    pub(crate) fn change(&self, change: impl FnOnce(&mut KeyRing)) {
        // SAFETY: as in `with`: nothing that `judge` or `change` can be calls it.
        if let Some(ring) = unsafe { &mut *self.0.get() } {
            change(ring);
        }
    }

    /// Puts a key in the place of the one that was loaded.
    pub(crate) fn replace(&self, key: Option<KeyRing>) {
        // SAFETY: as in `with`.
        unsafe { *self.0.get() = key };
    }
}

/// Loads the actions in the actions buffer, for the key that was loaded; without it a key verifies
/// the built-in ones alone.
///
/// The byte at the place of a number is the number of digits of the action's code, 0 for an action
/// without a code; 255 where no action has the number.
/// The places of `activate` and `recover` are not read.
#[wasm_bindgen]
pub fn load_actions() {
    let mut known = KnownActions::BUILT_IN;
    for (number, digits) in (0..).zip(BUFFERS.actions.load()) {
        known.add(number, digits);
    }
    RING.change(|ring| ring.know(known));
}

/// The action of a number, if the ring knows it.
/// Of a further one nothing but number and digits matters here.
pub(crate) fn action(number: u8, ring: &KeyRing) -> Option<Action> {
    let further = |digits| Action::Further(Further { number, name: "", path: "", digits });
    Action::from_number(number).or_else(|| ring.actions().digits(number).map(further))
}

/// The address of the buffers, in this order: the token of the next call in ASCII, or the key that
/// is to be prepared, in bytes or in text (176 bytes); the code of the next call in ASCII (16); the
/// nonce of the visitor's browser (48); the result of the last call where it is more than a number
/// (16); the actions that are to be loaded (128); the prepared key that is to be loaded; in the
/// module of public keys the signature that is left to the platform (64), and its message (79).
///
/// It is returned once: the user of the buffers remembers which key was loaded, so two users would
/// verify with each other's keys. A second call gets an address that is beyond every memory.
#[wasm_bindgen]
pub fn buffers() -> *const u8 {
    if TOLD.0.replace(true) {
        ptr::without_provenance(usize::MAX)
    } else {
        ptr::from_ref(&BUFFERS).cast()
    }
}

/// Whether the address was returned.
static TOLD: SingleThread<Cell<bool>> = SingleThread(Cell::new(false));

/// Leaves the consumed-token id (16 bytes) of a token in the output buffer, **proving nothing**.
///
/// `length` and the result are those of `verify`.
#[wasm_bindgen]
pub fn identify(length: usize) -> u32 {
    status::of(token(length).map(|token| {
        BUFFERS.output.store(ConsumedId::of(token.unauthenticated_secret()).as_bytes());
    }))
}

/// Leaves the binding (16 bytes) of the browser whose nonce is the first `length` bytes of the
/// nonce buffer in the output buffer. Returns whether they are a nonce.
#[wasm_bindgen]
pub fn bind(length: i32) -> bool {
    let binding = visitor(length);
    if let Some(binding) = &binding {
        BUFFERS.output.store(binding.as_bytes());
    }
    binding.is_some()
}

/// The browser whose nonce is the first `length` bytes of the nonce buffer.
// Not inlined: three exports call it.
#[inline(never)]
pub(crate) fn visitor(length: i32) -> Option<Binding> {
    Binding::of_nonce(first(&BUFFERS.nonce.load(), usize::try_from(length).ok()?))
}

/// Leaves the expiry of an accepted link in the output buffer; an error where it is bound to
/// another browser than the visitor's.
pub(crate) fn leave_link(
    expiry: Expiry,
    // Not the link that was verified, since to make it one takes longer than to read it.
    proven: &UntrustedToken,
    visitor: Option<&Binding>,
) -> Result<(), VerifyError> {
    leave_expiry(Some(expiry));
    match Browser::of(proven.unauthenticated_binding(), visitor) {
        Browser::Other => Err(VerifyError::OtherBrowser),
        Browser::Same | Browser::Unbound => Ok(()),
    }
}

/// A moment that JavaScript has checked: whole seconds, not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "out of range it is the nearest in range"
)]
pub(crate) fn moment(now: f64, tolerance: f64) -> Moment {
    Moment::at(now as u64).tolerating(tolerance as u64)
}

/// Leaves the expiry of an accepted token in the output buffer.
#[expect(clippy::cast_precision_loss, reason = "the end of the year 9999 has 38 bits")]
pub(crate) fn leave_expiry(expiry: Option<Expiry>) {
    BUFFERS.output.store(&(expiry.map_or(0, Expiry::seconds) as f64).to_le_bytes());
}

/// The token in the text buffer.
pub(crate) fn token(length: usize) -> Result<UntrustedToken, VerifyError> {
    #[expect(unsafe_code, reason = "as fast as the buffer allows")]
    // SAFETY: `parse` stores to no buffer, and what it returns is its own.
    UntrustedToken::parse(first(unsafe { BUFFERS.text.borrow() }, length))
}

/// The first `length` bytes; all of them, which are more than any format has,
/// for a length that is beyond them.
pub(crate) fn first(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(..length).unwrap_or(bytes)
}
