//! Which page an address means.

use crate::config::digits;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Queue,
    Story(About),
    Dead,
    Suppressed,
    Runs,
}

/// Whose story is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum About {
    Token(i64),
    Address(String),
}

impl Page {
    pub(super) fn at(path: &str) -> Option<Self> {
        Some(match path {
            "/" => Self::Queue,
            "/dead" => Self::Dead,
            "/suppressed" => Self::Suppressed,
            "/runs" => Self::Runs,
            _ => Self::Story(About::Token(id(path.strip_prefix("/tokens/")?)?)),
        })
    }
}

impl About {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_address = text.contains('@') && !text.contains(char::is_control);
        id(text).map(Self::Token).or_else(|| is_address.then(|| Self::Address(text.to_owned())))
    }
}

/// The id of a token, which is above 0 and has no leading zeros.
fn id(text: &str) -> Option<i64> {
    digits(text).filter(|id| *id > 0 && !text.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_pages_are_few_and_ids_have_one_spelling() {
        assert_eq!(Page::at("/"), Some(Page::Queue));
        assert_eq!(Page::at("/tokens/7"), Some(Page::Story(About::Token(7))));
        for none in ["", "//", "/tokens", "/tokens/", "/tokens/0", "/tokens/07", "/tokens/-1"] {
            assert_eq!(Page::at(none), None, "{none}");
        }
        for none in ["", "ada", "0", "07", "1e3", "-7", "a\0@b", "99999999999999999999"] {
            assert_eq!(About::parse(none), None, "{none}");
        }
        assert_eq!(About::parse(" 7 "), Some(About::Token(7)));
        let address = About::Address("ada@example.test".to_owned());
        assert_eq!(About::parse("ada@example.test\n"), Some(address));
    }
}
