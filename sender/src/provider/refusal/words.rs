//! What is read in the text of a refusal.

use std::fmt::Write as _;

/// The longest signature, in bytes.
const MAX_SIGNATURE: usize = 200;

/// The most bytes that stand for a `*` in a pattern.
const MAX_GAP: usize = 60;

/// The text in lower case, with single spaces and without addresses: what a stranger chose as his
/// address must not decide whose fault a refusal is.
pub(super) fn simplify(text: &str, recipient: &str) -> String {
    let mut text = without_brackets(&text.to_lowercase());
    let recipient = recipient.to_lowercase();
    if let Some((user, domain)) = recipient.rsplit_once('@') {
        let user = user.trim_matches('"');
        text = text.replace(&recipient, "<>");
        // A name of several words could be any sentence.
        if user.contains(|character: char| !character.is_alphanumeric()) || user.len() > 12 {
            text = text.replace(user, "<>");
        }
        text = text.replace(domain, "<>");
    }
    let mut simple = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let word = if word.contains('@') || word.contains("://") { "<>" } else { word };
        if !simple.is_empty() {
            simple.push(' ');
        }
        simple.push_str(word);
    }
    simple
}

/// The text with `<>` for all that is in angle brackets.
fn without_brackets(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, (_, after))) =
        rest.split_once('<').and_then(|(before, rest)| Some((before, rest.split_once('>')?)))
    {
        kept.push_str(before);
        kept.push_str("<>");
        rest = after;
    }
    kept + rest
}

/// Whether the text has a pattern: parts in this order, with up to `MAX_GAP` bytes of anything
/// where a `*` is. A blank at the pattern's end fits the text's end, too.
pub(super) fn has(text: &str, pattern: &str) -> bool {
    let (first, parts) = pattern.split_once('*').map_or((pattern, None), |(a, b)| (a, Some(b)));
    if parts.is_none() && first.strip_suffix(' ').is_some_and(|first| text.ends_with(first)) {
        return true;
    }
    text.match_indices(first).any(|(at, part)| {
        let rest = &text[at + part.len()..];
        parts.is_none_or(|parts| {
            let begin = parts.split('*').next().unwrap_or_default();
            let near = rest.find(begin).is_some_and(|gap| gap <= MAX_GAP);
            near && has(rest, parts)
        })
    })
}

/// Whether a text names our own address or its domain, and not the recipient's address.
pub(super) fn names_us(text: &str, sender: &str, recipient: &str) -> bool {
    let (text, sender) = (text.to_lowercase(), sender.to_lowercase());
    let recipient = recipient.to_lowercase();
    if text.contains(&recipient) {
        return false;
    }
    let Some((_, domain)) = sender.rsplit_once('@') else { return false };
    let is_part = |character: char| character.is_alphanumeric() || matches!(character, '.' | '-');
    let mut words = text.split(|character| !is_part(character));
    let is_theirs = recipient.rsplit_once('@').is_some_and(|(_, theirs)| theirs == domain);
    text.contains(&sender) || (!is_theirs && words.any(|word| word.trim_matches('.') == domain))
}

/// Class, subject and detail of the enhanced code (RFC 3463) in a text: at its beginning or after
/// `#` or `(`, as qmail and others write it.
pub(super) fn enhanced_code(text: &str) -> Option<(u16, u16, u16)> {
    let mut words = text.split_whitespace();
    let first = words.next().and_then(parse);
    first.or_else(|| {
        words
            .take(40)
            .find_map(|word| parse(word.strip_prefix('(').unwrap_or(word).strip_prefix('#')?))
    })
}

fn parse(word: &str) -> Option<(u16, u16, u16)> {
    let word = word.trim_start_matches(['#', '(', '[', '<']);
    let end = word.find(|character: char| !character.is_ascii_digit() && character != '.');
    let mut numbers = word[..end.unwrap_or(word.len())].trim_end_matches('.').split('.');
    let number = |part: Option<&str>| part.filter(|part| part.len() <= 3)?.parse().ok();
    let class = number(numbers.next()).filter(|class| matches!(class, 2 | 4 | 5))?;
    let subject = number(numbers.next())?;
    let detail = number(numbers.next())?;
    numbers.next().is_none().then_some((class, subject, detail))
}

/// Whether an enhanced code is one of a pattern: `x.1.1`, `x.7.500–x.7.599`, `x.2.*`.
pub(super) fn is_enhanced(pattern: &str, (subject, detail): (u16, u16)) -> bool {
    let read = |text: &str| -> Option<(u16, Option<u16>)> {
        let (first, last) = text.strip_prefix("x.")?.split_once('.')?;
        Some((first.parse().ok()?, last.parse().ok()))
    };
    let (from, to) = pattern.split_once('–').unwrap_or((pattern, pattern));
    let (Some((first, low)), Some((_, high))) = (read(from), read(to)) else { return false };
    let range = low.unwrap_or(0)..=high.unwrap_or(u16::MAX);
    subject == first && range.contains(&detail)
}

