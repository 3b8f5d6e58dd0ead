//! Every case of the shared vectors, which an independent implementation made.

use mailroom_verifier_core::{Action, Code, Expected, KeyRing, Secret, SharedKey, UntrustedToken, v1};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    version: u8,
    action: String,
    key: String,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    tc_id: u32,
    comment: String,
    token: String,
    code: Option<String>,
    secret: Option<String>,
    id: Option<String>,
    result: String,
    error: Option<String>,
}

fn groups() -> Vec<Group> {
    let text = include_str!("../../tests/vectors/v1.json");
    serde_json::from_str::<Vectors>(text).expect("the vectors are JSON of the documented shape").groups
}

fn action(group: &Group) -> Action {
    group.action.parse().expect("an action of the format")
}

fn hexadecimal(bytes: &[u8]) -> String {
    format!("{:x}", base16ct::HexDisplay(bytes))
}

#[test]
fn every_v1_case_gets_its_verdict() {
    let mut cases = 0;
    for group in groups() {
        let ring = KeyRing::of(SharedKey::from_hex(&group.key).unwrap());
        for case in &group.tests {
            let expected =
                Expected { action: action(&group), code: case.code.as_ref().map(String::as_bytes) };
            let verdict = UntrustedToken::parse(&case.token).and_then(|token| token.verify(&ring, expected));
            let named = format!("tcId {}: {}", case.tc_id, case.comment);
            match (case.result.as_str(), verdict) {
                ("valid", Ok(token)) => {
                    assert_eq!(Some(hexadecimal(token.secret().as_bytes())), case.secret, "{named}");
                    assert_eq!(Some(hexadecimal(token.consumed_id().as_bytes())), case.id, "{named}");
                    assert_eq!(token.action(), expected.action, "{named}");
                    assert_eq!(token.version().number(), group.version, "{named}");
                }
                ("invalid", Err(error)) => assert_eq!(Some(error.code()), case.error.as_deref(), "{named}"),
                (result, verdict) => panic!("{named}: expected {result}, got {verdict:?}"),
            }
            cases += 1;
        }
    }
    assert_eq!(cases, 348, "every case of the file was tried");
}

#[test]
fn signing_gives_the_same_tokens_as_the_independent_implementation() {
    let mut signed = 0;
    for group in groups() {
        let key = SharedKey::from_hex(&group.key).unwrap();
        for case in group.tests.iter().filter(|case| case.result == "valid") {
            let bytes = UntrustedToken::parse(&case.token).unwrap().unauthenticated_secret().clone();
            let secret = Secret::try_from(&bytes.as_bytes()[..]).unwrap();
            let token = match action(&group) {
                Action::Activate => v1::sign_activation(&key, &secret),
                Action::Recover => {
                    let code = case.code.as_ref().expect("a valid recovery has a code");
                    v1::sign_recovery(&key, &secret, &Code::parse(code).unwrap())
                }
            };
            assert_eq!(token.as_str(), case.token, "tcId {}: {}", case.tc_id, case.comment);
            signed += 1;
        }
    }
    assert_eq!(signed, 24, "every genuine token of the file was made again");
}
