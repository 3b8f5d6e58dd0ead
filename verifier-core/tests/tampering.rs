//! No token but the one that was signed is accepted, and every token that was signed is.
#![allow(clippy::unwrap_used, reason = "a test that cannot make its token fails")]

use mailroom_verifier_core::{
    Action, Code, Expected, Expiry, Grant, KeyRing, Moment, PrivateKey, Secret, SharedKey,
    SignedToken, Signer, UntrustedToken, VerifyError, VerifyingKey,
};
use proptest::prelude::*;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const NOW: u64 = 1_800_000_000;

/// A key of any kind, the format that it signs and the ring that verifies it.
#[derive(Clone, Debug)]
struct Pair {
    signer: Signer,
    ring: KeyRing,
}

fn pairs_of(seed: [u8; 32]) -> [Pair; 3] {
    let shared = SharedKey::from(&seed);
    let private = PrivateKey::from_seed(&seed);
    let public = private.public_key().clone();
    [
        Pair { signer: Signer::V1(shared.clone()), ring: KeyRing::of(shared.clone()) },
        Pair { signer: Signer::V2(shared.clone()), ring: KeyRing::of(shared) },
        Pair { signer: Signer::V3(private), ring: KeyRing::of(public) },
    ]
}

fn sign(signer: &Signer, secret: [u8; 32], action: Action, code: &str) -> SignedToken {
    let (secret, code) = (Secret::from(secret), Code::parse(code).unwrap());
    let code = (action.digits() > 0).then_some(&code);
    let expires_at = Expiry::from_seconds(NOW + 900).unwrap();
    signer.sign(Grant { secret: &secret, action, code, expires_at, binding: None }).unwrap()
}

/// What a verifier of `signer`'s format expects: v3 covers no code, so it must not be given one.
fn expected<'a>(signer: &Signer, action: Action, code: &'a str) -> Expected<'a> {
    let covered = action == Action::Recover && !matches!(signer, Signer::V3(_));
    Expected { action, code: covered.then_some(code.as_bytes()), binding: None }
}

fn accepts<K: AsRef<[VerifyingKey]>>(
    ring: &KeyRing<K>,
    token: &[u8],
    expected: Expected<'_>,
) -> Result<(), VerifyError> {
    UntrustedToken::parse(token)?.verify(ring, expected, Moment::at(NOW)).map(|_| ())
}

fn actions() -> impl Strategy<Value = Action> {
    prop_oneof![Just(Action::Activate), Just(Action::Recover)]
}

#[test]
fn all_63_other_characters_at_every_position_are_refused() {
    let secret = core::array::from_fn(|index| u8::try_from(index * 7).unwrap());
    for Pair { signer, ring } in pairs_of([3; 32]) {
        for action in Action::BUILT_IN {
            let token = sign(&signer, secret, action, "01234");
            let expected = expected(&signer, action, "01234");
            assert_eq!(accepts(&ring, token.as_str().as_bytes(), expected), Ok(()));
            let mut refused = 0;
            for position in 0..token.as_str().len() {
                for &other in ALPHABET {
                    let mut altered = token.as_str().as_bytes().to_vec();
                    if altered[position] != other {
                        altered[position] = other;
                        assert!(
                            accepts(&ring, &altered, expected).is_err(),
                            "{signer:?}: {other} at {position}"
                        );
                        refused += 1;
                    }
                }
            }
            assert_eq!(refused, token.as_str().len() * 63);
        }
    }
}

#[test]
fn all_99_999_other_codes_are_refused() {
    let [v1, v2, _] = pairs_of([3; 32]);
    for Pair { signer, ring } in [v1, v2] {
        let token = sign(&signer, [9; 32], Action::Recover, "00420");
        let token = UntrustedToken::parse(token.as_str()).unwrap();
        let accepted: Vec<String> = (0..100_000)
            .map(|number| format!("{number:05}"))
            .filter(|code| token.verify(&ring, Expected::recovery(code), Moment::at(NOW)).is_ok())
            .collect();
        assert_eq!(accepted, ["00420"], "{signer:?}");
    }
}

