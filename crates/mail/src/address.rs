//! Addresses that mail can be sent to, and the one form of each: the rules of `mailroom.is_address`
//! and `mailroom.normal_address`.
//!
//! Who encodes a domain maps its characters before (UTS 46): capitals and full-width letters are
//! replaced, invisible characters left out. What is compared must be what is addressed, or another
//! spelling of a suppressed address is mailed. So an address has only characters that are mapped to
//! themselves, and capitals.

use icu_normalizer::uts46::Uts46MapperBorrowed;

/// The longest address, in bytes (RFC 5321, 4.5.3.1.3, without the angle brackets).
const MAX_ADDRESS: usize = 254;

/// The longest local part, in bytes, with the quotes that it may need (RFC 5321, 4.5.3.1.1).
const MAX_LOCAL_PART: usize = 64;

/// The longest label of a domain, in bytes (RFC 1035).
const MAX_LABEL: usize = 63;

/// What a label in ASCII begins with that stands for one in Unicode (RFC 5890).
const ENCODED: &str = "xn--";

const NO_ADDRESS: &str = "its address is not one that mail can be sent to";
const IS_MAPPED: &str = "its address has characters that are replaced or left out when it is used, \
                         so that it may be another one's";

/// The parts of one address.
#[derive(Clone, PartialEq, Eq)]
pub struct Parts {
    /// As it was written, without quotes.
    pub local: String,
    /// In ASCII.
    pub domain: String,
}

impl Parts {
    /// Reads an address. A domain in Unicode becomes its ASCII form, which every server takes.
    ///
    /// # Errors
    /// Why no mail can be sent to it, without the address.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (local, domain) = text.split_once('@').ok_or(NO_ADDRESS)?;
        let folded = stable(local)?;
        let is_local =
            |character: char| !character.is_ascii() || is_atext(character) || character == '.';
        let quotes = if needs_quotes(local) { 2 } else { 0 };
        if text.len() > MAX_ADDRESS
            || local.is_empty()
            || !local.chars().all(is_local)
            || folded.len() + quotes > MAX_LOCAL_PART
        {
            return Err(NO_ADDRESS);
        }
        let encoded = stable(domain)?.split('.').map(label).collect::<Option<Vec<_>>>();
        let encoded = encoded.ok_or(NO_ADDRESS)?.join(".");
        if folded.len() + 1 + encoded.len() > MAX_ADDRESS {
            return Err(NO_ADDRESS);
        }
        let domain = if domain.is_ascii() { domain.to_owned() } else { encoded };
        Ok(Self { local: local.to_owned(), domain })
    }

    /// The local part as mails and SMTP write it: dots without letters between them need quotes.
    pub fn quoted_local(&self) -> String {
        if needs_quotes(&self.local) { format!("\"{}\"", self.local) } else { self.local.clone() }
    }
}

/// The form of the address that a mail for this one goes to; `None` if there can be no mail for it.
pub fn addressed(email: &str) -> Option<String> {
    let Parts { local, domain } = Parts::parse(email).ok()?;
    Some(format!("{}@{}", fold(&local), domain.to_ascii_lowercase()))
}

/// The domain of an address, in lower case; the whole text where there is none.
pub fn domain_of(address: &str) -> String {
    address.rsplit_once('@').map_or(address, |(_, domain)| domain).to_ascii_lowercase()
}

/// The form of an address by which suppressions are kept, whatever form a mail server reports: with
/// quotes around the local part, or with a domain in Unicode. `None` for what is no address.
pub fn normal_address(reported: &str) -> Option<String> {
    let (local, domain) = reported.rsplit_once('@')?;
    let unquoted =
        local.strip_prefix('"').and_then(|local| local.strip_suffix('"')).unwrap_or(local);
    addressed(&format!("{unquoted}@{domain}"))
        .or_else(|| addressed(&format!("{unquoted}@{}", idna::domain_to_ascii(domain).ok()?)))
}

