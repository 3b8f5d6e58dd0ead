//! No token but the one that was signed is accepted, and every token that was signed is.

use mailroom_verifier_core::{
    Action, Code, Expected, KeyRing, Secret, SharedKey, UntrustedToken, VerifyError, v1,
};
use proptest::prelude::*;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn accepts(key: &SharedKey, token: &[u8], expected: Expected<'_>) -> Result<(), VerifyError> {
    UntrustedToken::parse(token)?.verify(&KeyRing::of(key.clone()), expected).map(|_| ())
}

fn keys() -> impl Strategy<Value = SharedKey> {
    any::<[u8; 32]>().prop_map(|bytes| SharedKey::from(&bytes))
}

fn secrets() -> impl Strategy<Value = Secret> {
    any::<[u8; 32]>().prop_map(Secret::from)
}

#[test]
fn all_63_other_characters_at_every_position_are_refused() {
    let key = SharedKey::from(&[3; 32]);
    let code = Code::parse("01234").unwrap();
    let secret = Secret::from(core::array::from_fn(|index| u8::try_from(index * 7).unwrap()));
    for (token, expected) in [
        (v1::sign_activation(&key, &secret), Expected::activation()),
        (v1::sign_recovery(&key, &secret, &code), Expected::recovery("01234")),
    ] {
        assert_eq!(accepts(&key, token.as_str().as_bytes(), expected), Ok(()));
        let mut refused = 0;
        for position in 0..token.as_str().len() {
            for &other in ALPHABET {
                let mut altered = token.as_str().as_bytes().to_vec();
                if altered[position] != other {
                    altered[position] = other;
                    assert!(accepts(&key, &altered, expected).is_err(), "{other} at {position}");
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 86 * 63);
    }
}

#[test]
fn all_99_999_other_codes_are_refused() {
    let key = SharedKey::from(&[3; 32]);
    let token = v1::sign_recovery(&key, &Secret::from([9; 32]), &Code::parse("00420").unwrap());
    let ring = KeyRing::of(key);
    let token = UntrustedToken::parse(token.as_str()).unwrap();
    let accepted: Vec<String> = (0..100_000)
        .map(|number| format!("{number:05}"))
        .filter(|code| token.verify(&ring, Expected::recovery(code)).is_ok())
        .collect();
    assert_eq!(accepted, ["00420"]);
}

proptest! {
    #[test]
    fn whatever_is_signed_verifies(key in keys(), secret in secrets(), digits in "[0-9]{5}") {
        let code = Code::parse(&digits).unwrap();
        let activation = v1::sign_activation(&key, &secret);
        let recovery = v1::sign_recovery(&key, &secret, &code);
        let ring = KeyRing::of(key);
        for (token, expected) in
            [(activation, Expected::activation()), (recovery, Expected::recovery(&digits))]
        {
            let verified = UntrustedToken::parse(token.as_str()).unwrap().verify(&ring, expected).unwrap();
            prop_assert_eq!(verified.secret(), &secret);
            prop_assert_eq!(verified.action(), expected.action);
        }
    }

    #[test]
    fn the_expected_tag_is_that_of_the_token_which_the_key_signs(
        key in keys(), other in keys(), secret in secrets(), digits in "[0-9]{5}",
    ) {
        let code = Code::parse(&digits).unwrap();
        for (expected, genuine, forged) in [
            (Expected::activation(), v1::sign_activation(&key, &secret), v1::sign_activation(&other, &secret)),
            (Expected::recovery(&digits), v1::sign_recovery(&key, &secret, &code), v1::sign_recovery(&other, &secret, &code)),
        ] {
            let tag = UntrustedToken::parse(forged.as_str()).unwrap().expected_tag(&key, expected).unwrap();
            let genuine = UntrustedToken::parse(genuine.as_str()).unwrap();
            prop_assert_eq!(&tag, genuine.unauthenticated_tag());
        }
    }

    #[test]
    fn no_single_changed_character_of_any_token_verifies(
        key in keys(), secret in secrets(), position in 0..86usize, other in any::<char>(),
    ) {
        let token = v1::sign_activation(&key, &secret);
        let mut altered: Vec<char> = token.as_str().chars().collect();
        prop_assume!(altered[position] != other);
        altered[position] = other;
        let altered: String = altered.into_iter().collect();
        prop_assert!(accepts(&key, altered.as_bytes(), Expected::activation()).is_err());
    }

    #[test]
    fn a_token_of_the_other_path_is_refused(key in keys(), secret in secrets(), digits in "[0-9]{5}") {
        let code = Code::parse(&digits).unwrap();
        let recovery = v1::sign_recovery(&key, &secret, &code);
        let activation = v1::sign_activation(&key, &secret);
        let signature = Err(VerifyError::Signature);
        prop_assert_eq!(accepts(&key, recovery.as_str().as_bytes(), Expected::activation()), signature);
        prop_assert_eq!(accepts(&key, activation.as_str().as_bytes(), Expected::recovery(&digits)), signature);
    }

    #[test]
    fn a_token_of_another_key_is_refused(key in keys(), other in keys(), secret in secrets()) {
        prop_assume!(key.mac().to_bytes() != other.mac().to_bytes());
        let token = v1::sign_activation(&other, &secret);
        let verdict = accepts(&key, token.as_str().as_bytes(), Expected::activation());
        prop_assert_eq!(verdict, Err(VerifyError::Signature));
    }

    #[test]
    fn every_key_of_a_ring_verifies_whatever_its_place(
        keys in prop::collection::vec(keys(), 1..8), index in any::<prop::sample::Index>(), secret in secrets(),
    ) {
        let token = v1::sign_activation(index.get(&keys), &secret);
        let ring = KeyRing::new(keys).unwrap();
        let token = UntrustedToken::parse(token.as_str()).unwrap();
        prop_assert!(token.verify(&ring, Expected::activation()).is_ok());
    }

    #[test]
    fn any_string_at_all_is_judged(token in ".{0,200}", code in ".{0,8}") {
        let key = SharedKey::from(&[3; 32]);
        prop_assert!(accepts(&key, token.as_bytes(), Expected::activation()).is_err());
        prop_assert!(accepts(&key, token.as_bytes(), Expected::recovery(&code)).is_err());
    }
}

#[test]
fn debug_output_shows_no_token_secret_key_or_code() {
    let key = SharedKey::from(&[3; 32]);
    let token = v1::sign_activation(&key, &Secret::from([0x41; 32]));
    let untrusted = UntrustedToken::parse(token.as_str()).unwrap();
    let verified = untrusted.verify(&KeyRing::of(key.clone()), Expected::activation()).unwrap();
    let expected = Expected { action: Action::Recover, code: Some(b"01234") };
    let shown = format!("{key:?} {token:?} {untrusted:?} {verified:?} {expected:?}");
    assert!(!shown.contains("65") && !shown.contains("01234") && !shown.contains(token.as_str()), "{shown}");
}
