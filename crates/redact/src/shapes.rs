//! Texts that look like keys and tokens, which nothing may show.

/// A word with this many characters of a token's alphabet in a row is taken
/// for a token or a part of one.
pub(super) const SHORTEST_SECRET: usize = 32;

/// Whether a text that should be something else may be a secret key, or most of one.
pub fn looks_like_a_key(text: &str) -> bool {
    let is_hexadecimal = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Digits alone are a number that is too large.
    text.contains("mrsk_") || is_hexadecimal && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Whether there is a token in it, or most of one.
pub fn looks_like_a_token(text: &str) -> bool {
    parts(text).any(|part| part.len() >= SHORTEST_SECRET)
}

/// The parts of a text that consist of a token's characters.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    let is_of_token =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    text.split(move |character| !is_of_token(character)).filter(|part| !part.is_empty())
}
