//! A mail before it is encoded: addresses, a subject and two bodies,
//! each of a type that can hold nothing worse.

use std::fmt;
use std::time::SystemTime;

use lettre::Address;
use lettre::message::Mailbox;
use mailroom_mail::address::Parts;

use crate::key::Key;

/// A mail to one person.
#[derive(Debug)]
pub(crate) struct Mail {
    /// What the token is known by.
    pub(crate) key: Key,
    /// The sender.
    pub(crate) from: Mailbox,
    /// Where answers go.
    pub(crate) reply_to: Option<Mailbox>,
    /// The recipient.
    pub(crate) to: Recipient,
    /// The subject.
    pub(crate) subject: HeaderText,
    /// The body without markup.
    pub(crate) text: String,
    /// The body in HTML.
    pub(crate) html: String,
    /// When the mail was made.
    pub(crate) date: SystemTime,
}

/// Exactly one address, whose domain is ASCII.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Recipient(Address);

impl Recipient {
    /// Reads an address; a domain in Unicode becomes its ASCII form, which every server takes.
    ///
    /// # Errors
    /// Why no mail can be sent to it, without the address.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let parts = Parts::parse(text)?;
        // Not checked again: `Address::new` refuses marks and symbols before the @, without which
        // nobody writes a name in Hindi or Thai.
        Ok(Self(Address::new_dangerous(parts.quoted_local(), parts.domain)))
    }

    /// The address.
    pub(crate) fn address(&self) -> &Address {
        &self.0
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recipient(…)")
    }
}

fn is_separator(character: char) -> bool {
    matches!(character, '\u{2028}' | '\u{2029}')
}

/// Text of a header: one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderText(String);

impl HeaderText {
    /// Takes a line. White space around it, such as the end of a template's last line, is left out.
    ///
    /// # Errors
    /// A control character or line separator in it, or nothing at all.
    pub(crate) fn new(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.is_empty() {
            return Err("the subject is empty");
        }
        if text.chars().any(|character| character.is_control() || is_separator(character)) {
            return Err("the subject has more than one line or a control character");
        }
        Ok(Self(text.to_owned()))
    }

    /// The line.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_exactly_one_and_its_domain_becomes_ascii() {
        let long = format!("{}@{}.test", "a".repeat(64), vec!["b".repeat(61); 3].join("."));
        assert_eq!(long.len(), 255);
        for (text, expected) in [
            ("ada@x.test", "ada@x.test"),
            ("o'neill+tag@x.test", "o'neill+tag@x.test"),
            ("foo..bar@x.test", "\"foo..bar\"@x.test"),
            ("foo.@x.test", "\"foo.\"@x.test"),
            (".foo@x.test", "\".foo\"@x.test"),
            ("ada@localhost", "ada@localhost"),
            ("ada@a_b.test", "ada@a_b.test"),
            ("ada@1.2.3.4", "ada@1.2.3.4"),
            ("a!b%c@x.test", "a!b%c@x.test"),
            ("ada@b\u{fc}cher.test", "ada@xn--bcher-kva.test"),
            // Letters with marks, and a symbol.
            (
                "\u{938}\u{902}\u{92a}\u{930}\u{94d}\u{915}@x.test",
                "\u{938}\u{902}\u{92a}\u{930}\u{94d}\u{915}@x.test",
            ),
            ("ada\u{1f4a9}@x.test", "ada\u{1f4a9}@x.test"),
            ("\u{915}..\u{94d}@x.test", "\"\u{915}..\u{94d}\"@x.test"),
            ("ada@\u{92d}\u{93e}\u{930}\u{924}.test", "ada@xn--h2brj9c.test"),
            (&long[1..], &long[1..]),
        ] {
            assert_eq!(Recipient::parse(text).unwrap().address().to_string(), expected);
        }
        for text in [
            "",
            "@",
            "ada",
            "@x.test",
            "ada@",
            &long,
            "two@x.test, victim@x.test",
            "a@x.test\r\nBcc: victim@x.test",
            "a\r\nRCPT TO:<victim@x.test>@x.test",
            "\"a\r\nb\"@x.test",
            "\"a\\\nb\"@x.test",
            "<ada@x.test>",
            "Ada <ada@x.test>",
            "a b@x.test",
            "a>@x.test",
            "ada@x.test>",
            "ada@x test",
            "ada@x.test\u{2028}",
            "ada\0@x.test",
            "ada@-\u{fc}.test",
            "ada@-x.test",
            "ada@x-.test",
            "ada@x..test",
            "ada@x.test.",
            "ada@xn--\u{fc}.test",
            "ada@[192.0.2.1]",
            "\"a b\"@x.test",
            "\"ada\"@x.test",
            "a@b@x.test",
        ] {
            assert!(Recipient::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_text_of_a_header_is_one_line() {
        assert_eq!(HeaderText::new(" Ada's \u{fc}\n").unwrap().as_str(), "Ada's \u{fc}");
        for text in
            ["", " \n", "a\r\nBcc: b@x.test", "a\rb", "a\nb", "a\0b", "a\u{85}b", "a\u{2028}b"]
        {
            assert!(HeaderText::new(text).is_err(), "{text:?}");
        }
    }
}
