//! HMAC-SHA-256 of any key and message, whatever its parts.

use arbitrary::{Arbitrary, Unstructured};
use mailroom_verifier_core::MacKey;

use crate::oracle::hmac_sha256;

/// Reads a key and the parts of a message.
pub fn mac(data: &[u8]) {
    let Ok((key, parts)) = <(&[u8], Vec<&[u8]>)>::arbitrary_take_rest(Unstructured::new(data)) else {
        return;
    };
    let expected = hmac_sha256(key, &parts);
    let key = MacKey::new(key);
    assert_eq!(key.tag(&parts), expected);
    assert_eq!(MacKey::from_bytes(&key.to_bytes()).tag(&parts), expected);
}
