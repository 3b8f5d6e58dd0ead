//! Every public operation of the core, linked for a machine that has neither an allocator nor an
//! operating system.
//!
//! `tests/tests/offline/bare_metal.rs` builds this for `thumbv7em-none-eabi` and reads the
//! program's symbols. On any other target it is an empty program,
//! so that the workspace builds everywhere.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod probes {
    #[cfg(feature = "allocates")]
    extern crate alloc;

    use core::{cell::RefCell, panic::PanicInfo};
    use mailroom_verifier_core::{
        Action, Actions, Binding, ConsumedId, Expected, Further, Grant, Guard, InvalidAction,
        KeyRing, MemoryCache, Moment, Owner, RedeemError, Secret, SharedKey, SignedToken, Signer,
        Slot, Unsignable, UntrustedToken, Unusable, VerifiedLink, VerifiedToken, VerifyError,
        VerifyingKey,
    };

    #[used]
    static SIGN: fn(&Signer, Grant<'_>) -> Result<SignedToken, Unsignable> = Signer::sign;

    #[used]
    static KNOW: for<'a> fn(
        KeyRing<&'a [VerifyingKey]>,
        &[Further],
    ) -> Result<KeyRing<&'a [VerifyingKey]>, InvalidAction> =
        |ring, further| Ok(ring.knowing(&Actions::new(further)?));

    #[used]
    static VERIFY: fn(
        &[u8],
        &KeyRing<&[VerifyingKey]>,
        Expected<'_>,
        Moment,
    ) -> Result<VerifiedToken, VerifyError> = |token, ring, expected, moment| {
        UntrustedToken::parse(token)?.verify(ring, expected, moment)
    };

    #[used]
    static VERIFY_LINK: for<'r> fn(
        &[u8],
        &'r KeyRing<&[VerifyingKey]>,
        Action,
        Moment,
    ) -> Result<VerifiedLink<'r>, VerifyError> = |token, ring, action, moment| {
        UntrustedToken::parse(token)?.verify_link(ring, action, moment)
    };

    type Store<'a> = RefCell<MemoryCache<&'a mut [Slot]>>;

    #[used]
    static REDEEM: fn(
        &Guard<&[VerifyingKey], Store<'_>>,
        &[u8],
        Expected<'_>,
        Moment,
        Owner,
    ) -> Result<(), RedeemError<Unusable, ()>> = |guard, token, expected, moment, owner| {
        guard.redeem_with(token, expected, moment, owner, |_, _| Ok(true), |_| Ok(()))
    };

    #[used]
    static LOAD_KEY: fn(&[u8]) -> Option<VerifyingKey> = |text| VerifyingKey::parse(text).ok();

    #[used]
    static LOAD_PREPARED: fn(&[u8; SharedKey::PREPARED_LENGTH]) -> SharedKey =
        SharedKey::from_prepared;

    #[used]
    static BIND: fn(&[u8]) -> Option<Binding> = |nonce| Binding::of_nonce(nonce);

    #[used]
    static NAME_ROW: fn(&Secret) -> ConsumedId = ConsumedId::of;

    #[cfg(feature = "allocates")]
    #[used]
    static ALLOCATE: fn(u8) -> alloc::boxed::Box<u8> = alloc::boxed::Box::new;

    #[cfg(feature = "panics")]
    #[used]
    static PANIC: fn(&[u8], usize) -> u8 = |bytes, index| bytes[index];

    #[panic_handler]
    fn panic(_: &PanicInfo<'_>) -> ! {
        loop {}
    }
}

#[cfg(not(target_os = "none"))]
fn main() {}
