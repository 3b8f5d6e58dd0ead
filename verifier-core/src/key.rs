//! The shared key, and the ring of keys that a verifier accepts.

use core::fmt;

use crate::hmac::MacKey;

/// The 32-byte key that signer and verifiers share (FORMAT.md, "Keys").
///
/// It is absorbed when it is loaded, so that a verification costs two compressions of SHA-256. `Debug` shows nothing of
/// it, and with the feature `zeroize` it is overwritten on drop.
#[derive(Clone)]
pub struct SharedKey {
    mac: MacKey,
}

impl SharedKey {
    /// The number of raw bytes.
    pub const LENGTH: usize = 32;

    /// Reads 64 hexadecimal characters of either case, in constant time.
    ///
    /// # Errors
    /// Another number of characters, white space included; a character that is not hexadecimal. Neither error shows
    /// what was given.
    pub fn from_hex(text: impl AsRef<[u8]>) -> Result<Self, InvalidKey> {
        let text = text.as_ref();
        if text.len() != 2 * Self::LENGTH {
            return Err(InvalidKey::Length { found: text.len() });
        }
        let mut bytes = [0; Self::LENGTH];
        let key = match base16ct::mixed::decode(text, &mut bytes) {
            Ok(_) => Ok(Self::from(&bytes)),
            Err(_) => Err(InvalidKey::NotHexadecimal),
        };
        #[cfg(feature = "zeroize")]
        zeroize::Zeroize::zeroize(&mut bytes);
        key
    }

    /// The key whose prepared state is `mac`, as [`mac`](Self::mac) gave it.
    pub const fn from_mac(mac: MacKey) -> Self {
        Self { mac }
    }

    /// The prepared state, which makes the tags of v1.
    pub const fn mac(&self) -> &MacKey {
        &self.mac
    }
}

impl From<&[u8; Self::LENGTH]> for SharedKey {
    fn from(bytes: &[u8; Self::LENGTH]) -> Self {
        Self { mac: MacKey::new(bytes) }
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey(..)")
    }
}

/// Why a text is no shared key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidKey {
    /// Not 64 characters.
    Length {
        /// The length that was given, in bytes.
        found: usize,
    },
    /// A character outside `0-9a-fA-F`.
    NotHexadecimal,
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found } => write!(f, "a shared key is 64 hexadecimal characters, not {found}"),
            Self::NotHexadecimal => f.write_str("a shared key consists of hexadecimal characters only"),
        }
    }
}

impl core::error::Error for InvalidKey {}

/// The keys that a verifier accepts: one current key, which also signs, and any number of others, which only verify.
///
/// `K` is whatever holds them: `[SharedKey; 1]`, a borrowed slice, a `Vec`. The first is the current one.
#[derive(Clone, Debug)]
pub struct KeyRing<K = [SharedKey; 1]> {
    keys: K,
}

impl KeyRing {
    /// A ring of one key.
    pub const fn of(key: SharedKey) -> Self {
        Self { keys: [key] }
    }
}

impl<K: AsRef<[SharedKey]>> KeyRing<K> {
    /// A ring of the current key and, behind it, the others: earlier and upcoming ones.
    ///
    /// # Errors
    /// [`NoKey`] for an empty sequence, which could verify nothing and sign nothing.
    pub fn new(keys: K) -> Result<Self, NoKey> {
        if keys.as_ref().is_empty() { Err(NoKey) } else { Ok(Self { keys }) }
    }

    /// Every key, the current one first.
    pub fn keys(&self) -> &[SharedKey] {
        self.keys.as_ref()
    }

    /// The key that signs.
    ///
    /// `None` only if `K` gives an empty slice now and did not when the ring was made.
    pub fn current(&self) -> Option<&SharedKey> {
        self.keys().first()
    }
}

/// A key ring without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoKey;

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key ring needs at least one key")
    }
}

impl core::error::Error for NoKey {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{format, vec::Vec};

    const HEX: &str = "f0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";

    #[test]
    fn either_case_gives_the_same_key() {
        let lower = SharedKey::from_hex(HEX).unwrap();
        let upper = SharedKey::from_hex(HEX.to_ascii_uppercase()).unwrap();
        assert_eq!(lower.mac().to_bytes(), upper.mac().to_bytes());
    }

    #[test]
    fn a_text_that_is_no_key_is_refused() {
        for (text, error) in [
            ("", InvalidKey::Length { found: 0 }),
            (&HEX[1..], InvalidKey::Length { found: 63 }),
            (&format!("{HEX}0"), InvalidKey::Length { found: 65 }),
            (&format!("{HEX}\n"), InvalidKey::Length { found: 65 }),
            (&format!("{}g", &HEX[1..]), InvalidKey::NotHexadecimal),
            (&format!(" {}", &HEX[1..]), InvalidKey::NotHexadecimal),
            (&format!("é{}", &HEX[2..]), InvalidKey::NotHexadecimal),
        ] {
            assert_eq!(SharedKey::from_hex(text).unwrap_err(), error, "{text:?}");
        }
    }

    #[test]
    fn a_ring_without_a_key_is_refused() {
        assert_eq!(KeyRing::new(Vec::new()).unwrap_err(), NoKey);
    }

    #[test]
    fn debug_output_hides_the_key() {
        let ring = KeyRing::of(SharedKey::from_hex(HEX).unwrap());
        assert_eq!(format!("{ring:?}"), "KeyRing { keys: [SharedKey(..)] }");
    }
}
