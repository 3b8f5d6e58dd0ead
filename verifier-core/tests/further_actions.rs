//! Further actions are signed, verified and redeemed as the installation defines them, and by those
//! who know them alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot make its token fails")]

use std::cell::RefCell;

use mailroom_verifier_core::{
    Action, Actions, Code, Expected, Expiry, Further, Grant, Guard, InvalidAction, KeyRing,
    MemoryCache, Moment, Owner, PrivateKey, RedeemError, Secret, SharedKey, SignedToken, Signer,
    Slot, Unsignable, UntrustedToken, VerifyError, VerifyingKey,
};
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000;
const INVITE: Further = Further { number: 4, name: "invite", path: "/invite", digits: 0 };
const CHANGE: Further =
    Further { number: 3, name: "change_email", path: "/account/email", digits: 6 };

fn signers() -> [Signer; 3] {
    let shared = SharedKey::from(&[3; 32]);
    [Signer::V1(shared.clone()), Signer::V2(shared), Signer::V3(PrivateKey::from_seed(&[3; 32]))]
}

fn ring(further: &[Further]) -> KeyRing<[VerifyingKey; 2]> {
    let public = PrivateKey::from_seed(&[3; 32]).public_key().clone();
    let ring = KeyRing::new([SharedKey::from(&[3; 32]).into(), public.into()]).unwrap();
    ring.knowing(&Actions::new(further).unwrap())
}

fn sign(signer: &Signer, further: Further, code: Option<&str>) -> Result<SignedToken, Unsignable> {
    let code = code.map(|digits| Code::parse(digits).unwrap());
    let (action, code) = (Action::Further(further), code.as_ref());
    let expires_at = Expiry::from_seconds(NOW + 900).unwrap();
    signer.sign(Grant { secret: &Secret::from([7; 32]), action, code, expires_at, binding: None })
}

fn verify(
    token: &SignedToken,
    ring: &KeyRing<[VerifyingKey; 2]>,
    further: Further,
    code: Option<&str>,
) -> Result<Action, VerifyError> {
    let expected =
        Expected { action: Action::Further(further), code: code.map(str::as_bytes), binding: None };
    let token = UntrustedToken::parse(token.as_str())?.verify(ring, expected, Moment::at(NOW))?;
    Ok(token.action())
}

#[test]
fn a_signer_refuses_what_no_verifier_would_accept() {
    let [v1, v2, v3] = signers();
    assert_eq!(sign(&v1, INVITE, None).err(), Some(Unsignable::FurtherInV1));
    assert_eq!(sign(&v1, CHANGE, Some("012345")).err(), Some(Unsignable::FurtherInV1));
    for signer in [v1, v2, v3] {
        for code in [None, Some("01234"), Some("0123456")] {
            assert_eq!(
                sign(&signer, CHANGE, code).err(),
                Some(Unsignable::Code { digits: 6 }),
                "{code:?}"
            );
        }
        assert_eq!(sign(&signer, INVITE, Some("01234")).err(), Some(Unsignable::SurplusCode));
        for number in [0, 1, 2, 128, 255] {
            let error = Unsignable::Action(InvalidAction::Number { found: number });
            assert_eq!(sign(&signer, Further { number, ..INVITE }, None).err(), Some(error));
        }
        let error = Unsignable::Action(InvalidAction::Digits { number: 4, found: 4 });
        assert_eq!(sign(&signer, Further { digits: 4, ..INVITE }, None).err(), Some(error));
        let error = Some(Unsignable::Action(InvalidAction::Path { number: 4 }));
        assert_eq!(sign(&signer, Further { path: "/a b", ..INVITE }, None).err(), error);
    }
}

