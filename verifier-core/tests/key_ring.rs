//! A key id is a hint: whatever keys share one, each verifies what it signed and nothing else.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use mailroom_verifier_core::{
    Action, Code, Expected, Expiry, Grant, KeyRing, Moment, PrivateKey, Secret, SharedKey, Signer,
    UntrustedToken, VerifyError, VerifyingKey,
};

const NOW: u64 = 1_800_000_000;
const CODE: &str = "04711";

/// Pairs of numbers whose keys have the same id;
/// found by making a key of every number until two agreed.
const SHARED: [u32; 2] = [22_616, 28_638];
const PUBLIC: [u32; 2] = [44_663, 128_211];
/// A shared key, and a private key whose public one has the same id.
const MIXED: [u32; 2] = [132_244, 899];

fn bytes(number: u32) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn shared(number: u32) -> SharedKey {
    SharedKey::from(&bytes(number))
}

fn private(number: u32) -> PrivateKey {
    PrivateKey::from_seed(&bytes(number))
}

fn ring(keys: impl IntoIterator<Item = VerifyingKey>) -> KeyRing<Vec<VerifyingKey>> {
    KeyRing::new(keys.into_iter().collect()).unwrap()
}

/// The key that verifies what `signer` signs.
fn verifying(signer: &Signer) -> VerifyingKey {
    match signer {
        Signer::V1(key) | Signer::V2(key) => key.clone().into(),
        Signer::V3(key) => key.public_key().clone().into(),
        _ => panic!("a format without a test"),
    }
}

/// The verdict of `ring` on an activation and a recovery that `signer` signed.
fn verdicts(signer: &Signer, ring: &KeyRing<Vec<VerifyingKey>>) -> [Result<(), VerifyError>; 2] {
    let secret = Secret::from([7; 32]);
    let code = Code::parse(CODE).unwrap();
    let expires_at = Expiry::from_seconds(NOW + 900).unwrap();
    let code_is_covered = !matches!(signer, Signer::V3(_));
    [(Action::Activate, None), (Action::Recover, Some(&code))].map(|(action, code)| {
        let token = signer
            .sign(Grant { secret: &secret, action, code, expires_at, binding: None })
            .unwrap();
        let asked = code.is_some() && code_is_covered;
        let expected = Expected { action, code: asked.then_some(CODE.as_bytes()), binding: None };
        let verified =
            UntrustedToken::parse(token.as_str())?.verify(ring, expected, Moment::at(NOW))?;
        assert_eq!(verified.secret(), &secret);
        Ok(())
    })
}

const ACCEPTED: [Result<(), VerifyError>; 2] = [Ok(()), Ok(())];
const REFUSED: [Result<(), VerifyError>; 2] =
    [Err(VerifyError::Signature), Err(VerifyError::Signature)];

/// Both keys in either order verify what each of them signed;
/// one alone does not verify what the other signed.
fn assert_told_apart(signers: &[Signer; 2]) {
    let keys = signers.each_ref().map(verifying);
    let mut reversed = keys.clone();
    reversed.reverse();
    let [first, second] = keys.each_ref().map(|key| ring([key.clone()]));
    for signer in signers {
        assert_eq!(verdicts(signer, &ring(keys.clone())), ACCEPTED, "{signer:?}");
        assert_eq!(verdicts(signer, &ring(reversed.clone())), ACCEPTED, "{signer:?}");
    }
    assert_eq!(verdicts(&signers[0], &second), REFUSED);
    assert_eq!(verdicts(&signers[1], &first), REFUSED);
}

#[test]
fn shared_keys_of_one_id_verify_what_each_signed() {
    let [first, second] = SHARED.map(shared);
    assert_eq!(first.id(), second.id());
    assert_ne!(first.to_prepared(), second.to_prepared());
    assert_told_apart(&[Signer::V2(first), Signer::V2(second)]);
}

#[test]
fn public_keys_of_one_id_verify_what_each_signed() {
    let [first, second] = PUBLIC.map(private);
    assert_eq!(first.public_key().id(), second.public_key().id());
    assert_ne!(first.public_key(), second.public_key());
    assert_told_apart(&[Signer::V3(first), Signer::V3(second)]);
}

#[test]
fn a_shared_and_a_public_key_of_one_id_verify_what_each_signed() {
    let (first, second) = (shared(MIXED[0]), private(MIXED[1]));
    assert_eq!(first.id(), second.public_key().id());
    assert_told_apart(&[Signer::V2(first), Signer::V3(second)]);
}

#[test]
fn the_code_is_checked_by_the_key_that_signed_its_link() {
    let [first, second] = SHARED.map(shared);
    let both = ring([first.clone().into(), second.clone().into()]);
    for key in [first, second] {
        let code = Code::parse(CODE).unwrap();
        let grant = Grant {
            secret: &Secret::from([7; 32]),
            action: Action::Recover,
            code: Some(&code),
            expires_at: Expiry::from_seconds(NOW + 900).unwrap(),
            binding: None,
        };
        let token = Signer::V2(key).sign(grant).unwrap();
        let token = UntrustedToken::parse(token.as_str()).unwrap();
        let verdict = token.verify(&both, Expected::recovery("04712"), Moment::at(NOW)).map(|_| ());
        assert_eq!(verdict, Err(VerifyError::CodeMismatch));
    }
}

/// All signers of all three formats whose keys a ring may hold.
fn signers(numbers: impl IntoIterator<Item = u32>) -> Vec<Signer> {
    let signers = |number| {
        [Signer::V1(shared(number)), Signer::V2(shared(number)), Signer::V3(private(number))]
    };
    numbers.into_iter().flat_map(signers).collect()
}

#[test]
fn a_mixed_ring_verifies_every_format_of_every_key_and_no_other() {
    let numbers = SHARED.into_iter().chain(PUBLIC).chain(MIXED);
    let known = signers(numbers);
    let ring = ring(known.iter().map(verifying));
    for signer in &known {
        assert_eq!(verdicts(signer, &ring), ACCEPTED, "{signer:?}");
    }
    for signer in &signers([1, 2]) {
        assert_eq!(verdicts(signer, &ring), REFUSED, "{signer:?}");
    }
}

#[test]
fn every_key_of_a_ring_of_hundreds_verifies() {
    let known = signers(0..150);
    let ring = ring(known.iter().map(verifying));
    for signer in &known {
        assert_eq!(verdicts(signer, &ring), ACCEPTED, "{signer:?}");
    }
    for signer in &signers(150..200) {
        assert_eq!(verdicts(signer, &ring), REFUSED, "{signer:?}");
    }
}

#[test]
fn a_key_that_stands_twice_in_a_ring_verifies() {
    let key = shared(1);
    let twice = ring([key.clone().into(), key.clone().into()]);
    assert_eq!(verdicts(&Signer::V2(key.clone()), &twice), ACCEPTED);
    assert_eq!(verdicts(&Signer::V1(key), &twice), ACCEPTED);
}
