//! The browser that a link is bound to.

use core::fmt;

use subtle::ConstantTimeEq;

use crate::{
    base64,
    bytes::{concat, field},
    hmac::sha256,
    secret::wipe,
};

/// Names the browser that asked for a link (token-format.md, "Bound form"): what the database keeps
/// of the nonce in that browser's cookie, and what a bound link carries.
///
/// It is one way: whoever has it, or the link, does not have the nonce.
#[derive(Clone, Copy, Eq)]
pub struct Binding([u8; Self::LENGTH]);

impl Binding {
    /// The number of bytes.
    pub const LENGTH: usize = 16;

    /// The number of characters of a nonce.
    pub const NONCE_CHARACTERS: usize = 43;

    /// The binding of the browser whose cookie has this value, as it came. Returns `None` if the
    /// value is not a nonce: the base64url of 32 random bytes without padding.
    pub fn of_nonce(nonce: impl AsRef<[u8]>) -> Option<Self> {
        Self::of(nonce.as_ref())
    }

    fn of(nonce: &[u8]) -> Option<Self> {
        const LABEL: &[u8] = b"mailroom/browser\0";
        let nonce: &[u8; Self::NONCE_CHARACTERS] = nonce.try_into().ok()?;
        let mut random = [0; 32];
        let is_spelled = base64::fill(&mut random, nonce);
        wipe(&mut random);
        if !is_spelled {
            return None;
        }
        // The characters are hashed, not the bytes that they stand for.
        let named = concat::<{ LABEL.len() + Self::NONCE_CHARACTERS }, 2>([LABEL, nonce]);
        Some(Self(field(&sha256::<2, _>(&named), 0)))
    }

    /// The bytes that the database keeps.
    pub const fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

impl From<[u8; Self::LENGTH]> for Binding {
    /// The binding that a row of the database has. Any 16 bytes are one.
    fn from(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }
}

/// In constant time.
impl PartialEq for Binding {
    fn eq(&self, other: &Self) -> bool {
        // By words, because `subtle` hides each comparison from the optimiser.
        let words_of = |bytes: &[u8; Self::LENGTH]| -> [u64; 2] {
            let mut words = [0; 2];
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                *word = u64::from_ne_bytes(*bytes);
            }
            words
        };
        words_of(&self.0).ct_eq(&words_of(&other.0)).into()
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Binding(..)")
    }
}

/// In which browser a link was opened, as far as its binding tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Browser {
    /// The one that asked for the link.
    Same,
    /// Another browser, or one without a nonce. Only the code proves the person there.
    Other,
    /// The link is not bound, so it works in every browser.
    Unbound,
}

impl Browser {
    /// Where a link is opened that is `bound`, by the visitor's browser.
    // Not inlined: WebAssembly judges links and tokens.
    #[inline(never)]
    pub fn of(bound: Option<&Binding>, visitor: Option<&Binding>) -> Self {
        match (bound, visitor) {
            (None, _) => Self::Unbound,
            (Some(bound), Some(visitor)) if bound == visitor => Self::Same,
            (Some(_), _) => Self::Other,
        }
    }

    /// The name in every language: `same`, `other` or `unbound`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Other => "other",
            Self::Unbound => "unbound",
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use sha2::{Digest, Sha256};
    use std::{format, string::String, vec::Vec};

    const NONCE: &str = "fQU-LQos613Hcm3alseAB486Ma1qcSriU0Lhj1UvvuE";

    #[test]
    fn a_binding_is_what_the_digest_of_the_undecoded_nonce_begins_with() {
        let digest = Sha256::digest([b"mailroom/browser\0", NONCE.as_bytes()].concat());
        assert_eq!(
            Binding::of_nonce(NONCE).map(|binding| binding.0[..] == digest[..16]),
            Some(true)
        );
    }

    #[test]
    fn what_is_not_the_base64url_of_32_bytes_is_no_nonce() {
        let altered = |at: usize, to: char| -> String {
            NONCE
                .chars()
                .enumerate()
                .map(|(place, found)| if place == at { to } else { found })
                .collect()
        };
        let last = NONCE.len() - 1;
        for text in [
            String::new(),
            NONCE[..last].into(),
            format!("{NONCE}A"),
            format!("{NONCE}="),
            format!("{NONCE}, {NONCE}"),
            altered(0, '+'),
            altered(20, ' '),
            altered(20, '\0'),
            altered(last, '='),
            // Another spelling of the same 32 bytes.
            altered(last, 'F'),
            // As many bytes, and as many characters.
            format!("{}\u{fc}", &NONCE[..last - 1]),
            format!("{}\u{fc}", &NONCE[..last]),
            "A".repeat(1 << 20),
        ] {
            assert_eq!(Binding::of_nonce(&text), None, "{} bytes", text.len());
        }
        assert_eq!(Binding::of_nonce([0xff; 43]), None);
    }

    #[test]
    fn bindings_that_differ_in_one_bit_are_of_two_browsers() {
        let of = |bytes: [u8; 16]| Binding::from(bytes);
        let bytes = *Binding::of_nonce(NONCE).unwrap().as_bytes();
        let alike = |other| Browser::of(Some(&of(bytes)), Some(&of(other)));
        assert_eq!(alike(bytes), Browser::Same);
        for bit in 0..128 {
            let mut other = bytes;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(alike(other), Browser::Other, "bit {bit}");
        }
        assert_eq!(Browser::of(Some(&of(bytes)), None), Browser::Other);
        for visitor in [None, Some(of(bytes))] {
            assert_eq!(Browser::of(None, visitor.as_ref()), Browser::Unbound);
        }
    }

    #[test]
    fn debug_output_hides_what_names_a_browser() {
        let shown: Vec<_> =
            [NONCE].iter().map(|nonce| format!("{:?}", Binding::of_nonce(nonce))).collect();
        assert_eq!(shown, ["Some(Binding(..))"]);
    }
}
