//! Mails that should be delivery status notifications.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| mailroom_properties::bounce_mail(data));
