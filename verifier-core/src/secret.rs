//! The random bytes of a token's row.

use core::fmt;

use subtle::ConstantTimeEq;

/// Overwrites bytes with zeros, where the feature `zeroize` asks for it.
#[inline]
pub(crate) fn wipe(bytes: &mut [u8]) {
    #[cfg(feature = "zeroize")]
    zeroize::Zeroize::zeroize(bytes);
    #[cfg(not(feature = "zeroize"))]
    let _ = bytes;
}

/// The 32 random bytes that the database made for a link.
///
/// `Debug` shows none of them, and with the feature `zeroize` they are overwritten on drop:
/// together with a signature they are the link.
#[derive(Clone, Eq)]
pub struct Secret([u8; Self::LENGTH]);

impl Secret {
    /// The number of bytes.
    pub const LENGTH: usize = 32;

    /// The bytes as the row has them.
    pub const fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

impl From<[u8; Self::LENGTH]> for Secret {
    fn from(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }
}

impl TryFrom<&[u8]> for Secret {
    type Error = InvalidSecret;

    /// Takes the bytes of a database column.
    ///
    /// # Errors
    /// Any number of bytes other than 32.
    fn try_from(bytes: &[u8]) -> Result<Self, InvalidSecret> {
        bytes.try_into().map(Self).map_err(|_| InvalidSecret { found: bytes.len() })
    }
}

/// In constant time.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(feature = "zeroize")]
impl Drop for Secret {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}

/// A secret that is not 32 bytes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidSecret {
    /// The length that was given, in bytes.
    pub found: usize,
}

impl fmt::Display for InvalidSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a secret is 32 bytes long, not {}", self.found)
    }
}

impl core::error::Error for InvalidSecret {}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;

    #[test]
    fn a_secret_of_another_length_is_refused() {
        for length in [0, 31, 33, 64] {
            assert_eq!(Secret::try_from(&[1; 64][..length]), Err(InvalidSecret { found: length }));
        }
    }

    #[test]
    fn debug_output_hides_the_bytes() {
        assert_eq!(std::format!("{:?}", Secret::from([7; 32])), "Secret(..)");
    }
}