/// What makes refusals alike: code and text, without addresses, numbers, ids and links.
pub(crate) fn signature(reason: &str, recipient: &str) -> String {
    let mut signature = String::new();
    for (index, word) in simplify(reason, recipient).split(' ').enumerate() {
        let is_code = index == 0 || parse(word).is_some();
        let is_id = word.contains("<>")
            || word.chars().any(|character| character.is_ascii_digit())
            || word.len() > 24;
        let word = if is_id && !is_code { "#" } else { word };
        if signature.len() + word.len() > MAX_SIGNATURE {
            break;
        }
        write!(signature, "{word} ").expect("a string takes all that is written");
    }
    signature
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_nothing() {
        for (text, recipient, expected) in [
            ("550 <Ada@X.test>: No  such user", "ada@x.test", "550 <>: no such user"),
            ("Ada@X.test... User unknown", "bob@y.test", "<> user unknown"),
            ("550 no relay-access-denied here", "relay-access-denied@x.test", "550 no <> here"),
            ("550 \"relay access denied\"@x.test", "\"relay access denied\"@x.test", "550 <>"),
            ("550 relay access denied at x.test", "\"relay access denied\"@x.test", "550 <> at <>"),
            ("see https://x.test/relay", "ada@y.test", "see <>"),
        ] {
            assert_eq!(simplify(text, recipient), expected);
        }
    }

    #[test]
    fn an_enhanced_code_is_found_where_servers_write_it() {
        for (text, expected) in [
            ("5.1.1 no such user", Some((5, 1, 1))),
            ("5.7.509: Access denied", Some((5, 7, 509))),
            ("#5.1.0 Address rejected.", Some((5, 1, 0))),
            ("sorry, no mailbox here by that name. (#5.1.1)", Some((5, 1, 1))),
            ("4.2.1 busy", Some((4, 2, 1))),
            ("no such user", None),
            ("client 5.1.1.7 is blocked", None),
            ("5.1.1.7 is blocked", None),
            ("version 5.1.1", None),
            ("5.1", None),
            ("", None),
        ] {
            assert_eq!(enhanced_code(text), expected, "{text}");
        }
    }

    #[test]
    fn patterns_of_codes_and_texts() {
        for (pattern, code, fits) in [
            ("x.1.1", (1, 1), true),
            ("x.1.1", (1, 10), false),
            ("x.2.*", (2, 252), true),
            ("x.7.500–x.7.599", (7, 511), true),
            ("x.7.500–x.7.599", (7, 600), false),
            ("none", (1, 1), false),
        ] {
            assert_eq!(is_enhanced(pattern, code), fits, "{pattern}");
        }
        assert!(has("client host 1.2.3.4 blocked using x", "client host*blocked"));
        assert!(
            !has("blocked client host", "client host*blocked") && has("a", "a") && !has("", "a")
        );
        assert!(has("is in an rbl", "rbl ") && !has("rbls", "rbl "));
        assert!(has("user x user ada does not exist", "user*does not exist"));
        let far = format!("user {} does not exist", "x".repeat(MAX_GAP));
        assert!(!has(&far, "user*does not exist"));
    }

    #[test]
    fn our_address_and_its_domain_are_named_where_the_recipients_address_is_not() {
        for (text, recipient, is_named) in [
            ("<Us@Shop.test>: unknown", "ada@x.test", true),
            ("domain shop.test. not found", "ada@x.test", true),
            ("<us@shop.test>: no mail to ADA@x.test", "ada@x.test", false),
            ("mx.shop.test: unknown", "ada@x.test", false),
            ("no such user at shop.test", "ada@shop.test", false),
            ("<us@shop.test>: unknown", "us@shop.test", false),
            ("unknown", "ada@x.test", false),
        ] {
            assert_eq!(names_us(text, "us@shop.test", recipient), is_named, "{text}");
        }
        assert!(!names_us("unknown", "", "ada@x.test"));
    }

    #[test]
    fn refusals_are_alike_but_for_addresses_numbers_and_ids() {
        let of = |text: &str, recipient: &str| signature(text, recipient);
        assert_eq!(
            of("554 5.7.1 <ada@x.test>: no, 123 at 10.0.0.1 (AB12CD)", "ada@x.test"),
            of("554 5.7.1 <bob@y.test>: no, 99 at 10.0.0.2 (XY34Z9)", "bob@y.test"),
        );
        assert_ne!(of("554 5.7.1 no", "a@x.test"), of("554 5.7.0 no", "a@x.test"));
        assert_ne!(of("554 no", "a@x.test"), of("550 no", "a@x.test"));
        assert!(of(&"word ".repeat(1_000), "a@x.test").len() <= MAX_SIGNATURE + 1);
    }
}
