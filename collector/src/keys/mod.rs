//! The keys that sign and verify: their kinds, and which of them signs which format.

mod source;

use mailroom_verifier_core::{
    InvalidKey, KeyRing, PrivateKey, PublicKey, SharedKey, Signer, VerifyingKey, Version,
};

pub use source::{KeyError, KeySource, Use};

/// A key of any kind (FORMAT.md, "Keys").
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a process has a handful of keys")]
pub enum Key {
    /// Signs and verifies v1 and v2.
    Shared(SharedKey),
    /// Signs v3.
    Private(PrivateKey),
    /// Verifies v3.
    Public(PublicKey),
}

impl Key {
    /// Reads any text form of a key; what it begins with tells its kind.
    ///
    /// # Errors
    /// A text that is no key. What was given is not shown.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidKey> {
        if text.starts_with(b"mrsk_") {
            PrivateKey::parse(text).map(Self::Private)
        } else if text.starts_with(b"mrpk_") {
            PublicKey::parse(text).map(Self::Public)
        } else {
            SharedKey::from_hex(text).map(Self::Shared)
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Shared(_) => "a shared key",
            Self::Private(_) => "a private key",
            Self::Public(_) => "a public key",
        }
    }

    /// Whether whoever has it can sign.
    const fn is_secret(&self) -> bool {
        !matches!(self, Self::Public(_))
    }

    /// What verifies the tokens of this key.
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
    first: Key,
    others: Vec<Key>,
    /// Where the first key is written, for those who have to change it.
    origin: String,
}

impl Keys {
    /// How many there are.
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// The first key, as the signer of a format.
    ///
    /// # Errors
    /// It is of a kind that does not sign this format.
    pub fn signer(&self, format: Version) -> Result<Signer, KeyError> {
        match (format, &self.first) {
            (Version::V1, Key::Shared(key)) => Ok(Signer::V1(key.clone())),
            (Version::V2, Key::Shared(key)) => Ok(Signer::V2(key.clone())),
            (Version::V3, Key::Private(key)) => Ok(Signer::V3(key.clone())),
            (_, key) => {
                Err(KeyError::Kind { origin: self.origin.clone(), kind: key.kind(), format: Wanted(format) })
            }
        }
    }

    /// The keys of which one must have signed what is to be verified.
    pub fn ring(&self) -> KeyRing<Vec<VerifyingKey>> {
        ring_of([&self.first].into_iter().chain(&self.others))
    }
}

fn ring_of<'k>(keys: impl Iterator<Item = &'k Key>) -> KeyRing<Vec<VerifyingKey>> {
    KeyRing::new(keys.map(Key::verifying).collect()).expect("every process with keys has a first one")
}

/// What a format is signed with, in words.
#[derive(Clone, Copy, Debug)]
pub struct Wanted(Version);

impl std::fmt::Display for Wanted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = match self.0 {
            Version::V3 => "a private key, `mrsk_…`",
            _ => "a shared key of 64 hexadecimal characters",
        };
        write!(formatter, "{} is signed with {key}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: &str = "f0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";
    const PRIVATE: &str = "mrsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    const PUBLIC: &str = "mrpk_A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg";

    fn keys(texts: &[&str]) -> Keys {
        let mut keys = texts.iter().map(|text| Key::parse(text.as_bytes()).unwrap());
        Keys { first: keys.next().unwrap(), others: keys.collect(), origin: "HERE".to_owned() }
    }

    #[test]
    fn the_kind_of_the_first_key_decides_which_formats_are_signed() {
        use Version::{V1, V2, V3};
        let signed = |first: &str| [V1, V2, V3].map(|format| keys(&[first, SHARED]).signer(format).is_ok());
        assert_eq!(signed(SHARED), [true, true, false]);
        assert_eq!(signed(PRIVATE), [false, false, true]);
        assert_eq!(signed(PUBLIC), [false, false, false]);
    }

    #[test]
    fn a_first_key_of_another_kind_is_named_and_not_shown() {
        for (first, format, sentence) in [
            (SHARED, Version::V3, "HERE is a shared key, but v3 is signed with a private key, `mrsk_…`"),
            (PUBLIC, Version::V3, "HERE is a public key, but v3 is signed with a private key, `mrsk_…`"),
            (
                PRIVATE,
                Version::V2,
                "HERE is a private key, but v2 is signed with a shared key of 64 hexadecimal characters",
            ),
        ] {
            assert_eq!(keys(&[first]).signer(format).unwrap_err().to_string(), sentence);
        }
    }

    #[test]
    fn a_private_key_verifies_by_its_public_one() {
        let shown = |text| format!("{:?}", keys(&[text]).ring().keys());
        assert_eq!(shown(PRIVATE), shown(PUBLIC));
    }
}
