//! Every case of the shared vectors, which an independent implementation made.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its vectors fails")]

use std::collections::BTreeMap;

use mailroom_verifier_core::{
    Action, Actions, Binding, Browser, Code, Expected, Expiry, Further, Grant, KeyRing, Moment,
    SharedKey, SignedToken, Signer, UntrustedToken, VerifyingKey, Version,
};
use serde::Deserialize;

#[cfg(feature = "public")]
use mailroom_verifier_core::{PrivateKey, PublicKey};

#[derive(Deserialize)]
struct Vectors {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    version: u8,
    action: String,
    /// What the verifier knows; the two of every installation where it is not said.
    #[serde(default)]
    actions: BTreeMap<String, Definition>,
    key: Option<String>,
    #[cfg(feature = "public")]
    public_key: Option<String>,
    #[cfg(feature = "public")]
    private_key: Option<String>,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
struct Definition {
    number: u8,
    digits: u8,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    tc_id: u32,
    comment: String,
    token: String,
    code: Option<String>,
    /// The value of the visitor's cookie.
    nonce: Option<String>,
    #[serde(default)]
    now: u64,
    secret: Option<String>,
    #[serde(rename = "expires_at")]
    expires_at: Option<u64>,
    id: Option<String>,
    result: String,
    error: Option<String>,
}

impl Group {
    fn actions(&self) -> Actions<Vec<Further>> {
        let known = |(name, definition): (&String, &Definition)| {
            let built_in = name.parse::<Action>().ok();
            if let Some(action) = built_in {
                assert_eq!(
                    (action.number(), action.digits()),
                    (definition.number, definition.digits)
                );
                return None;
            }
            let &Definition { number, digits } = definition;
            let (name, path) = (name.clone().leak(), format!("/{name}").leak());
            Some(Further { number, name, path, digits })
        };
        Actions::new(self.actions.iter().filter_map(known).collect()).unwrap()
    }

    fn action(&self) -> Action {
        self.actions().named(&self.action).unwrap()
    }

    fn verifying_key(&self) -> VerifyingKey {
        #[cfg(feature = "public")]
        if let Some(key) = &self.public_key {
            return PublicKey::from_bytes(&bytes(key)).unwrap().into();
        }
        SharedKey::from_hex(self.key.as_ref().unwrap()).unwrap().into()
    }

