//! The keys that sign and verify: their kinds, where they come from, and which of them signs which format.
//!
//! None is ever shown: errors name the variable, or the file and the line.

mod source;

use mailroom_verifier_core::{
    InvalidKey, KeyRing, PrivateKey, PublicKey, SharedKey, Signer, VerifyingKey, Version,
};

pub use source::{KeySource, KeyUse, Variables};

/// Why there are no keys, in a sentence that shows none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(String);

/// A key of any kind (FORMAT.md, "Keys").
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a process has a handful of keys")]
enum Key {
    /// Signs and verifies v1 and v2.
    Shared(SharedKey),
    /// Signs v3.
    Private(PrivateKey),
    /// Verifies v3.
    Public(PublicKey),
}

impl Key {
    /// Reads any text form of a key; its prefix decides the kind.
    fn parse(text: &[u8]) -> Result<Self, InvalidKey> {
        if text.starts_with(b"mrsk_") {
            PrivateKey::parse(text).map(Self::Private)
        } else if text.starts_with(b"mrpk_") {
            PublicKey::parse(text).map(Self::Public)
        } else {
            SharedKey::from_hex(text).map(Self::Shared)
        }
    }

    fn verifying(&self) -> VerifyingKey {
        match self {
            Self::Shared(key) => key.clone().into(),
            Self::Private(key) => key.public_key().clone().into(),
            Self::Public(key) => key.clone().into(),
        }
    }
}

/// The keys of a process: the first one signs, all of them verify.
#[derive(Clone, Debug)]
pub struct Keys {
    /// At least one.
    keys: Vec<Key>,
    /// Where the first key is written, for those who have to change it.
    origin: String,
}

impl Keys {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// The first key, as the signer of a format.
    ///
    /// # Errors
    /// It is of a kind that does not sign this format.
    pub fn signer(&self, format: Version) -> Result<Signer, KeyError> {
        let kind = match (format, &self.keys[0]) {
            (Version::V1, Key::Shared(key)) => return Ok(Signer::V1(key.clone())),
            (Version::V2, Key::Shared(key)) => return Ok(Signer::V2(key.clone())),
            (Version::V3, Key::Private(key)) => return Ok(Signer::V3(key.clone())),
            (_, Key::Shared(_)) => "shared",
            (_, Key::Private(_)) => "private",
            (_, Key::Public(_)) => "public",
        };
        let needed = match format {
            Version::V3 => "a private key, `mrsk_…`",
            _ => "a shared key of 64 hexadecimal characters",
        };
        Err(KeyError(format!("{} is a {kind} key, but {format} is signed with {needed}", self.origin)))
    }

    /// The keys of which one must have signed what is to be verified.
    #[allow(clippy::missing_panics_doc, reason = "there is at least one key")]
    pub fn ring(&self) -> KeyRing<Vec<VerifyingKey>> {
        let keys = self.keys.iter().map(Key::verifying).collect();
        KeyRing::new(keys).expect("there is at least one key")
    }
}

/// Whether a text that should be something else may be a secret key, or most of one.
pub(crate) fn looks_like_a_key(text: &str) -> bool {
    let is_hexadecimal = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Digits alone are a number that is too large.
    text.contains("mrsk_") || is_hexadecimal && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: &str = "f0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";
    const PRIVATE: &str = "mrsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    const PUBLIC: &str = "mrpk_A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg";

    fn keys(texts: &[&str]) -> Keys {
        let keys = texts.iter().map(|text| Key::parse(text.as_bytes()).unwrap()).collect();
        Keys { keys, origin: "HERE".to_owned() }
    }

    #[test]
    fn the_kind_of_the_first_key_decides_which_formats_are_signed() {
        use Version::{V1, V2, V3};
        const PRIVATE_KEY: &str = "a private key, `mrsk_…`";
        const SHARED_KEY: &str = "a shared key of 64 hexadecimal characters";
        for (first, kind, signed) in [
            (SHARED, "shared", [true, true, false]),
            (PRIVATE, "private", [false, false, true]),
            (PUBLIC, "public", [false, false, false]),
        ] {
            for (format, is_signed) in [V1, V2, V3].into_iter().zip(signed) {
                let needed = if format == V3 { PRIVATE_KEY } else { SHARED_KEY };
                let sentence = format!("HERE is a {kind} key, but {format} is signed with {needed}");
                let outcome = keys(&[first, SHARED]).signer(format).map(|signer| signer.version());
                assert_eq!(outcome, if is_signed { Ok(format) } else { Err(KeyError(sentence)) });
            }
        }
    }

    #[test]
    fn a_private_key_verifies_by_its_public_one() {
        let shown = |text| format!("{:?}", keys(&[text]).ring().keys());
        assert_eq!(shown(PRIVATE), shown(PUBLIC));
    }

    #[test]
    fn what_may_be_a_secret_key_is_recognised() {
        for key in [SHARED, &SHARED[..33], &SHARED.to_uppercase(), PRIVATE, " mrsk_AAEC"] {
            assert!(looks_like_a_key(key), "{key}");
        }
        for text in ["deadbeef", "mailroom_of_the_department_of_letters", &"1".repeat(64), PUBLIC] {
            assert!(!looks_like_a_key(text), "{text}");
        }
    }
}
