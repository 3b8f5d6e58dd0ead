//! The text forms of keys, codes and nonces.

use mailroom_verifier_core::{
    Binding, Code, InvalidCode, InvalidKey, PrivateKey, PrivateKeyText, PublicKey, SharedKey,
    VerifyingKey,
};

use crate::curve;
use crate::oracle::{Private, binding_of, decode};

/// Reads a shared key: 64 hexadecimal characters.
pub fn shared_key(text: &[u8]) {
    let expected = hexadecimal(text).map(|bytes| SharedKey::from(&bytes).to_prepared());
    assert_eq!(SharedKey::from_hex(text).map(|key| key.to_prepared()), expected);
    let Ok(VerifyingKey::Shared(key)) = VerifyingKey::parse(text) else {
        assert!(expected.is_err(), "a key that verifies is read in any of its forms");
        return;
    };
    assert_eq!(Ok(key.to_prepared()), expected);
}

fn hexadecimal(text: &[u8]) -> Result<[u8; 32], InvalidKey> {
    if matches!(text, [b'm', b'r', b's' | b'p', b'k', b'_', ..]) {
        return Err(InvalidKey::Kind);
    }
    let pairs = <[u8; 64]>::try_from(text).map_err(|_| InvalidKey::Length { found: text.len() })?;
    let digit =
        |character| char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(pairs.chunks(2)) {
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
            return Err(InvalidKey::NotHexadecimal);
        };
        *byte = high << 4 | low;
    }
    Ok(bytes)
}

/// Reads the value of a browser's cookie.
pub fn nonce(text: &[u8]) {
    assert_eq!(Binding::of_nonce(text).map(|binding| *binding.as_bytes()), binding_of(text));
}

/// Reads a private key: `mrsk_` and a seed.
pub fn private_key(text: &[u8]) {
    let expected = prefixed(text, *b"mrsk_");
    let key = PrivateKey::parse(text);
    assert_eq!(key.as_ref().map(|_| ()).map_err(|error| *error), expected.map(|_| ()));
    if let (Ok(key), Ok(seed)) = (key, expected) {
        assert_eq!(PrivateKeyText(&seed).to_string().as_bytes(), text);
        assert_eq!(key.public_key().as_bytes(), &Private::new(seed).public_key());
    }
}

/// Reads a public key: `mrpk_` and the encoding of a point.
pub fn public_key(text: &[u8]) {
    let bytes = prefixed(text, *b"mrpk_");
    let expected = bytes.and_then(|bytes| curve::judge(bytes).map(|()| bytes));
    let key = PublicKey::parse(text);
    assert_eq!(key.as_ref().map(|key| *key.as_bytes()).map_err(|error| *error), expected);
    if let Ok(key) = key {
        assert_eq!(key.to_string().as_bytes(), text);
        let any = VerifyingKey::parse(text);
        assert!(
            matches!(any, Ok(VerifyingKey::Public(read)) if read == key),
            "read in any of its forms"
        );
    }
}

fn prefixed(text: &[u8], prefix: [u8; 5]) -> Result<[u8; 32], InvalidKey> {
    match text.split_first_chunk() {
        Some((first, encoded)) if *first == prefix && encoded.len() == 43 => {
            let bytes = decode(encoded).ok_or(InvalidKey::NotBase64)?;
            Ok(bytes.try_into().expect("43 characters are 32 bytes"))
        }
        Some((first, _)) if *first == prefix => {
            Err(InvalidKey::Ed25519Length { found: text.len() })
        }
        _ => Err(InvalidKey::Kind),
    }
}

/// Takes 196 bytes that a caller kept of a key.
pub fn prepared_key(data: &[u8]) {
    if let Some(prepared) = data.first_chunk() {
        let key = SharedKey::from_prepared(prepared);
        assert_eq!(&key.to_prepared(), prepared);
        assert_eq!(key.id(), prepared[192..]);
    }
}

/// Reads what was typed as a code.
pub fn code(text: &[u8]) {
    let digits = (5..=8).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    match Code::parse(text) {
        Ok(code) => assert!(digits && code.as_bytes() == text, "{text:?}"),
        Err(InvalidCode) => assert!(!digits, "{text:?}"),
    }
}
