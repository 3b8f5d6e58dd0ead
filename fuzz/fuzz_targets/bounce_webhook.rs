//! Webhooks of providers that report bounces.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| mailroom_properties::bounce_webhook(data));
