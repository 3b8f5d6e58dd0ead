//! Values of a cookie that claim to be nonces.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| mailroom_properties::nonce(data));