    fn signer(&self) -> Signer {
        let shared = || SharedKey::from_hex(self.key.as_ref().unwrap()).unwrap();
        match self.version {
            1 => Signer::V1(shared()),
            2 => Signer::V2(shared()),
            #[cfg(feature = "public")]
            3 => Signer::V3(PrivateKey::from_seed(&bytes(self.private_key.as_ref().unwrap()))),
            version => panic!("no signer for version {version}"),
        }
    }
}

#[cfg(feature = "public")]
fn bytes(hexadecimal: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    base16ct::lower::decode(hexadecimal, &mut bytes).unwrap();
    bytes
}

fn hexadecimal(bytes: &[u8]) -> String {
    format!("{:x}", base16ct::HexDisplay(bytes))
}

/// The groups of a file whose keys this build has.
fn groups(file: &str) -> Vec<Group> {
    let mut groups = serde_json::from_str::<Vectors>(file).unwrap().groups;
    groups.retain(|group| group.version < 3 || cfg!(feature = "public"));
    groups
}

fn judge_every_case(file: &str, cases: usize) {
    let groups = groups(file);
    for group in &groups {
        let ring = KeyRing::of(group.verifying_key()).knowing(&group.actions());
        for case in &group.tests {
            let visitor = case.nonce.as_ref().and_then(Binding::of_nonce);
            let code = case.code.as_ref().map(String::as_bytes);
            let expected = Expected { action: group.action(), code, binding: visitor.as_ref() };
            let verdict = UntrustedToken::parse(&case.token)
                .and_then(|token| token.verify(&ring, expected, Moment::at(case.now)));
            let named = format!("tcId {}: {}", case.tc_id, case.comment);
            #[cfg(feature = "external")]
            agrees_with_external(&ring, case, group.action());
            match (case.result.as_str(), verdict) {
                ("valid", Ok(token)) => {
                    assert_eq!(
                        Some(hexadecimal(token.secret().as_bytes())),
                        case.secret,
                        "{named}"
                    );
                    assert_eq!(
                        Some(hexadecimal(token.consumed_id().as_bytes())),
                        case.id,
                        "{named}"
                    );
                    assert_eq!(token.expires_at().map(Expiry::seconds), case.expires_at, "{named}");
                    assert_eq!(token.action(), group.action(), "{named}");
                    assert_eq!(token.version().number(), group.version, "{named}");
                    let proven = case.code.is_some();
                    assert_eq!(token.code_is_proven(), proven, "{named}");
                    let is_bound = token_of(case).unauthenticated_binding().is_some();
                    let browser = if is_bound { Browser::Same } else { Browser::Unbound };
                    assert_eq!(token.browser(), browser, "{named}");
                }
                ("invalid", Err(error)) => {
                    assert_eq!(Some(error.reason()), case.error.as_deref(), "{named}");
                }
                (result, verdict) => panic!("{named}: expected {result}, got {verdict:?}"),
            }
        }
    }
    assert_eq!(
        groups.iter().map(|group| group.tests.len()).sum::<usize>(),
        cases,
        "every case was tried"
    );
}

/// Where another implementation of Ed25519 checks signatures, a link gets the same verdict.
#[cfg(feature = "external")]
fn agrees_with_external(ring: &KeyRing, case: &Case, action: Action) {
    use ed25519_dalek::{Signature, Verifier, VerifyingKey as Ed25519};
    use mailroom_verifier_core::{Judgement, Malformed, VerifyError};
    use std::cell::Cell;

    let (Ok(token), moment) = (UntrustedToken::parse(&case.token), Moment::at(case.now)) else {
        return;
    };
    let verdict = token.verify_link(ring, action, moment).map(|link| link.expires_at());
    let asked = Cell::new(0);
    let lenient = |message: &[u8], signature: &[u8; 64]| {
        asked.set(asked.get() + 1);
        let [VerifyingKey::Public(key)] = ring.keys() else {
            panic!("a shared key has no signatures")
        };
        let key = Ed25519::from_bytes(key.as_bytes()).unwrap();
        let accepted = key.verify(message, &Signature::from_bytes(signature)).is_ok();
        if accepted { Judgement::Accepted } else { Judgement::Open }
    };
    let named = format!("tcId {}: {}", case.tc_id, case.comment);
    assert_eq!(token.verify_link_with(ring, action, moment, lenient), verdict, "{named}");

    let pending = token.verify_link_with(ring, action, moment, |message, signature| {
        asked.set(asked.get() + 1);
        assert!(message.starts_with(b"mailroom/v3 link\0"));
        assert_eq!(signature, token.unauthenticated_tag());
        Judgement::Pending
    });
    let accepted = token.verify_link_with(ring, action, moment, |_, _| Judgement::Accepted);
    match verdict {
        // What comes before the signature, and tokens that have none or name another key.
        Err(VerifyError::Malformed(Malformed::Action { .. }) | VerifyError::LinkUncheckable) => {
            assert_eq!((pending, accepted, asked.get()), (verdict, verdict, 0), "{named}");
        }
        Err(VerifyError::Signature) if asked.get() == 0 => {
            assert_eq!((pending, accepted), (verdict, verdict), "{named}");
        }
        Err(VerifyError::Signature) => assert_eq!((pending, asked.get()), (verdict, 2), "{named}"),
        // What comes after it is judged here, whoever accepted it.
        _ if token.version() == Version::V3 => {
            assert_eq!((pending, accepted), (Err(VerifyError::Signature), verdict), "{named}");
            assert_eq!(asked.get(), 2, "{named}");
        }
        _ => assert_eq!((pending, accepted, asked.get()), (verdict, verdict, 0), "{named}"),
    }
}

fn make_every_genuine_token_again(file: &str, tokens: usize) {
    let mut made = 0;
    for group in groups(file) {
        let signer = group.signer();
        for case in group.tests.iter().filter(|case| case.result == "valid") {
            assert_eq!(
                sign_like(&signer, &group, case).as_str(),
                case.token,
                "tcId {}: {}",
                case.tc_id,
                case.comment
            );
            made += 1;
        }
    }
    assert_eq!(made, tokens, "every genuine token was made again");
}

fn token_of(case: &Case) -> UntrustedToken {
    UntrustedToken::parse(&case.token).unwrap()
}

fn sign_like(signer: &Signer, group: &Group, case: &Case) -> SignedToken {
    let token = token_of(case);
    let (secret, binding) = (token.unauthenticated_secret(), token.unauthenticated_binding());
    let action = group.action();
    // v3 signs no code, so its cases carry none.
    let zeros = &"00000000"[..action.digits().into()];
    let code = Code::parse(case.code.as_deref().unwrap_or(zeros)).ok();
    let expires_at = Expiry::from_seconds(case.expires_at.unwrap_or_default()).unwrap();
    signer.sign(Grant { secret, action, code: code.as_ref(), expires_at, binding }).unwrap()
}

const V1: &str = include_str!("../../tests/vectors/v1.json");
const V2: &str = include_str!("../../tests/vectors/v2.json");
const V3: &str = include_str!("../../tests/vectors/v3.json");
const ACTIONS: &str = include_str!("../../tests/vectors/actions.json");
const BOUND: &str = include_str!("../../tests/vectors/bound.json");

#[test]
fn every_v1_case_gets_its_verdict() {
    judge_every_case(V1, 348);
}

#[test]
fn every_v2_case_gets_its_verdict() {
    judge_every_case(V2, 340);
}

#[cfg(feature = "public")]
#[test]
fn every_v3_case_gets_its_verdict() {
    judge_every_case(V3, 284);
}

#[test]
fn every_case_of_further_actions_gets_its_verdict() {
    judge_every_case(ACTIONS, if cfg!(feature = "public") { 408 } else { 228 });
}

#[test]
fn signing_further_actions_gives_the_tokens_of_the_independent_implementation() {
    make_every_genuine_token_again(ACTIONS, if cfg!(feature = "public") { 60 } else { 30 });
}

#[test]
fn every_case_of_bound_tokens_gets_its_verdict() {
    judge_every_case(BOUND, if cfg!(feature = "public") { 681 } else { 366 });
}

#[test]
fn signing_for_a_browser_gives_the_tokens_of_the_independent_implementation() {
    make_every_genuine_token_again(BOUND, if cfg!(feature = "public") { 60 } else { 30 });
}

/// To a verifier of the two actions alone, every other one is unknown, whatever else is wrong.
#[test]
fn without_the_further_actions_their_tokens_are_malformed() {
    for group in groups(ACTIONS).iter().filter(|group| group.action.parse::<Action>().is_err()) {
        let ring = KeyRing::of(group.verifying_key());
        let expected = Expected { action: group.action(), code: None, binding: None };
        for case in group.tests.iter().filter(|case| case.result == "valid") {
            let token = UntrustedToken::parse(&case.token).unwrap();
            let error = token.verify(&ring, expected, Moment::at(case.now)).unwrap_err();
            assert_eq!(error.reason(), "ERR_TOKEN_MALFORMED", "tcId {}", case.tc_id);
        }
    }
}

#[test]
fn signing_v1_gives_the_tokens_of_the_independent_implementation() {
    make_every_genuine_token_again(V1, 24);
}

#[test]
fn signing_v2_gives_the_tokens_of_the_independent_implementation() {
    make_every_genuine_token_again(V2, 52);
}

#[cfg(feature = "public")]
#[test]
fn signing_v3_gives_the_tokens_of_the_independent_implementation() {
    make_every_genuine_token_again(V3, 52);
}

#[test]
fn without_a_public_key_every_v3_token_is_refused_and_told_from_junk() {
    let ring = KeyRing::of(SharedKey::from(&[3; 32]));
    for group in serde_json::from_str::<Vectors>(V3).unwrap().groups {
        for case in group.tests.iter().filter(|case| case.result == "valid") {
            let token = UntrustedToken::parse(&case.token).unwrap();
            let expected = Expected { action: group.action(), code: None, binding: None };
            let error = token.verify(&ring, expected, Moment::at(case.now)).unwrap_err();
            assert_eq!(
                (token.version(), error.reason()),
                (Version::V3, "ERR_TOKEN_SIGNATURE"),
                "tcId {}",
                case.tc_id
            );
        }
    }
}
