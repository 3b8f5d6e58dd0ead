//! Links that are bound to a browser: what each browser may do, and what signers refuse.
#![allow(clippy::unwrap_used, reason = "a test that cannot make its token fails")]

use std::cell::RefCell;

use mailroom_verifier_core::{
    Action, Attempt, Binding, Browser, Code, ConsumedId, ConsumedTokens, Expected, Expiry, Grant,
    Guard, KeyRing, MemoryCache, Moment, Owner, PrivateKey, RedeemError, Secret, SharedKey,
    SignedToken, Signer, Slot, Unsignable, UntrustedToken, VerifiedLink, VerifyError, VerifyingKey,
};

const NOW: u64 = 1_800_000_000;
const NONCE: &str = "fQU-LQos613Hcm3alseAB486Ma1qcSriU0Lhj1UvvuE";
const OTHER: &str = "xEcnneZeyLHkUiLzCdWJLMWP8O-XDpLHbKLCB9qNdT8";
const CODE: &str = "04711";

fn signers() -> [Signer; 2] {
    [Signer::V2(SharedKey::from(&[3; 32])), Signer::V3(PrivateKey::from_seed(&[3; 32]))]
}

fn ring() -> KeyRing<[VerifyingKey; 2]> {
    let public = PrivateKey::from_seed(&[3; 32]).public_key().clone();
    KeyRing::new([SharedKey::from(&[3; 32]).into(), public.into()]).unwrap()
}

fn sign(signer: &Signer, action: Action, nonce: Option<&str>) -> Result<SignedToken, Unsignable> {
    let code = (action.digits() > 0).then(|| Code::parse(CODE).unwrap());
    let expires_at = Expiry::from_seconds(NOW + 900).unwrap();
    let binding = nonce.map(|nonce| Binding::of_nonce(nonce).unwrap());
    signer.sign(Grant {
        secret: &Secret::from([7; 32]),
        action,
        code: code.as_ref(),
        expires_at,
        binding: binding.as_ref(),
    })
}

fn expected(action: Action, code: Option<&str>, visitor: Option<&str>) -> Expected<'static> {
    let code = code.map(|code| code.to_owned().leak().as_bytes());
    let binding = visitor.and_then(Binding::of_nonce).map(|binding| &*Box::leak(Box::new(binding)));
    Expected { action, code, binding }
}

#[test]
fn a_link_says_in_which_browser_it_is_opened() {
    for (signer, action) in
        signers().iter().flat_map(|signer| Action::BUILT_IN.map(|action| (signer, action)))
    {
        for (nonce, visitor, browser) in [
            (Some(NONCE), Some(NONCE), Browser::Same),
            (Some(NONCE), Some(OTHER), Browser::Other),
            (Some(NONCE), Some("no nonce"), Browser::Other),
            (Some(NONCE), None, Browser::Other),
            (None, Some(NONCE), Browser::Unbound),
            (None, None, Browser::Unbound),
        ] {
            let token =
                UntrustedToken::parse(sign(signer, action, nonce).unwrap().as_str()).unwrap();
            let ring = ring();
            let link = token.verify_link(&ring, action, Moment::at(NOW)).unwrap();
            let visitor = visitor.and_then(Binding::of_nonce);
            assert_eq!(link.browser(visitor.as_ref()), browser);
            assert_eq!(link.secret().as_bytes(), &[7; 32]);
        }
    }
}

#[test]
fn in_another_browser_a_code_that_is_covered_proves_the_person_and_nothing_else_does() {
    let verdict = |signer: &Signer, action, code: Option<&str>| {
        let token =
            UntrustedToken::parse(sign(signer, action, Some(NONCE)).unwrap().as_str()).unwrap();
        let ring = ring();
        let link = token.verify_link(&ring, action, Moment::at(NOW)).unwrap();
        let proven = link.with_code(code.map(str::as_bytes), Binding::of_nonce(OTHER).as_ref());
        proven.map(|token| (token.browser(), token.code_is_proven()))
    };
    let [v2, v3] = signers();
    assert_eq!(verdict(&v2, Action::Recover, Some(CODE)), Ok((Browser::Other, true)));
    assert_eq!(verdict(&v2, Action::Recover, Some("04712")), Err(VerifyError::CodeMismatch));
    assert_eq!(verdict(&v2, Action::Recover, None), Err(VerifyError::CodeRequired { digits: 5 }));
    for (signer, action) in
        [(&v2, Action::Activate), (&v3, Action::Activate), (&v3, Action::Recover)]
    {
        for code in [None, Some(CODE)] {
            assert_eq!(verdict(signer, action, code), Err(VerifyError::OtherBrowser));
        }
    }
}

