//! The worked examples of docs/FORMAT.md are what this crate makes.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its example fails")]

use mailroom_verifier_core::{
    Action, Code, ConsumedId, Expiry, Grant, PrivateKey, Secret, SharedKey, SignedToken, Signer,
};

const DOCUMENT: &str = include_str!("../../docs/FORMAT.md");

fn bytes(first: u8) -> [u8; 32] {
    core::array::from_fn(|index| first + u8::try_from(index).unwrap())
}

fn sign(signer: &Signer, action: Action, code: Option<&Code>) -> SignedToken {
    let secret = Secret::from(bytes(0x20));
    let expires_at = Expiry::from_seconds(1_800_000_900).unwrap();
    signer.sign(Grant { secret: &secret, action, code, expires_at, binding: None }).unwrap()
}

fn assert_documented(line: &str) {
    assert!(DOCUMENT.lines().any(|documented| documented == line), "docs/FORMAT.md has no line {line}");
}

#[test]
fn the_worked_examples_hold() {
    let code = Code::parse("01234").unwrap();
    for signer in [Signer::V1(SharedKey::from(&bytes(0))), Signer::V2(SharedKey::from(&bytes(0)))] {
        assert_documented(&format!("| activate | | `{}` |", sign(&signer, Action::Activate, None)));
        assert_documented(&format!(
            "| recover | `01234` | `{}` |",
            sign(&signer, Action::Recover, Some(&code))
        ));
    }
    let signer = Signer::V3(PrivateKey::from_seed(&bytes(0)));
    assert_documented(&format!("| activate | `{}` |", sign(&signer, Action::Activate, None)));
    assert_documented(&format!("| recover | `{}` |", sign(&signer, Action::Recover, Some(&code))));
}

#[test]
fn the_worked_consumed_id_holds() {
    let id = ConsumedId::of(&Secret::from(bytes(0x20)));
    assert!(DOCUMENT.contains(&format!("the id is `{:x}`", base16ct::HexDisplay(id.as_bytes()))));
}
