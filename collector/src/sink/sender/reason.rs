//! What a sender gives as a reason, made fit to be logged and stored.

/// The longest reason that is kept, in bytes.
const LONGEST: usize = 500;

/// A word of the alphabet of tokens that has this many characters is taken for one, or for a part of one.
const SHORTEST_SECRET: usize = 32;

/// Replaces control characters and what changes the direction of text by blanks, addresses and what looks like a token by
/// a word that says so, and cuts after 500 bytes.
///
/// Mail servers like to repeat the address in what they answer, and logs are read by more people and kept longer than
/// addresses may be.
pub(super) fn clean(reason: &str) -> String {
    let mut cleaned = String::with_capacity(reason.len().min(LONGEST));
    let blank = |character: char| character.is_whitespace() || is_invisible(character);
    for word in reason.split(blank).filter(|word| !word.is_empty()) {
        if !cleaned.is_empty() {
            cleaned.push(' ');
        }
        push_word(&mut cleaned, word);
        if cleaned.len() > LONGEST {
            break;
        }
    }
    if cleaned.len() > LONGEST {
        let end = (0..=LONGEST - '…'.len_utf8()).rev().find(|end| cleaned.is_char_boundary(*end));
        cleaned.truncate(end.unwrap_or_default());
        cleaned.push('…');
    }
    if cleaned.is_empty() { "no reason given".to_owned() } else { cleaned }
}

/// Control characters, separators, and the characters that hide or turn the text around them.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

fn push_word(cleaned: &mut String, word: &str) {
    let is_of_token = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    if word.contains('@') || word.to_ascii_lowercase().contains("%40") {
        cleaned.push_str("[address]");
    } else if word.split(|character| !is_of_token(character)).any(|part| part.len() >= SHORTEST_SECRET) {
        cleaned.push_str("[secret]");
    } else {
        cleaned.push_str(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_ordinary_reason_stays_as_it_is() {
        for reason in ["550 5.1.1 no such user", "Postfach voll; später wieder", "greylisted"] {
            assert_eq!(clean(reason), reason);
        }
        assert_eq!(clean("  a \t b\r\n"), "a b");
        assert_eq!(clean(" \n"), "no reason given");
    }

    #[test]
    fn control_characters_and_invisible_ones_are_gone() {
        assert_eq!(
            clean("a\nINFO forged\u{1b}[2Jb\0c\u{202e}d\u{9b}e\u{2028}f\u{feff}"),
            "a INFO forged [2Jb c d e f"
        );
    }

    #[test]
    fn addresses_and_tokens_are_not_kept() {
        assert_eq!(clean("550 <ada@example.test>: no such user"), "550 [address] no such user");
        assert_eq!(clean("ada%40example.test bounced"), "[address] bounced");
        let link = format!("https://example.test/activate?token={}", "aB3_-".repeat(8));
        assert_eq!(clean(&format!("opened {link}")), "opened [secret]");
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let cut = clean(&"ü ".repeat(1_000));
        assert!(cut.len() <= LONGEST && cut.ends_with('…') && cut.starts_with("ü ü "), "{cut}");
    }

    proptest! {
        #[test]
        fn whatever_is_kept_is_one_short_line(reason in any::<String>()) {
            let cleaned = clean(&reason);
            prop_assert!(!cleaned.is_empty() && cleaned.len() <= LONGEST);
            prop_assert!(!cleaned.chars().any(char::is_control));
            prop_assert!(!cleaned.contains('@'));
        }
    }
}
