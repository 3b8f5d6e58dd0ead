//! A finished token, as it goes into a link.

use core::fmt;

use crate::{base64, secret::wipe};

/// The number of characters of the longest token.
const LONGEST: usize = 168;

/// A token as it goes into a link: base64url without padding.
///
/// `Debug` shows none of it; `Display` and [`as_str`](Self::as_str) are the link itself, so keep
/// them out of logs. With the feature `zeroize` it is overwritten on drop.
#[derive(Clone)]
pub struct SignedToken {
    text: [u8; LONGEST],
    length: usize,
}

impl SignedToken {
    /// The token of these bytes, which have `C` characters. The bytes are overwritten.
    pub(crate) fn encode<const C: usize>(bytes: &mut [u8]) -> Self {
        const { assert!(C <= LONGEST, "no token is longer") };
        let mut text = [0; LONGEST];
        let mut encoded = base64::encode::<C>(bytes);
        text[..C].copy_from_slice(&encoded);
        wipe(&mut encoded);
        wipe(bytes);
        Self { text, length: C }
    }

    /// The characters.
    pub fn as_str(&self) -> &str {
        // The alphabet is ASCII; an empty token, which every verifier refuses, stands for a case
        // that cannot occur.
        self.text.get(..self.length).and_then(|text| str::from_utf8(text).ok()).unwrap_or_default()
    }
}

impl fmt::Display for SignedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SignedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignedToken(..)")
    }
}

#[cfg(feature = "zeroize")]
impl Drop for SignedToken {
    fn drop(&mut self) {
        wipe(&mut self.text);
    }
}

#[cfg(all(test, feature = "zeroize"))]
mod tests {
    use super::*;

    #[test]
    fn what_a_token_is_made_of_is_overwritten() {
        let mut bytes = [0x5a; 64];
        let token = SignedToken::encode::<86>(&mut bytes);
        assert_eq!(bytes, [0; 64]);
        assert_eq!(token.as_str().len(), 86);
        assert!(core::mem::needs_drop::<SignedToken>(), "and so is the token, when it is dropped");
    }
}
