//! Ed25519 for those who only verify, and who load the code: 8 kB less of WebAssembly than
//! `ed25519-dalek` takes, as fast there, and with the same verdicts.
//!
//! Nothing here is constant-time, since nothing is secret: keys, messages and signatures of v3 are
//! public. It signs nothing.

mod field;
mod point;
mod scalar;

use ed25519_dalek::{SIGNATURE_LENGTH, SigningKey};
use sha2::block_api::compress512;

use crate::{bytes::field as part, shared_key::InvalidKey};
use point::{Point, Term};

/// The encoding of a point that may be a key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key([u8; 32]);

impl Key {
    pub(crate) fn of(signer: &SigningKey) -> Self {
        Self(signer.verifying_key().to_bytes())
    }

    /// Refuses bytes that encode no point, a second encoding of one, a point of small order.
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Result<Self, InvalidKey> {
        let key = Self(*bytes);
        key.point().map(|_| key)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Not kept: to find it takes a tenth of a verification, and a table of it would not.
    fn point(&self) -> Result<Point, InvalidKey> {
        let point = Point::decode(words(&self.0)).ok_or(InvalidKey::NotAPoint)?;
        if point.is_of_small_order() { Err(InvalidKey::SmallOrder) } else { Ok(point) }
    }

    /// Strict verification (RFC 8032, section 5.1.7, without the cofactor): S below the group
    /// order, R not of small order.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; SIGNATURE_LENGTH]) -> bool {
        let r: [u8; 32] = part(signature, 0);
        let s = words(&part(signature, 32));
        let Ok(point) = self.point() else { return false };
        if !scalar::is_reduced(&s) {
            return false;
        }
        let k = scalar::reduced(&sha512(&[&r, &self.0, message]));
        // R is computed and compared by its encoding, of which a point has one here, so that what
        // holds for the computed one holds for that of the signature.
        let found = point::sum(&Term::new(&s, &Point::BASE), &Term::new(&k, &point.negated()));
        found.encode() == words(&r) && !found.is_of_small_order()
    }
}

