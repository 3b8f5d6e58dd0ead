//! Links that are redeemed through a guard.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| mailroom_properties::redeem(data));
