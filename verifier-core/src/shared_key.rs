//! The key that signer and verifiers of v1 and v2 share.

use core::fmt;

use crate::{
    bytes::field,
    header::KeyId,
    hmac::{MacKey, Message},
};

/// The 32-byte key that signs and verifies v1 and v2 (token-format.md, "Keys").
///
/// Loading it computes the midstates and the derived keys, so that a tag costs two compressions of
/// SHA-256, or three if the link is bound; a v2 code has a tag of its own. `Debug` shows nothing of
/// it, and with the feature `zeroize` it is overwritten on drop.
#[derive(Clone)]
pub struct SharedKey {
    /// Signs v1 with the key itself.
    v1: MacKey,
    /// Signs what a v2 link says. Derived, so that no v1 tag is ever a v2 tag.
    link: MacKey,
    /// Signs the code of a v2 recovery.
    code: MacKey,
    id: KeyId,
}

impl SharedKey {
    /// The number of raw bytes.
    pub const LENGTH: usize = 32;

    /// The number of bytes of [`to_prepared`](Self::to_prepared).
    pub const PREPARED_LENGTH: usize = 3 * MacKey::LENGTH + 4;

    /// Reads 64 hexadecimal characters of either case, in constant time.
    ///
    /// # Errors
    /// A key of Ed25519; another number of characters, white space included; a character that is
    /// not hexadecimal. No error shows what was given.
    pub fn from_hex(text: impl AsRef<[u8]>) -> Result<Self, InvalidKey> {
        let text = text.as_ref();
        if text.starts_with(b"mrsk_") || text.starts_with(b"mrpk_") {
            return Err(InvalidKey::Kind);
        }
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

    /// The id that v2 tokens name this key by. Two keys may have the same id: then both are tried.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// Everything derived from the key, for callers that keep it outside of Rust;
    /// as secret as the key itself.
    pub fn to_prepared(&self) -> [u8; Self::PREPARED_LENGTH] {
        let mut bytes = [0; Self::PREPARED_LENGTH];
        let (macs, id) = bytes.split_at_mut(3 * MacKey::LENGTH);
        for (bytes, mac) in
            macs.chunks_exact_mut(MacKey::LENGTH).zip([&self.v1, &self.link, &self.code])
        {
            bytes.copy_from_slice(&mac.to_bytes());
        }
        id.copy_from_slice(&self.id);
        bytes
    }

    /// The key whose [`to_prepared`](Self::to_prepared) is `bytes`.
    pub fn from_prepared(bytes: &[u8; Self::PREPARED_LENGTH]) -> Self {
        let mac = |place| MacKey::from_bytes(&field(bytes, place * MacKey::LENGTH));
        Self { v1: mac(0), link: mac(1), code: mac(2), id: field(bytes, 3 * MacKey::LENGTH) }
    }

    pub(crate) const fn v1(&self) -> &MacKey {
        &self.v1
    }

    pub(crate) const fn link(&self) -> &MacKey {
        &self.link
    }

    pub(crate) const fn code(&self) -> &MacKey {
        &self.code
    }
}

impl From<&[u8; Self::LENGTH]> for SharedKey {
    fn from(bytes: &[u8; Self::LENGTH]) -> Self {
        // HKDF-SHA-256 (RFC 5869) without salt. Nothing longer than one block is expanded, so each
        // output is one tag.
        let mut pseudorandom = MacKey::new(&[0; 32]).tag(Message::<1>::new(bytes).blocks());
        let extracted = MacKey::new(&pseudorandom);
        let mut link = extracted.tag(Message::<1>::new(b"mailroom/v2 link\x01").blocks());
        let mut code = extracted.tag(Message::<1>::new(b"mailroom/v2 code\x01").blocks());
        let id = field(&extracted.tag(Message::<1>::new(b"mailroom/v2 key id\x01").blocks()), 0);
        let key =
            Self { v1: MacKey::new(bytes), link: MacKey::new(&link), code: MacKey::new(&code), id };
        #[cfg(feature = "zeroize")]
        for secret in [&mut pseudorandom, &mut link, &mut code] {
            zeroize::Zeroize::zeroize(secret);
        }
        #[cfg(not(feature = "zeroize"))]
        let _ = (&mut pseudorandom, &mut link, &mut code);
        key
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey(..)")
    }
}

/// Why a text or its bytes are no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidKey {
    /// A key of another kind, or of none: its prefix tells.
    Kind,
    /// A shared key of other than 64 characters.
    Length {
        /// The length that was given, in bytes.
        found: usize,
    },
    /// A private or public key of other than 48 characters.
    Ed25519Length {
        /// The length that was given, in bytes, with the prefix.
        found: usize,
    },
    /// A shared key with a character outside `0-9a-fA-F`.
    NotHexadecimal,
    /// An Ed25519 key that is not base64url behind its prefix.
    NotBase64,
    /// Public bytes that are no point of the curve, or not its only encoding.
    NotAPoint,
    /// A public key of small order, for which anybody can make signatures.
    SmallOrder,
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind => f.write_str(
                "a private key begins with `mrsk_`, a public key with `mrpk_`, and a shared key is \
                 64 hexadecimal characters",
            ),
            Self::Length { found } => {
                write!(f, "a shared key is 64 hexadecimal characters, not {found}")
            }
            Self::Ed25519Length { found } => {
                write!(
                    f,
                    "an Ed25519 key has 48 characters, of which its prefix is five, not {found}"
                )
            }
            Self::NotHexadecimal => {
                f.write_str("a shared key consists of hexadecimal characters only")
            }
            Self::NotBase64 => {
                f.write_str("an Ed25519 key is base64url without padding behind its prefix")
            }
            Self::NotAPoint => {
                f.write_str("the public key is no point of the curve in its only encoding")
            }
            Self::SmallOrder => {
                f.write_str("the public key is of small order, so that anybody could sign for it")
            }
        }
    }
}