/// A text in small letters, if nothing else about it changes when it is mapped.
fn stable(text: &str) -> Result<String, &'static str> {
    // Those that join others are allowed between some letters; they cannot be seen.
    const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];
    let folded = fold(text);
    if text.is_ascii() {
        return Ok(folded);
    }
    let is_same = Uts46MapperBorrowed::new().map_normalize(text.chars()).eq(folded.chars());
    if is_same && !folded.contains(JOINERS) && !folded.contains(char::REPLACEMENT_CHARACTER) {
        Ok(folded)
    } else {
        Err(IS_MAPPED)
    }
}

/// Letter by letter: the last sigma of a word is no other one.
fn fold(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

fn is_atext(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(character)
}

fn needs_quotes(local: &str) -> bool {
    local.starts_with('.') || local.ends_with('.') || local.contains("..")
}

/// A label in small letters as DNS has it.
fn label(text: &str) -> Option<String> {
    let is_plain = |character: char| {
        !character.is_ascii() || character.is_ascii_alphanumeric() || matches!(character, '-' | '_')
    };
    let is_label = !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.chars().all(is_plain);
    let encoded = if text.is_ascii() {
        text.to_owned()
    } else if text.starts_with(ENCODED) {
        return None;
    } else {
        format!("{ENCODED}{}", idna::punycode::encode_str(text)?)
    };
    (is_label && encoded.len() <= MAX_LABEL).then_some(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_address_is_refused_or_has_its_normal_form() {
        for (text, expected) in [
            ("Ada@X.test", "ada@x.test"),
            ("ada@b\u{fc}cher.test", "ada@xn--bcher-kva.test"),
            ("ada@B\u{dc}CHER.test", "ada@xn--bcher-kva.test"),
            ("ada@XN--BCHER-KVA.test", "ada@xn--bcher-kva.test"),
            ("ada@\u{1f4a9}.la", "ada@xn--ls8h.la"),
            ("J\u{d6}S@x.test", "j\u{f6}s@x.test"),
            ("foo..bar@x.test", "foo..bar@x.test"),
            ("\"foo..bar\"@x.test", "foo..bar@x.test"),
            ("\"ada\"@x.test", "ada@x.test"),
            // Only as reports have it.
            ("ada@\u{ff45}xample.org", "ada@example.org"),
        ] {
            assert_eq!(normal_address(text).as_deref(), Some(expected));
        }
        for text in [
            "ada@\u{ff45}xample.org",
            "ada@example.org\u{200b}",
            "ada@\u{ad}example.org",
            "ada@example\u{3002}org",
            "ada@e\u{200d}xample.org",
            "ada@bu\u{308}cher.test",
            "jo\u{308}s@x.test",
            "ada\u{200b}@x.test",
            "\u{202a}ada@x.test",
            "\u{ff41}da@x.test",
        ] {
            assert_eq!(Parts::parse(text).err(), Some(IS_MAPPED), "{text:?}");
        }
    }

    #[test]
    fn a_domain_in_ascii_stays_as_it_was_written() {
        let parts = Parts::parse("Ada@X.test").ok().unwrap();
        assert_eq!((parts.local.as_str(), parts.domain.as_str()), ("Ada", "X.test"));
    }

    #[test]
    fn parts_have_the_lengths_of_smtp_and_dns() {
        let (local, label) = ("a".repeat(64), "b".repeat(63));
        assert!(Parts::parse(&format!("{local}@{label}.test")).is_ok());
        for text in [
            format!("a{local}@x.test"),
            format!("a@b{label}.test"),
            // With its quotes.
            format!("{}..@x.test", &local[1..]),
            format!("{local}@{label}.{label}.{label}"),
            // Encoded it is longer.
            format!("a@{}.test", "\u{fc}".repeat(60)),
        ] {
            assert_eq!(Parts::parse(&text).err(), Some(NO_ADDRESS), "{text}");
        }
    }
}
