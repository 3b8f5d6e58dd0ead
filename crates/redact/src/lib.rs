//! Redacts text of a stranger, such as the answer of a mail server, so that it can be logged and
//! stored.

mod shapes;

use std::collections::HashSet;

pub use shapes::{looks_like_a_key, looks_like_a_token};

use shapes::{SHORTEST_SECRET, parts};

/// The longest text that is kept, in bytes.
const MAX_BYTES: usize = 500;

/// The longest part of a code such as 5.7.1.
const MAX_CODE: usize = 3;

/// The shortest piece that may be one of a token that somebody has split.
const SHORTEST_PIECE: usize = 8;

/// Replaces invisible characters with blanks, words that contain an address with `[address]` and
/// words that look like a token, or like the pieces of one, with `[secret]`; cuts after 500 bytes.
/// Mail servers repeat addresses in their answers, and logs are read by more people, and kept
/// longer, than addresses may be.
pub fn redact(text: &str) -> String {
    let redacted = redact_within(text, MAX_BYTES);
    if redacted.is_empty() { "no reason given".to_owned() } else { redacted }
}

/// Does the same and cuts after `longest` bytes. The result may be empty.
pub fn redact_within(text: &str, longest: usize) -> String {
    let pieces = pieces_of_tokens(text);
    cleaned(text, longest, |word| match word {
        _ if word.contains('@') || word.to_ascii_lowercase().contains("%40") => "[address]",
        _ if looks_like_a_token(word) || parts(word).any(|part| pieces.contains(part)) => {
            "[secret]"
        }
        _ => word,
    })
}

/// Replaces invisible characters with blanks and cuts after `longest` bytes. Redacts nothing.
pub fn visible_within(text: &str, longest: usize) -> String {
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

/// The parts that are as random as a token, and are together as long as most of one: a server may
/// break the link that it repeats into lines, or put blanks or commas in it.
fn pieces_of_tokens(text: &str) -> HashSet<&str> {
    // Codes that begin the lines of a reply stand between.
    let parts: Vec<_> = parts(text).filter(|part| part.len() > MAX_CODE).collect();
    let mut pieces = HashSet::new();
    for run in parts.chunk_by(|one, next| is_random(one) && is_random(next)) {
        if run.len() > 1 && run.iter().map(|part| part.len()).sum::<usize>() >= SHORTEST_SECRET {
            pieces.extend(run);
        }
    }
    pieces
}

/// Whether a part has capitals after small letters, and digits unless it is long.
fn is_random(part: &str) -> bool {
    let bytes = part.as_bytes();
    let has = |of: fn(&u8) -> bool| bytes.iter().any(of);
    let rises = bytes
        .windows(2)
        .filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        .count();
    let is_mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    part.len() >= SHORTEST_PIECE
        && is_mixed
        && (has(|byte| !byte.is_ascii_alphabetic()) || rises > 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_of_a_token_are_hidden_and_words_are_not() {
        let token = "Mv3kQ9rTbZ1yWc7LxE5hNd0aPf8sJgU2oVi6KqRmXtBnYwHuCzDlFjGpSeAkOvI4";
        for separator in [" ", ",", " 5.7.1 ", "\r\n", "=\r\n"] {
            for size in [10, 16, 25, 30] {
                let pieces: Vec<_> = token
                    .as_bytes()
                    .chunks(size)
                    .map(|piece| str::from_utf8(piece).unwrap())
                    .collect();
                let text = redact(&format!("550 5.7.1 URL {} is listed", pieces.join(separator)));
                assert!(text.starts_with("550 5.7.1 URL ") && text.ends_with(" is listed"));
                assert!(!pieces[..2].iter().any(|piece| text.contains(piece)), "{text}");
            }
        }
        for text in [
            "550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP lookup",
            "250 2.0.0 Ok: queued as 4Zr0xq2Jn2z1B",
            "550 recipient address rejected: access denied for everybody",
            "250 OK id=1tABcd-000000001xY-2abc",
        ] {
            assert_eq!(redact(text), text);
        }
    }
}
