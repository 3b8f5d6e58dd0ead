//! Redacts text of a sender, so that it can be logged and stored.

/// The longest text that is kept, in bytes.
const LONGEST: usize = 500;

/// A word with this many characters of a token's alphabet in a row is taken
/// for a token or a part of one.
const SHORTEST_SECRET: usize = 32;

/// Replaces invisible characters with blanks, words that contain an address with `[address]` and
/// words that look like a token with `[secret]`; cuts after 500 bytes. Mail servers repeat
/// addresses in their answers, and logs are read by more people, and kept longer,
/// than addresses may be.
pub(super) fn redact(text: &str) -> String {
    let redacted = redact_within(text, LONGEST);
    if redacted.is_empty() { "no reason given".to_owned() } else { redacted }
}

/// Does the same and cuts after `longest` bytes. The result may be empty.
pub(super) fn redact_within(text: &str, longest: usize) -> String {
    cleaned(text, longest, |word| match word {
        _ if word.contains('@') || word.to_ascii_lowercase().contains("%40") => "[address]",
        _ if looks_like_a_token(word) => "[secret]",
        _ => word,
    })
}

/// Replaces invisible characters with blanks and cuts after `longest` bytes. Redacts nothing.
pub(super) fn visible_within(text: &str, longest: usize) -> String {
    cleaned(text, longest, |word| word)
}

fn cleaned(text: &str, longest: usize, shown: impl Fn(&str) -> &str) -> String {
    let mut redacted = String::with_capacity(text.len().min(longest));
    let is_blank = |character: char| character.is_whitespace() || is_invisible(character);
    for word in text.split(is_blank).filter(|word| !word.is_empty()) {
        if !redacted.is_empty() {
            redacted.push(' ');
        }
        redacted.push_str(shown(word));
        if redacted.len() > longest {
            let end =
                (0..=longest - '…'.len_utf8()).rev().find(|end| redacted.is_char_boundary(*end));
            redacted.truncate(end.unwrap_or_default());
            redacted.push('…');
            break;
        }
    }
    redacted
}

/// Whether it is a control character, a separator, or hides or turns the text around it.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Whether there is a token in it, or most of one.
pub(crate) fn looks_like_a_token(text: &str) -> bool {
    let is_of_token =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    text.split(|character| !is_of_token(character)).any(|part| part.len() >= SHORTEST_SECRET)
}
