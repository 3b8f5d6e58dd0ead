//! The worked examples of docs/reference/token-format.md are what this crate makes.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its example fails")]

use mailroom_verifier_core::{
    Action, Binding, Code, ConsumedId, Expiry, Grant, PrivateKey, Secret, SharedKey, SignedToken,
    Signer,
};

const DOCUMENT: &str = include_str!("../../docs/reference/token-format.md");

fn bytes(first: u8) -> [u8; 32] {
    core::array::from_fn(|index| first + u8::try_from(index).unwrap())
}

fn sign(signer: &Signer, action: Action, code: Option<&Code>) -> SignedToken {
    sign_for(signer, action, code, None)
}

fn sign_for(
    signer: &Signer,
    action: Action,
    code: Option<&Code>,
    binding: Option<&Binding>,
) -> SignedToken {
    let secret = Secret::from(bytes(0x20));
    let expires_at = Expiry::from_seconds(1_800_000_900).unwrap();
    signer.sign(Grant { secret: &secret, action, code, expires_at, binding }).unwrap()
}

fn assert_documented(line: &str) {
    assert!(
        DOCUMENT.lines().any(|documented| documented == line),
        "docs/reference/token-format.md has no line {line}"
    );
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
fn the_worked_examples_of_the_bound_form_hold() {
    const NONCE: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    let binding = Binding::of_nonce(NONCE).unwrap();
    let hexadecimal = format!("{:x}", base16ct::HexDisplay(binding.as_bytes()));
    // Prose wraps.
    let text = DOCUMENT.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!("the nonce `{NONCE}`, whose binding is `{hexadecimal}`")));
    let shared = Signer::V2(SharedKey::from(&bytes(0)));
    let code = Code::parse("01234").unwrap();
    for (signer, action, code, shown) in [
        (&shared, Action::Activate, None, ""),
        (&shared, Action::Recover, Some(&code), "`01234` "),
        (&Signer::V3(PrivateKey::from_seed(&bytes(0))), Action::Activate, None, ""),
    ] {
        let token = sign_for(signer, action, code, Some(&binding));
        let version = signer.version().number();
        assert_documented(&format!("| {version} | {action} | {shown}| `{token}` |"));
    }
}

#[test]
fn the_worked_consumed_id_holds() {
    let id = ConsumedId::of(&Secret::from(bytes(0x20)));
    assert!(DOCUMENT.contains(&format!("the id is `{:x}`", base16ct::HexDisplay(id.as_bytes()))));
}