proptest! {
    #[test]
    fn whatever_is_signed_verifies(
        seed: [u8; 32], secret: [u8; 32], action in actions(), code in "[0-9]{5}",
    ) {
        for Pair { signer, ring } in pairs_of(seed) {
            let token = sign(&signer, secret, action, &code);
            let token = UntrustedToken::parse(token.as_str()).unwrap();
            let expected = expected(&signer, action, &code);
            let verified = token.verify(&ring, expected, Moment::at(NOW)).unwrap();
            prop_assert_eq!(verified.secret().as_bytes(), &secret);
            prop_assert_eq!(verified.action(), action);
        }
    }

    #[test]
    fn no_single_changed_character_of_any_token_verifies(
        seed: [u8; 32],
        secret: [u8; 32],
        action in actions(),
        index: prop::sample::Index,
        other: char,
    ) {
        for Pair { signer, ring } in pairs_of(seed) {
            let token = sign(&signer, secret, action, "01234");
            let mut altered: Vec<char> = token.as_str().chars().collect();
            let character = index.get_mut(&mut altered);
            prop_assume!(*character != other);
            *character = other;
            let altered: String = altered.into_iter().collect();
            let expected = expected(&signer, action, "01234");
            prop_assert!(accepts(&ring, altered.as_bytes(), expected).is_err());
        }
    }

    #[test]
    fn a_token_of_the_other_path_is_refused(seed: [u8; 32], secret: [u8; 32], code in "[0-9]{5}") {
        let [v1, v2, v3] = pairs_of(seed);
        let (activate, recover) = (Action::Activate, Action::Recover);
        for (action, other) in [(activate, recover), (recover, activate)] {
            let judge = |Pair { signer, ring }: &Pair| {
                let token = sign(signer, secret, action, &code);
                accepts(ring, token.as_str().as_bytes(), expected(signer, other, &code))
            };
            prop_assert_eq!(judge(&v1), Err(VerifyError::Signature));
            for pair in [&v2, &v3] {
                let verdict = judge(pair);
                prop_assert_eq!(verdict, Err(VerifyError::Action { found: action.number() }));
            }
        }
    }

    #[test]
    fn a_token_of_another_key_is_refused(
        seed: [u8; 32], other: [u8; 32], secret: [u8; 32], action in actions(),
    ) {
        prop_assume!(seed != other);
        for (signing, verifying) in pairs_of(seed).into_iter().zip(pairs_of(other)) {
            let token = sign(&signing.signer, secret, action, "01234");
            let expected = expected(&signing.signer, action, "01234");
            let verdict = accepts(&verifying.ring, token.as_str().as_bytes(), expected);
            prop_assert_eq!(verdict, Err(VerifyError::Signature));
        }
    }

    #[test]
    fn every_key_of_a_mixed_ring_verifies_whatever_its_place(
        seeds in prop::collection::vec(any::<[u8; 32]>(), 1..6),
        index: prop::sample::Index,
        secret: [u8; 32],
    ) {
        let pairs = seeds.iter().flat_map(|seed| pairs_of(*seed));
        let keys: Vec<VerifyingKey> = pairs.flat_map(|pair| pair.ring.keys().to_vec()).collect();
        let ring = KeyRing::new(keys).unwrap();
        for Pair { signer, .. } in pairs_of(*index.get(&seeds)) {
            let token = sign(&signer, secret, Action::Activate, "01234");
            let verdict = accepts(&ring, token.as_str().as_bytes(), Expected::activation());
            prop_assert_eq!(verdict, Ok(()));
        }
    }

    #[test]
    fn any_string_at_all_is_judged(token in ".{0,200}", code in ".{0,8}") {
        for Pair { ring, .. } in pairs_of([3; 32]) {
            prop_assert!(accepts(&ring, token.as_bytes(), Expected::activation()).is_err());
            prop_assert!(accepts(&ring, token.as_bytes(), Expected::recovery(&code)).is_err());
        }
    }
}

#[test]
fn debug_output_shows_no_token_secret_key_or_code() {
    for Pair { signer, ring } in pairs_of([0x41; 32]) {
        let token = sign(&signer, [0x41; 32], Action::Activate, "01234");
        let untrusted = UntrustedToken::parse(token.as_str()).unwrap();
        let verified = untrusted.verify(&ring, Expected::activation(), Moment::at(NOW)).unwrap();
        let expected = Expected::recovery("01234");
        let shown = format!("{signer:?} {token:?} {untrusted:?} {verified:?} {expected:?}");
        for hidden in ["65, 65", "01234", "AAAA", token.as_str()] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
}
