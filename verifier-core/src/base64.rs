//! Strict base64url without padding (RFC 4648 section 5): one string for each sequence of bytes.

use base64ct::{Base64UrlUnpadded, Encoding};

#[cfg(any(feature = "public", test))]
use crate::error::Malformed;

/// The value of each character; [`OUTSIDE`] for those outside the alphabet.
static VALUES: [u8; 256] = values();

const OUTSIDE: u8 = 0xff;

/// Decodes `text` into exactly `N` bytes.
///
/// By a table and not in constant time: the sender of a token or a public key knows its characters.
/// This takes half of the time of a verification, and a table is three times as fast. For secrets
/// there is [`decode_secret`].
///
/// # Errors
/// A length other than that of `N` bytes, a character outside the URL-safe alphabet (padding and
/// white space included), trailing bits that are not zero.
#[cfg(any(feature = "public", test))]
pub(crate) fn decode<const N: usize>(text: &[u8]) -> Result<[u8; N], Malformed> {
    if text.len() != (8 * N).div_ceil(6) {
        return Err(Malformed::Length { found: text.len() });
    }
    let mut bytes = [0; N];
    if fill(&mut bytes, text) { Ok(bytes) } else { Err(Malformed::Encoding) }
}

/// Decodes the text of a secret into exactly `N` bytes,
/// without a branch or a table that depends on its characters.
///
/// # Errors
/// Those of [`decode`].
#[cfg(any(feature = "public", test))]
pub(crate) fn decode_secret<const N: usize>(text: &[u8]) -> Result<[u8; N], Malformed> {
    if text.len() != (8 * N).div_ceil(6) {
        return Err(Malformed::Length { found: text.len() });
    }
    let mut bytes = [0; N];
    // Whether a text is a key at all is no secret.
    let is_spelled = Base64UrlUnpadded::decode(text, &mut bytes).is_ok();
    if is_spelled {
        return Ok(bytes);
    }
    crate::secret::wipe(&mut bytes);
    Err(Malformed::Encoding)
}

/// Fills `bytes` with what `text` spells, which is as long as they need. Returns whether that is
/// their one spelling.
// Not inlined: WebAssembly calls it for tokens and for keys.
#[inline(never)]
pub(crate) fn fill(bytes: &mut [u8], text: &[u8]) -> bool {
    let value = |character: &u8| VALUES[usize::from(*character)];
    let (groups, rest) = text.as_chunks::<4>();
    let (triples, last) = bytes.as_chunks_mut::<3>();
    // All values or'ed together: no value of the alphabet has the bits
    // that `OUTSIDE` has beside theirs.
    let mut seen = 0;
    for (group, triple) in groups.iter().zip(triples) {
        let [a, b, c, d] = group.each_ref().map(value);
        seen |= a | b | c | d;
        *triple = [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d];
    }
    let trailing_bits = match (rest, last) {
        ([a, b], [first]) => {
            let [a, b] = [a, b].map(value);
            seen |= a | b;
            *first = a << 2 | b >> 4;
            b & 0b00_1111
        }
        ([a, b, c], [first, second]) => {
            let [a, b, c] = [a, b, c].map(value);
            seen |= a | b | c;
            (*first, *second) = (a << 2 | b >> 4, b << 4 | c >> 2);
            c & 0b00_0011
        }
        _ => 0,
    };
    seen < 64 && trailing_bits == 0
}

/// Encodes `bytes` into exactly `C` characters; `C` must be what they need.
pub(crate) fn encode<const C: usize>(bytes: &[u8]) -> [u8; C] {
    let mut text = [0; C];
    let encoded = Base64UrlUnpadded::encode(bytes, &mut text);
    debug_assert_eq!(encoded.map(str::len), Ok(C), "the caller's lengths do not agree");
    text
}

const fn values() -> [u8; 256] {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut values = [OUTSIDE; 256];
    let mut value = 0;
    while value < 64 {
        values[alphabet[value as usize] as usize] = value;
        value += 1;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the `base64ct` crate makes of a text of the right length.
    fn peer<const N: usize>(text: &[u8]) -> Result<[u8; N], Malformed> {
        let mut bytes = [0; N];
        match Base64UrlUnpadded::decode(text, &mut bytes) {
            Ok(_) => Ok(bytes),
            Err(_) => Err(Malformed::Encoding),
        }
    }

    #[test]
    fn the_vectors_of_rfc_4648_decode_in_the_unpadded_alphabet() {
        assert_eq!(decode::<1>(b"Zg"), Ok(*b"f"));
        assert_eq!(decode::<2>(b"Zm8"), Ok(*b"fo"));
        assert_eq!(decode::<3>(b"Zm9v"), Ok(*b"foo"));
        assert_eq!(decode::<6>(b"Zm9vYmFy"), Ok(*b"foobar"));
        assert_eq!(decode::<3>(b"-_-_"), Ok([0xfb, 0xff, 0xbf]));
    }

    #[test]
    fn of_all_two_character_strings_only_the_canonical_256_decode_to_one_byte() {
        let accepted = (0..=u8::MAX)
            .flat_map(|first| (0..=u8::MAX).map(move |second| [first, second]))
            .filter(|text| decode::<1>(text).is_ok())
            .count();
        assert_eq!(accepted, 256);
    }

    #[test]
    fn of_all_characters_at_every_place_only_one_decodes_to_the_same_bytes() {
        fn check<const N: usize, const C: usize>() {
            let bytes: [u8; N] =
                core::array::from_fn(|index| u8::try_from(index * 37 % 251).unwrap());
            let text: [u8; C] = encode(&bytes);
            for place in 0..C {
                for character in 0..=u8::MAX {
                    let mut altered = text;
                    altered[place] = character;
                    let decoded = decode::<N>(&altered);
                    assert_eq!(
                        decoded == Ok(bytes),
                        character == text[place],
                        "{character} at {place}"
                    );
                    assert_eq!(decoded, peer::<N>(&altered), "{character} at {place}");
                    assert_eq!(decoded, decode_secret::<N>(&altered), "{character} at {place}");
                }
            }
        }
        check::<32, 43>();
        check::<64, 86>();
        check::<78, 104>();
        check::<110, 147>();
    }

    proptest! {
        #[test]
        fn whatever_decodes_encodes_to_the_same_string(text in "[A-Za-z0-9_-]{86}") {
            if let Ok(bytes) = decode::<64>(text.as_bytes()) {
                prop_assert_eq!(&encode::<86>(&bytes)[..], text.as_bytes());
            }
        }

        #[test]
        fn a_text_of_the_right_length_is_judged_as_the_base64ct_crate_judges_it(
            one in prop::collection::vec(any::<u8>(), 86..=86),
            two in "[A-Za-z0-9_=-]{147}",
            three in "[A-Za-z0-9_-]{147}",
        ) {
            prop_assert_eq!(decode::<64>(&one), peer(&one));
            prop_assert_eq!(decode::<110>(two.as_bytes()), peer(two.as_bytes()));
            prop_assert_eq!(decode::<110>(three.as_bytes()), peer(three.as_bytes()));
        }

        #[test]
        fn whatever_is_encoded_decodes(bytes in prop::array::uniform32(any::<u8>())) {
            prop_assert_eq!(decode::<32>(&encode::<43>(&bytes)), Ok(bytes));
        }

        #[test]
        fn any_bytes_are_refused_or_decoded(text in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode::<64>(&text).is_err() || text.len() == 86);
        }
    }
}
