//! Parameters of a connection in both of their forms.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| mailroom_properties::connection_settings(data));
