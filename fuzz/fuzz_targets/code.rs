//! What is typed as a code.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| mailroom_properties::code(data));
