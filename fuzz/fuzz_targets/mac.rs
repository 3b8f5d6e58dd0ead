//! HMAC-SHA-256 of any key and message.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| mailroom_properties::mac(data));