/// Little-endian words of little-endian bytes.
fn words(bytes: &[u8; 32]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

const BLOCK: usize = 128;

/// SHA-512's initial hash value (FIPS 180-4, section 5.3.5).
const INITIAL: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// The SHA-512 digest of these parts, one behind the other, as eight words of a little-endian
/// number (RFC 8032, section 5.1.7).
fn sha512(parts: &[&[u8]; 3]) -> [u64; 8] {
    let mut state = INITIAL;
    let mut block = [0; BLOCK];
    let mut length = 0_u64;
    let mut filled = 0;
    for part in parts {
        for byte in *part {
            block[filled] = *byte;
            length += 1;
            filled = (filled + 1) % BLOCK;
            if filled == 0 {
                compress512(&mut state, &[block]);
                block = [0; BLOCK];
            }
        }
    }
    block[filled] = 0x80;
    // One byte for the end of the message and sixteen for its length (section 5.1.2).
    if filled >= BLOCK - 16 {
        compress512(&mut state, &[block]);
        block = [0; BLOCK];
    }
    block[BLOCK - 8..].copy_from_slice(&(8 * length).to_be_bytes());
    compress512(&mut state, &[block]);
    state.map(u64::swap_bytes)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{base64, dalek};
    use ed25519_dalek::{Signer, Verifier};
    use num_bigint::BigUint;
    use proptest::prelude::*;

    fn is_judged_alike(
        bytes: &[u8; 32],
        message: &[u8],
        signature: &[u8; SIGNATURE_LENGTH],
    ) -> bool {
        match (Key::from_bytes(bytes), dalek::Key::from_bytes(bytes)) {
            (Ok(key), Ok(peer)) => {
                let accepted = peer.verifies(message, signature);
                assert_eq!(
                    key.verifies(message, signature),
                    accepted,
                    "{bytes:02x?} {signature:02x?}"
                );
                accepted
            }
            (one, other) => {
                assert_eq!(one.err(), other.err(), "{bytes:02x?}");
                false
            }
        }
    }

    /// The 32 bytes whose y is below 40, or is not reduced or nearly so, with both signs.
    fn extreme_encodings() -> impl Iterator<Item = [u8; 32]> {
        let small = (0..40_u16).map(|y| {
            let mut bytes = [0; 32];
            bytes[..2].copy_from_slice(&y.to_le_bytes());
            bytes
        });
        let large = (0xd0..=u8::MAX).map(|low| {
            let mut bytes = [0xff; 32];
            (bytes[0], bytes[31]) = (low, 0x7f);
            bytes
        });
        small.chain(large).flat_map(|bytes| {
            let mut negative = bytes;
            negative[31] |= 0x80;
            [bytes, negative]
        })
    }

    #[test]
    fn keys_at_the_ends_of_the_field_are_judged_as_the_other_implementation_judges_them() {
        let good = extreme_encodings()
            .filter(|bytes| {
                let judged = Key::from_bytes(bytes).map(|_| ());
                assert_eq!(judged, dalek::Key::from_bytes(bytes).map(|_| ()), "{bytes:02x?}");
                judged.is_ok()
            })
            .count();
        assert!((60..120).contains(&good), "{good}");
    }

    #[test]
    fn a_signature_whose_r_is_at_the_ends_of_the_field_is_judged_alike() {
        let signer = SigningKey::from_bytes(&[7; 32]);
        for r in extreme_encodings() {
            let mut signature = signer.sign(b"message").to_bytes();
            signature[..32].copy_from_slice(&r);
            is_judged_alike(signer.verifying_key().as_bytes(), b"message", &signature);
        }
    }

    /// A key with a part of small order, whose equations hold without the cofactor, and with it
    /// alone.
    #[test]
    fn a_signature_of_a_key_with_a_part_of_small_order_holds_without_the_cofactor() {
        let bytes =
            |text: &str| base64::decode::<32>(text.as_bytes()).expect("32 bytes in base64url");
        let key = bytes("nRipffF3IfzOpJcG1DbAY9sWtjQBakNCCowrtiphq5U");
        let r = bytes("K1k9xoMRvpEBZ9MSj4uRRdNJ5CKxMdpWBi_AQBJVYPA");
        let s = bytes("OOTy7EZed6tP-ZZG5MfhGdWjz0y2p8PAK82Rp9UOjws");
        let s_with_cofactor = bytes("hLeyipqOiyIYsTKtcd3e6f3brJgTeMEQWkpsKG0vJwc");
        let signature = |s| {
            let mut both = [0; SIGNATURE_LENGTH];
            both[..32].copy_from_slice(&r);
            both[32..].copy_from_slice(s);
            both
        };
        assert!(is_judged_alike(&key, &key, &signature(&s)));
        assert!(!is_judged_alike(&key, &r, &signature(&s)));
        assert!(!is_judged_alike(&key, &r, &signature(&s_with_cofactor)));
    }

    /// R = 0 and S = k·a, for which S·B = R + k·A.
    #[test]
    fn a_signature_whose_r_is_of_small_order_is_refused_although_its_equation_holds() {
        let number = |words: &[u64]| {
            words.iter().rev().fold(BigUint::ZERO, |number, word| (number << 64) + *word)
        };
        let seed = [7; 32];
        let signer = SigningKey::from_bytes(&seed);
        let key = signer.verifying_key();
        let mut signature = [0; SIGNATURE_LENGTH];
        signature[0] = 1;
        let r: [u8; 32] = part(&signature, 0);
        // The private scalar (RFC 8032, section 5.1.5).
        let [mut private @ .., _, _, _, _] = sha512(&[&seed, &[], &[]]);
        private[0] &= !7;
        private[3] = private[3] & (u64::MAX >> 1) | 1 << 62;
        let k = scalar::reduced(&sha512(&[&r, key.as_bytes(), b"message"]));
        let order = number(&[0x5812_631a_5cf5_d3ed, 0x14de_f9de_a2f7_9cd6, 0, 1 << 60]);
        let s = number(&k) * number(&private) % order;
        for (byte, digit) in signature[32..].iter_mut().zip(s.to_bytes_le()) {
            *byte = digit;
        }
        let lenient = key.verify(b"message", &ed25519_dalek::Signature::from_bytes(&signature));
        assert!(lenient.is_ok(), "the equation holds");
        assert!(!is_judged_alike(key.as_bytes(), b"message", &signature));
    }

    #[test]
    fn messages_of_all_lengths_around_a_block_are_hashed_alike() {
        let signer = SigningKey::from_bytes(&[7; 32]);
        for length in 0..300 {
            let message = &[0x5a; 300][..length];
            let signature = signer.sign(message).to_bytes();
            assert!(is_judged_alike(signer.verifying_key().as_bytes(), message, &signature));
        }
    }

    proptest! {
        #[test]
        fn what_is_signed_is_accepted_and_nothing_that_was_altered(
            seed in any::<[u8; 32]>(),
            message in prop::collection::vec(any::<u8>(), 1..200),
            bit in 0..8 * SIGNATURE_LENGTH,
        ) {
            let signer = SigningKey::from_bytes(&seed);
            let key = signer.verifying_key().to_bytes();
            let mut signature = signer.sign(&message).to_bytes();
            prop_assert_eq!(*Key::of(&signer).as_bytes(), key);
            prop_assert!(is_judged_alike(&key, &message, &signature));
            prop_assert!(!is_judged_alike(&key, &message[1..], &signature));
            signature[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!is_judged_alike(&key, &message, &signature));
        }

        #[test]
        fn an_s_that_is_not_reduced_is_refused(
            seed in any::<[u8; 32]>(),
            message in any::<[u8; 8]>(),
        ) {
            let signer = SigningKey::from_bytes(&seed);
            let mut signature = signer.sign(&message).to_bytes();
            let order = [
                0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9,
                0xde, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
            ];
            let mut carry = 0;
            for (byte, more) in signature[32..].iter_mut().zip(order) {
                let sum = u16::from(*byte) + more + carry;
                [*byte, _] = sum.to_le_bytes();
                carry = sum >> 8;
            }
            let key = signer.verifying_key().to_bytes();
            prop_assert!(!is_judged_alike(&key, &message, &signature));
        }

        #[test]
        fn any_bytes_are_a_key_for_both_or_for_none(bytes in any::<[u8; 32]>()) {
            is_judged_alike(&bytes, b"", &[0; SIGNATURE_LENGTH]);
        }
    }
}
