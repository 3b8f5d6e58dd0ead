//! Lines that a sender writes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| mailroom_properties::sender_answer(data));