#[test]
fn the_right_browser_replaces_no_code() {
    let token =
        UntrustedToken::parse(sign(&signers()[0], Action::Recover, Some(NONCE)).unwrap().as_str())
            .unwrap();
    let verdict =
        |code| token.verify(&ring(), expected(Action::Recover, code, Some(NONCE)), Moment::at(NOW));
    assert_eq!(verdict(None).err(), Some(VerifyError::CodeRequired { digits: 5 }));
    assert_eq!(verdict(Some("04712")).err(), Some(VerifyError::CodeMismatch));
    assert_eq!(verdict(Some(CODE)).unwrap().browser(), Browser::Same);
}

#[test]
fn v1_is_never_bound_and_is_signed_for_no_browser() {
    let v1 = Signer::V1(SharedKey::from(&[3; 32]));
    for action in Action::BUILT_IN {
        assert_eq!(sign(&v1, action, Some(NONCE)).err(), Some(Unsignable::BoundInV1));
    }
    let token = UntrustedToken::parse(sign(&v1, Action::Activate, None).unwrap().as_str()).unwrap();
    let verified = token
        .verify(&ring(), expected(Action::Activate, None, Some(OTHER)), Moment::at(NOW))
        .unwrap();
    assert_eq!((token.unauthenticated_binding(), verified.browser()), (None, Browser::Unbound));
}

#[test]
fn no_byte_of_a_bound_token_can_be_changed() {
    for (signer, action) in
        signers().iter().flat_map(|signer| Action::BUILT_IN.map(|action| (signer, action)))
    {
        let covered = matches!(signer, Signer::V2(_)) && action.digits() > 0;
        let expected = expected(action, covered.then_some(CODE), Some(NONCE));
        let token = sign(signer, action, Some(NONCE)).unwrap();
        let accepts = |text: &[u8]| {
            UntrustedToken::parse(text)
                .and_then(|token| token.verify(&ring(), expected, Moment::at(NOW)))
        };
        assert!(accepts(token.as_str().as_bytes()).is_ok());
        for place in 0..token.as_str().len() {
            let mut text = token.as_str().as_bytes().to_vec();
            text[place] = if text[place] == b'A' { b'B' } else { b'A' };
            assert!(accepts(&text).is_err(), "{place} of {action} in {}", signer.version());
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the guard's comparison may fail")]
fn compare(_: &VerifiedLink<'_>, code: &Code) -> Result<bool, ()> {
    Ok(code.as_bytes() == CODE.as_bytes())
}

#[test]
fn tries_in_other_browsers_never_lock_the_one_that_asked() {
    let store = RefCell::new(MemoryCache::new([Slot::EMPTY; 20]));
    let guard = Guard::new(ring(), &store);
    let mut owners = (0..).map(|number| Owner::from_random([number; 16]));
    for signer in signers() {
        let recovery = sign(&signer, Action::Recover, Some(NONCE)).unwrap();
        let mut redeem = |code, visitor| {
            let (expected, owner) =
                (expected(Action::Recover, Some(code), visitor), owners.next().unwrap());
            guard.redeem_with(
                recovery.as_str(),
                expected,
                Moment::at(NOW),
                owner,
                compare,
                |token| {
                    assert_eq!((token.browser(), token.code_is_proven()), (Browser::Same, true));
                    // Gives the link back, for the same row in the next format.
                    Err::<(), _>(())
                },
            )
        };
        for visitor in [None, Some(OTHER), Some(""), Some("no nonce")] {
            for _ in 0..10 {
                assert_eq!(redeem(CODE, visitor), Err(VerifyError::OtherBrowser.into()));
                assert_eq!(redeem("x", visitor), Err(VerifyError::OtherBrowser.into()));
            }
        }
        assert_eq!(redeem(CODE, Some(NONCE)), Err(RedeemError::Callback(())));
    }
    let id = ConsumedId::of(&Secret::from([7; 32]));
    let attempt = store.attempt(id, Owner::from_random([255; 16]), NOW + 5_000, NOW);
    assert_eq!(attempt, Ok(Attempt::Number(3)), "of all those tries the store saw two");
}
