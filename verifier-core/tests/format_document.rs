//! The worked example of docs/FORMAT.md is what this crate makes.

use mailroom_verifier_core::{Code, ConsumedId, Secret, SharedKey, v1};

#[test]
fn the_worked_example_holds() {
    let document = include_str!("../../docs/FORMAT.md");
    let bytes = |first: u8| core::array::from_fn(|index| first + u8::try_from(index).unwrap());
    let (key, secret) = (SharedKey::from(&bytes(0x00)), Secret::from(bytes(0x20)));

    let activation = v1::sign_activation(&key, &secret);
    let recovery = v1::sign_recovery(&key, &secret, &Code::parse("01234").unwrap());
    let id = format!("{:x}", base16ct::HexDisplay(ConsumedId::of(&secret).as_bytes()));

    assert!(document.contains(&format!("| activate | | `{activation}` |")), "{activation}");
    assert!(document.contains(&format!("| recover | `01234` | `{recovery}` |")), "{recovery}");
    assert!(document.contains(&format!("the id is `{id}`")), "{id}");
}
