//! The oracle that the verifier is compared with gives every case
//! of the shared vectors its verdict.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its vectors fails")]

use mailroom_properties::oracle::{self, Key, Private, Question, Shared};
use mailroom_properties::{KNOWN, token};
use mailroom_verifier_core::Action;
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    action: String,
    key: Option<String>,
    private_key: Option<String>,
    public_key: Option<String>,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    #[serde(rename = "tcId")]
    tc_id: u32,
    token: String,
    code: Option<String>,
    nonce: Option<String>,
    #[serde(default)]
    now: u64,
    secret: Option<String>,
    expires_at: Option<u64>,
    error: Option<String>,
}

fn bytes(hexadecimal: &str) -> [u8; 32] {
    let byte =
        |index: usize| u8::from_str_radix(&hexadecimal[2 * index..2 * index + 2], 16).unwrap();
    core::array::from_fn(byte)
}

fn judge_every_case(file: &str, known: &[Action], cases: usize) {
    let groups = serde_json::from_str::<Vectors>(file).unwrap().groups;
    for group in &groups {
        let shared = group.key.as_ref().map(|key| Shared::new(bytes(key)));
        let private = group.private_key.as_ref().map(|seed| Private::new(bytes(seed)));
        assert_eq!(
            private.as_ref().map(Private::public_key),
            group.public_key.as_ref().map(|key| bytes(key))
        );
        let key = shared.as_ref().map(Key::Shared).or(private.as_ref().map(Key::Private)).unwrap();
        for case in &group.tests {
            let question = Question {
                action: *known.iter().find(|action| action.name() == group.action).unwrap(),
                known,
                code: case.code.as_ref().map(String::as_bytes),
                nonce: case.nonce.as_ref().map(String::as_bytes),
                now: case.now,
                tolerance: 0,
            };
            let verdict = oracle::verify(case.token.as_bytes(), &[key], question);
            let found =
                verdict.map(|token| (token.secret, token.expires_at)).map_err(str::to_owned);
            let expected = match &case.error {
                Some(error) => Err(error.clone()),
                None => Ok((bytes(case.secret.as_ref().unwrap()), case.expires_at)),
            };
            assert_eq!(found, expected, "tcId {}", case.tc_id);
        }
    }
    assert_eq!(
        groups.iter().map(|group| group.tests.len()).sum::<usize>(),
        cases,
        "every case was tried"
    );
}

const V1: &str = include_str!("../../vectors/v1.json");
const V2: &str = include_str!("../../vectors/v2.json");
const V3: &str = include_str!("../../vectors/v3.json");
const ACTIONS: &str = include_str!("../../vectors/actions.json");
const BOUND: &str = include_str!("../../vectors/bound.json");

#[test]
fn every_case_of_every_version_gets_its_verdict() {
    judge_every_case(V1, &Action::BUILT_IN, 348);
    judge_every_case(V2, &Action::BUILT_IN, 340);
    judge_every_case(V3, &Action::BUILT_IN, 284);
    judge_every_case(ACTIONS, &KNOWN, 408);
    judge_every_case(BOUND, &KNOWN, 681);
}

#[test]
fn verifier_and_oracle_agree_on_every_token_with_and_without_its_code() {
    for case in [V1, V2, V3, ACTIONS, BOUND].into_iter().flat_map(|file| {
        serde_json::from_str::<Vectors>(file)
            .unwrap()
            .groups
            .into_iter()
            .flat_map(|group| group.tests)
    }) {
        token(case.token.as_bytes());
        for typed in [case.code, case.nonce] {
            token(format!("{} {}", case.token, typed.unwrap_or_default()).as_bytes());
        }
    }
}
