//! Signatures of v3 that another implementation of Ed25519 checks.

use crate::{
    bytes::field,
    ed25519::{PublicKey, SIGNATURE},
    header::Header,
    secret::Secret,
    v3::{Judge, with_message},
};

/// What is known of a signature that another implementation of Ed25519 may check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The other implementation accepted it.
    Accepted,
    /// Nothing: this crate checks it.
    Open,
    /// Nothing, and it is not checked now: the link is refused.
    Pending,
}

/// What judges by what the function within knows of a message and its signature.
pub(crate) struct External<J>(pub(crate) J);

impl<J: Fn(&[u8], &[u8; SIGNATURE]) -> Judgement> Judge for External<J> {
    fn is_signed_by(
        &self,
        key: &PublicKey,
        header: &Header,
        secret: &Secret,
        signature: &[u8; SIGNATURE],
    ) -> bool {
        with_message(header, secret, |message| {
            let judgement =
                if is_undisputed(signature) { self.0(message, signature) } else { Judgement::Open };
            match judgement {
                Judgement::Accepted => true,
                Judgement::Open => key.verifies(message, signature),
                Judgement::Pending => false,
            }
        })
    }
}

/// Whether all implementations judge a signature as token-format.md demands: many accept an R of
/// small order, and some an S that is not reduced. Of one in 2⁶² others it says no, too.
fn is_undisputed(signature: &[u8; SIGNATURE]) -> bool {
    // Bytes 8 to 15 of an encoding of y. Of the points of small order y is -1, 0, 1, and of those
    // of order 8 one of two numbers whose sum is 0; the encodings that are not reduced differ in
    // other bytes. So does the sign of x.
    const ORDER_8: u64 = u64::from_le_bytes([0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0]);
    const NOT_ORDER_8: u64 = !ORDER_8;
    let is_small =
        matches!(u64::from_le_bytes(field(signature, 8)), 0 | u64::MAX | ORDER_8 | NOT_ORDER_8);
    // The order of the base point is a little above 2²⁵² (RFC 8032, section 5.1).
    let [last_of_s] = field(signature, SIGNATURE - 1);
    !is_small && last_of_s < 0x10
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use ed25519_dalek::VerifyingKey;
    use std::collections::BTreeSet;

    #[test]
    fn a_signature_whose_r_encodes_a_point_of_small_order_is_never_undisputed() {
        // Little-endian: 0, 1, -1, the same 0 and 1 with the prime added, and both of order 8.
        let ends = [(0x00, 0x00), (0x01, 0x00), (0xec, 0x7f), (0xed, 0x7f), (0xee, 0x7f)];
        let order_8 = [
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        ];
        let ys = ends.map(|(first, last)| {
            let mut y = [if last == 0 { 0 } else { 0xff }; 32];
            (y[0], y[31]) = (first, last);
            y
        });
        let ys = ys.into_iter().chain(order_8.map(|text| {
            let mut y = [0; 32];
            base16ct::lower::decode(text, &mut y).unwrap();
            y
        }));
        let signs = |y: [u8; 32]| {
            let mut negative = y;
            negative[31] |= 0x80;
            [y, negative]
        };
        let mut tried = BTreeSet::new();
        for mut r in ys.flat_map(signs) {
            assert!(VerifyingKey::from_bytes(&r).unwrap().is_weak(), "{r:02x?} is of small order");
            let mut signature = [0; SIGNATURE];
            signature[..32].copy_from_slice(&r);
            assert!(!is_undisputed(&signature), "{r:02x?}");
            tried.insert(r);
            // Others with bytes in common are no concern.
            r[15] ^= 1;
            signature[..32].copy_from_slice(&r);
            assert!(is_undisputed(&signature), "{r:02x?}");
        }
        assert_eq!(tried.len(), 14);
    }

    #[test]
    fn no_signature_is_undisputed_whose_s_is_not_below_the_order_of_the_base_point() {
        let mut signature = [7; SIGNATURE];
        for last in 0..=u8::MAX {
            signature[63] = last;
            assert_eq!(is_undisputed(&signature), last < 0x10, "{last:02x}");
        }
    }
}
