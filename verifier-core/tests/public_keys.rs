//! Public keys and signatures of Ed25519 that other verifiers disagree about are refused.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use base64ct::{Base64UrlUnpadded, Encoding};
use mailroom_verifier_core::{
    Action, Expected, Expiry, InvalidKey, KeyRing, Moment, PrivateKey, PublicKey, Secret,
    UntrustedToken, VerifyError, v3,
};
use num_bigint::BigUint;
use sha2::{Digest, Sha512};

const NOW: u64 = 1_800_000_000;

fn bytes(hexadecimal: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    base16ct::lower::decode(hexadecimal, &mut bytes).unwrap();
    bytes
}

fn little_endian(number: &BigUint) -> [u8; 32] {
    let mut bytes = number.to_bytes_le();
    bytes.resize(32, 0);
    bytes.try_into().unwrap()
}

/// The prime of the field, 2²⁵⁵ − 19.
fn prime() -> BigUint {
    (BigUint::from(1_u8) << 255) - 19_u8
}

/// The order of the base point, 2²⁵² + 27742317777372353535851937790883648493
/// (RFC 8032, section 5.1).
fn order() -> BigUint {
    (BigUint::from(1_u8) << 252) + 27_742_317_777_372_353_535_851_937_790_883_648_493_u128
}

/// Both encodings with this y-coordinate: the sign of x is the highest bit.
fn both_signs(y: [u8; 32]) -> [[u8; 32]; 2] {
    let mut negative = y;
    negative[31] |= 0x80;
    [y, negative]
}

#[test]
fn the_eight_points_of_small_order_are_refused() {
    for encoding in [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    ] {
        assert_eq!(
            PublicKey::from_bytes(&bytes(encoding)),
            Err(InvalidKey::SmallOrder),
            "{encoding}"
        );
    }
}

#[test]
fn a_second_encoding_of_a_point_is_refused() {
    // A y-coordinate that is not reduced: 2²⁵⁵ − 19 and the 18 numbers after it.
    let unreduced = (0_u8..19).flat_map(|above| both_signs(little_endian(&(prime() + above))));
    // The negative of x = 0, for both points that have it.
    let negative_zeros =
        [BigUint::from(1_u8), prime() - 1_u8].map(|y| both_signs(little_endian(&y))[1]);
    let mut refused = 0;
    for encoding in unreduced.chain(negative_zeros) {
        assert_eq!(PublicKey::from_bytes(&encoding), Err(InvalidKey::NotAPoint), "{encoding:02x?}");
        refused += 1;
    }
    assert_eq!(refused, 40);
}

#[test]
fn bytes_that_are_no_point_are_refused() {
    let mut points = 0;
    for y in 2_u8..=255 {
        match PublicKey::from_bytes(&little_endian(&y.into())) {
            Ok(key) => {
                assert_eq!(key.as_bytes(), &little_endian(&y.into()));
                points += 1;
            }
            Err(error) => assert_eq!(error, InvalidKey::NotAPoint, "y = {y}"),
        }
    }
    assert!(
        (100..155).contains(&points),
        "about half of all numbers are y-coordinates, not {points} of 254"
    );
}

fn private() -> PrivateKey {
    PrivateKey::from_seed(&[3; 32])
}

fn token() -> Vec<u8> {
    let expires_at = Expiry::from_seconds(NOW + 900).unwrap();
    let token = v3::sign(&private(), Action::Activate, &Secret::from([7; 32]), expires_at);
    Base64UrlUnpadded::decode_vec(token.unwrap().as_str()).unwrap()
}

fn verdict(token: &[u8]) -> Result<(), VerifyError> {
    let ring = KeyRing::of(private().public_key().clone());
    let token = UntrustedToken::parse(Base64UrlUnpadded::encode_string(token))?;
    token.verify(&ring, Expected::activation(), Moment::at(NOW)).map(|_| ())
}

/// The same where another implementation of Ed25519 would accept any signature.
#[cfg(feature = "external")]
fn verdict_external(token: &[u8]) -> Result<(), VerifyError> {
    let ring = KeyRing::of(private().public_key().clone());
    let token = UntrustedToken::parse(Base64UrlUnpadded::encode_string(token))?;
    let accepts = |_: &[u8], _: &[u8; 64]| mailroom_verifier_core::Judgement::Accepted;
    token.verify_link_with(&ring, Action::Activate, Moment::at(NOW), accepts).map(|_| ())
}

#[cfg(not(feature = "external"))]
use verdict as verdict_external;

/// Header and secret, R, S.
fn parts(token: &mut [u8]) -> (&mut [u8], &mut [u8], &mut [u8]) {
    let (signed, signature) = token.split_at_mut(46);
    let (r, s) = signature.split_at_mut(32);
    (signed, r, s)
}

#[test]
fn a_signature_whose_s_is_not_reduced_is_refused() {
    let genuine = token();
    assert_eq!(verdict(&genuine), Ok(()));
    let s = BigUint::from_bytes_le(&genuine[78..]);
    assert!(s < order());
    // Once the order still leaves the highest three bits clear,
    // which is all that old verifiers look at.
    for times in 1_u8..15 {
        let mut altered = genuine.clone();
        parts(&mut altered).2.copy_from_slice(&little_endian(&(&s + order() * times)));
        assert_eq!(verdict(&altered), Err(VerifyError::Signature), "S + {times} times the order");
        assert_eq!(
            verdict_external(&altered),
            Err(VerifyError::Signature),
            "S + {times} times the order"
        );
    }
}

/// The signature with R = 0 and S = k·a, for which the equation S·B = R + k·A holds.
fn with_r_of_order_one(encoding_of_r: [u8; 32]) -> Vec<u8> {
    let mut token = token();
    let mut scalar = <[u8; 32]>::try_from(&Sha512::digest([3; 32])[..32]).unwrap();
    scalar[0] &= 0b1111_1000;
    scalar[31] = scalar[31] & 0b0111_1111 | 0b0100_0000;
    let (signed, r, s) = parts(&mut token);
    let digest = Sha512::new()
        .chain_update(encoding_of_r)
        .chain_update(private().public_key().as_bytes())
        .chain_update(b"mailroom/v3 link\0")
        .chain_update(signed)
        .finalize();
    r.copy_from_slice(&encoding_of_r);
    let product = BigUint::from_bytes_le(&digest) * BigUint::from_bytes_le(&scalar) % order();
    s.copy_from_slice(&little_endian(&product));
    token
}

#[test]
fn a_signature_whose_r_is_of_small_order_is_refused_although_its_equation_holds() {
    let one = little_endian(&BigUint::from(1_u8));
    let forged = with_r_of_order_one(one);
    let signature = ed25519_dalek::Signature::from_slice(&forged[46..]).unwrap();
    let message = [b"mailroom/v3 link\0", &forged[..46]].concat();
    let lenient =
        ed25519_dalek::VerifyingKey::from_bytes(private().public_key().as_bytes()).unwrap();
    assert!(
        ed25519_dalek::Verifier::verify(&lenient, &message, &signature).is_ok(),
        "the equation holds"
    );

    assert_eq!(verdict(&forged), Err(VerifyError::Signature));
    assert_eq!(verdict_external(&forged), Err(VerifyError::Signature));
    for second_encoding in
        both_signs(little_endian(&(prime() + 1_u8))).into_iter().chain([both_signs(one)[1]])
    {
        let forged = with_r_of_order_one(second_encoding);
        assert_eq!(verdict(&forged), Err(VerifyError::Signature));
        assert_eq!(verdict_external(&forged), Err(VerifyError::Signature));
    }
}