#[test]
fn the_ring_decides_what_an_action_is() {
    let [_, v2, v3] = signers();
    let malformed =
        |error: Result<Action, VerifyError>| error.unwrap_err().reason() == "ERR_TOKEN_MALFORMED";
    for signer in [v2, v3] {
        let token = sign(&signer, INVITE, None).unwrap();
        assert_eq!(
            verify(&token, &ring(&[INVITE, CHANGE]), INVITE, None),
            Ok(Action::Further(INVITE))
        );
        assert!(malformed(verify(&token, &ring(&[CHANGE]), INVITE, None)));
        assert!(malformed(verify(&token, &ring(&[]), INVITE, None)));
        let other = verify(&token, &ring(&[INVITE, CHANGE]), CHANGE, None);
        assert_eq!(other, Err(VerifyError::Action { found: 4 }));
        // A caller that takes the action for one with a code does not have the one
        // that the ring knows.
        let with_code = Further { digits: 6, ..INVITE };
        let found = verify(&token, &ring(&[INVITE]), with_code, Some("012345"));
        assert_eq!(found, Err(VerifyError::Action { found: 4 }));
    }
    // A ring that knows it with a code expects the other length.
    let token = sign(&signers()[1], INVITE, None).unwrap();
    let with_code = Further { digits: 6, ..INVITE };
    assert!(malformed(verify(&token, &ring(&[with_code]), with_code, Some("012345"))));
}

#[test]
fn a_v1_token_is_of_no_further_action() {
    let v1 = &signers()[0];
    let grant = Grant {
        secret: &Secret::from([7; 32]),
        action: Action::Activate,
        code: None,
        expires_at: Expiry::from_seconds(NOW).unwrap(),
        binding: None,
    };
    let token = v1.sign(grant).unwrap();
    assert_eq!(verify(&token, &ring(&[INVITE]), INVITE, None), Err(VerifyError::Signature));
}

#[test]
fn a_guard_counts_the_codes_of_a_further_action_and_lets_it_through_once() {
    let store = RefCell::new(MemoryCache::new([Slot::EMPTY; 20]));
    let guard = Guard::new(ring(&[INVITE, CHANGE]), &store);
    let [_, v2, _] = signers();
    let mut owners = (0..).map(|number| Owner::from_random([number; 16]));
    let mut redeem = |token: &SignedToken, further, code: Option<&str>| {
        let expected = Expected {
            action: Action::Further(further),
            code: code.map(str::as_bytes),
            binding: None,
        };
        let owner = owners.next().unwrap();
        guard.redeem(token.as_str(), expected, Moment::at(NOW), owner, |_| Ok::<_, ()>(()))
    };
    let change = sign(&v2, CHANGE, Some("012345")).unwrap();
    assert_eq!(redeem(&change, CHANGE, None), Err(VerifyError::CodeRequired { digits: 6 }.into()));
    let malformed = redeem(&change, CHANGE, Some("01234"));
    assert_eq!(malformed, Err(VerifyError::CodeMalformed { digits: 6 }.into()));
    for _ in 0..5 {
        assert_eq!(redeem(&change, CHANGE, Some("012346")), Err(VerifyError::CodeMismatch.into()));
    }
    assert_eq!(redeem(&change, CHANGE, Some("012345")), Err(RedeemError::TooManyAttempts));
}

proptest! {
    #[test]
    fn whatever_is_signed_verifies(
        number in 3_u8..=127,
        digits in prop_oneof![Just(0_u8), 5_u8..=8],
        code in "[0-9]{8}",
        wrong in "[0-9]{8}",
    ) {
        let further = Further { number, digits, ..INVITE };
        let length = usize::from(digits);
        let code = (digits > 0).then(|| &code[..length]);
        for signer in &signers()[1..] {
            let token = sign(signer, further, code).unwrap();
            let covered = code.filter(|_| matches!(signer, Signer::V2(_)));
            let verified = verify(&token, &ring(&[further]), further, covered);
            prop_assert_eq!(verified, Ok(Action::Further(further)));
            if covered.is_some_and(|code| code != &wrong[..length]) {
                let refused = verify(&token, &ring(&[further]), further, Some(&wrong[..length]));
                prop_assert_eq!(refused, Err(VerifyError::CodeMismatch));
            }
        }
    }
}
