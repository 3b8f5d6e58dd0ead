//! The keys of v3: a private key that signs, and a public one that anybody may have.

use core::fmt;

use ed25519_dalek::{Signer, SigningKey};

#[cfg(feature = "compact")]
use crate::compact::Key;
#[cfg(not(feature = "compact"))]
use crate::dalek::Key;
use crate::{
    base64,
    bytes::{concat, field},
    header::KeyId,
    hmac::sha256,
    secret::wipe,
    shared_key::InvalidKey,
};

const PRIVATE_PREFIX: &str = "mrsk_";
const PUBLIC_PREFIX: &str = "mrpk_";

/// The number of characters of either text form: a prefix of five and 43 of base64url.
const CHARACTERS: usize = 48;

/// The number of bytes of a signature: R and S, each of 32 (RFC 8032).
pub(crate) const SIGNATURE: usize = 64;

/// Signs v3 tokens (token-format.md, "Keys"). `Debug` shows nothing of it.
#[derive(Clone)]
pub struct PrivateKey {
    key: SigningKey,
    public: PublicKey,
}

impl PrivateKey {
    /// The number of bytes of a seed.
    pub const LENGTH: usize = 32;

    /// The key of a seed of 32 random bytes (RFC 8032, section 5.1.5).
    pub fn from_seed(seed: &[u8; Self::LENGTH]) -> Self {
        let key = SigningKey::from_bytes(seed);
        let public = PublicKey::new(Key::of(&key));
        Self { key, public }
    }

    /// Reads `mrsk_` and the base64url of the seed, in constant time.
    ///
    /// # Errors
    /// Another prefix or number of characters, another spelling of the same bytes.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, InvalidKey> {
        let encoded = behind(PRIVATE_PREFIX, text.as_ref())?;
        let mut seed = base64::decode_secret(encoded).map_err(|_| InvalidKey::NotBase64)?;
        let key = Self::from_seed(&seed);
        wipe(&mut seed);
        Ok(key)
    }

    /// The key that verifies what this one signs.
    pub const fn public_key(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; SIGNATURE] {
        self.key.sign(message).to_bytes()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

/// Verifies v3 tokens (token-format.md, "Keys").
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: Key,
    id: KeyId,
}

impl PublicKey {
    /// The number of raw bytes.
    pub const LENGTH: usize = 32;

    fn new(key: Key) -> Self {
        const LABEL: &[u8] = b"mailroom/v3 key id\0";
        let named = concat::<{ LABEL.len() + Self::LENGTH }, 2>([LABEL, key.as_bytes()]);
        Self { key, id: field(&sha256::<1, _>(&named), 0) }
    }

    /// Reads the encoding of a point (RFC 8032, section 5.1.2).
    ///
    /// # Errors
    /// Bytes that encode no point, a second encoding of one, a point of small order.
    pub fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Self, InvalidKey> {
        Key::from_bytes(bytes).map(Self::new)
    }

    /// Reads `mrpk_` and the base64url of the raw bytes.
    ///
    /// # Errors
    /// Another prefix or number of characters, another spelling of the same bytes, and those of
    /// [`from_bytes`](Self::from_bytes).
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, InvalidKey> {
        let encoded = behind(PUBLIC_PREFIX, text.as_ref())?;
        Self::from_bytes(&base64::decode(encoded).map_err(|_| InvalidKey::NotBase64)?)
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        self.key.as_bytes()
    }

    /// The id that v3 tokens name this key by. Two keys may have the same id: then both are tried.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// Strict verification: S below the group order, R not of small order, and no cofactor.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; SIGNATURE]) -> bool {
        self.key.verifies(message, signature)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_key(f, PUBLIC_PREFIX, self.as_bytes())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// The text form of a seed, for the one place that prints it: where it is made.
pub struct PrivateKeyText<'a>(pub &'a [u8; PrivateKey::LENGTH]);

impl fmt::Display for PrivateKeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_key(f, PRIVATE_PREFIX, self.0)
    }
}

fn write_key(f: &mut fmt::Formatter<'_>, prefix: &str, bytes: &[u8; 32]) -> fmt::Result {
    let mut text: [u8; 43] = base64::encode(bytes);
    let written =
        f.write_str(prefix).and_then(|()| f.write_str(str::from_utf8(&text).unwrap_or_default()));
    wipe(&mut text);
    written
}

/// What follows the prefix of a key that is as long as one.
fn behind<'t>(prefix: &str, text: &'t [u8]) -> Result<&'t [u8], InvalidKey> {
    let encoded = text.strip_prefix(prefix.as_bytes()).ok_or(InvalidKey::Kind)?;
    if text.len() == CHARACTERS {
        Ok(encoded)
    } else {
        Err(InvalidKey::Ed25519Length { found: text.len() })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{format, string::ToString};

    const PRIVATE: &str = "mrsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    const PUBLIC: &str = "mrpk_A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg";

    #[test]
    fn the_texts_of_a_private_key_and_its_public_one_are_read_and_printed() {
        let private = PrivateKey::parse(PRIVATE).unwrap();
        let seed = core::array::from_fn(|index| u8::try_from(index).unwrap());
        assert_eq!(PrivateKeyText(&seed).to_string(), PRIVATE);
        assert_eq!(private.public_key(), PrivateKey::from_seed(&seed).public_key());
        assert_eq!(private.public_key().to_string(), PUBLIC);
        assert_eq!(PublicKey::parse(PUBLIC), Ok(private.public_key().clone()));
    }

    #[test]
    fn a_text_that_is_no_key_of_its_kind_is_refused() {
        let long = |text: &str| format!("{text}A");
        for (text, error) in [
            ("", InvalidKey::Kind),
            (PRIVATE, InvalidKey::Kind),
            (&PUBLIC[5..], InvalidKey::Kind),
            (&PUBLIC.to_ascii_uppercase(), InvalidKey::Kind),
            (&PUBLIC[..47], InvalidKey::Ed25519Length { found: 47 }),
            (&long(PUBLIC), InvalidKey::Ed25519Length { found: 49 }),
            (&PUBLIC.replace('_', "/").replacen('/', "_", 1), InvalidKey::NotBase64),
            (&format!("{}h", &PUBLIC[..47]), InvalidKey::NotBase64),
        ] {
            assert_eq!(PublicKey::parse(text).unwrap_err(), error, "{text:?}");
        }
        for (text, error) in [
            (PUBLIC, InvalidKey::Kind),
            (&PRIVATE[..47], InvalidKey::Ed25519Length { found: 47 }),
            (&format!("{}=", &PRIVATE[..47]), InvalidKey::NotBase64),
        ] {
            assert_eq!(PrivateKey::parse(text).unwrap_err(), error, "{text:?}");
        }
    }

    #[test]
    fn debug_output_hides_private_keys() {
        assert_eq!(format!("{:?}", PrivateKey::parse(PRIVATE)), "Ok(PrivateKey(..))");
        assert_eq!(format!("{:?}", PublicKey::parse(PUBLIC)), format!("Ok(PublicKey({PUBLIC}))"));
    }
}