impl core::error::Error for InvalidKey {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use hkdf::Hkdf;
    use proptest::prelude::*;
    use sha2::Sha256;
    use std::format;

    const HEX: &str = "f0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";

    #[test]
    fn either_case_gives_the_same_key() {
        let lower = SharedKey::from_hex(HEX).unwrap();
        let upper = SharedKey::from_hex(HEX.to_ascii_uppercase()).unwrap();
        assert_eq!(lower.to_prepared(), upper.to_prepared());
    }

    #[test]
    fn a_text_that_is_no_key_is_refused() {
        for (text, error) in [
            ("", InvalidKey::Length { found: 0 }),
            (&HEX[1..], InvalidKey::Length { found: 63 }),
            (&format!("mrpk_{}", &HEX[..43]), InvalidKey::Kind),
            (&format!("mrsk_{}", &HEX[..59]), InvalidKey::Kind),
            (&format!("{HEX}0"), InvalidKey::Length { found: 65 }),
            (&format!("{HEX}\n"), InvalidKey::Length { found: 65 }),
            (&format!("{}g", &HEX[1..]), InvalidKey::NotHexadecimal),
            (&format!(" {}", &HEX[1..]), InvalidKey::NotHexadecimal),
            (&format!("é{}", &HEX[2..]), InvalidKey::NotHexadecimal),
        ] {
            assert_eq!(SharedKey::from_hex(text).unwrap_err(), error, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn the_derived_keys_are_those_of_the_hkdf_crate(bytes in any::<[u8; 32]>()) {
            let peer = Hkdf::<Sha256>::new(None, &bytes);
            let expand = |info: &str| {
                let mut output = [0; 32];
                peer.expand(info.as_bytes(), &mut output).unwrap();
                output
            };
            let key = SharedKey::from(&bytes);
            prop_assert_eq!(key.v1.to_bytes(), MacKey::new(&bytes).to_bytes());
            let prepared = |info: &str| MacKey::new(&expand(info)).to_bytes();
            prop_assert_eq!(key.link.to_bytes(), prepared("mailroom/v2 link"));
            prop_assert_eq!(key.code.to_bytes(), prepared("mailroom/v2 code"));
            prop_assert_eq!(&key.id()[..], &expand("mailroom/v2 key id")[..4]);
        }

        #[test]
        fn a_key_survives_its_prepared_bytes(bytes in any::<[u8; 32]>()) {
            let prepared = SharedKey::from(&bytes).to_prepared();
            prop_assert_eq!(SharedKey::from_prepared(&prepared).to_prepared(), prepared);
        }
    }
}
