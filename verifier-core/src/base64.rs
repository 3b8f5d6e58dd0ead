//! Strict base64url without padding (RFC 4648 section 5): one string for each sequence of bytes.

use base64ct::{Base64UrlUnpadded, Encoding};

use crate::error::Malformed;

/// Decodes `text` into exactly `N` bytes.
///
/// # Errors
/// A length other than that of `N` bytes, a character outside the URL-safe alphabet (padding and white space included),
/// trailing bits that are not zero.
pub(crate) fn decode<const N: usize>(text: &[u8]) -> Result<[u8; N], Malformed> {
    let mut bytes = [0; N];
    match Base64UrlUnpadded::decode(text, &mut bytes) {
        Ok(decoded) if decoded.len() == N => Ok(bytes),
        Ok(_) | Err(base64ct::Error::InvalidLength) => Err(Malformed::Length { found: text.len() }),
        Err(base64ct::Error::InvalidEncoding) => Err(Malformed::Encoding),
    }
}

/// Encodes `bytes` into exactly `C` characters; `C` must be what they need.
pub(crate) fn encode<const C: usize>(bytes: &[u8]) -> [u8; C] {
    let mut text = [0; C];
    let encoded = Base64UrlUnpadded::encode(bytes, &mut text);
    debug_assert_eq!(encoded.map(str::len), Ok(C), "the caller's lengths do not agree");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn whatever_decodes_encodes_to_the_same_string(text in "[A-Za-z0-9_-]{86}") {
            if let Ok(bytes) = decode::<64>(text.as_bytes()) {
                prop_assert_eq!(&encode::<86>(&bytes)[..], text.as_bytes());
            }
        }

        #[test]
        fn whatever_is_encoded_decodes(bytes in prop::array::uniform32(any::<u8>())) {
            prop_assert_eq!(decode::<32>(&encode::<43>(&bytes)), Ok(bytes));
        }

        #[test]
        fn any_bytes_at_all_are_refused_or_decoded(text in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode::<64>(&text).is_err() || text.len() == 86);
        }
    }
}
