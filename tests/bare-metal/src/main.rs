//! Every public operation of the core, linked for a machine that has neither an allocator nor an operating system.
//!
//! `tests/tests/bare_metal.rs` builds this for `thumbv7em-none-eabi` and reads the program's symbols. On any other
//! target it is an empty program, so that the workspace builds everywhere.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod probes {
    #[cfg(feature = "allocates")]
    extern crate alloc;

    use core::panic::PanicInfo;
    use mailroom_verifier_core::{
        Code, ConsumedId, Expected, KeyRing, Secret, SharedKey, UntrustedToken, VerifiedToken, VerifyError,
        v1,
    };

    #[used]
    static SIGN_ACTIVATION: fn(&SharedKey, &Secret) -> v1::SignedToken = v1::sign_activation;

    #[used]
    static SIGN_RECOVERY: fn(&SharedKey, &Secret, &Code) -> v1::SignedToken = v1::sign_recovery;

    #[used]
    static VERIFY: fn(&[u8], &[SharedKey], Expected<'_>) -> Result<VerifiedToken, VerifyError> =
        |token, keys, expected| {
            let ring = KeyRing::new(keys).map_err(|_| VerifyError::Signature)?;
            UntrustedToken::parse(token)?.verify(&ring, expected)
        };

    #[used]
    static EXPECTED_TAG: fn(&UntrustedToken, &SharedKey, Expected<'_>) -> Result<[u8; 32], VerifyError> =
        UntrustedToken::expected_tag;

    #[used]
    static LOAD_KEY: fn(&[u8]) -> Option<SharedKey> = |text| SharedKey::from_hex(text).ok();

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
