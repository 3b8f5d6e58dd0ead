//! The parameters of MAIL and RCPT.

use std::fmt::Write as _;

use super::extensions::Extensions;

/// A mail as the server gets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letter<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    pub(super) content: &'a str,
}

impl Letter<'_> {
    /// Whether the server must know SMTPUTF8 (RFC 6531).
    pub(super) fn needs_utf8(&self) -> bool {
        !(self.from.is_ascii() && self.to.is_ascii())
    }

    /// Why a server cannot take this mail, although it takes others.
    pub(super) fn misfit(&self, offers: &Extensions) -> Option<Misfit> {
        if !is_writable(self.from) {
            return Some(Misfit::Sender("the sender's address cannot be written in SMTP"));
        }
        if !is_writable(self.to) {
            return Some(Misfit::Address("its address cannot be written in SMTP"));
        }
        if self.needs_utf8() && !offers.smtputf8 {
            return Some(Misfit::Utf8);
        }
        let size = self.content.len() as u64;
        let most = offers.size?;
        (size > most).then_some(Misfit::Size { size, most })
    }

    /// The command MAIL.
    pub(super) fn mail(&self, offers: &Extensions) -> String {
        let mut command = format!("MAIL FROM:<{}>", self.from);
        if offers.eight_bit && !self.content.is_ascii() {
            command.push_str(" BODY=8BITMIME");
        }
        if self.needs_utf8() {
            command.push_str(" SMTPUTF8");
        }
        if offers.dsn {
            // A notice needs no copy of the mail, which has a token in it.
            command.push_str(" RET=HDRS");
        }
        command
    }

    /// The command RCPT. A notice is asked for that repeats the address (RFC 3461), whatever the
    /// mail is passed on to.
    pub(super) fn rcpt(&self, offers: &Extensions) -> String {
        let mut command = format!("RCPT TO:<{}>", self.to);
        if offers.dsn {
            let (kind, address) = if self.to.is_ascii() {
                ("rfc822", xtext(self.to))
            } else {
                ("utf-8", utf8_xtext(self.to))
            };
            write!(command, " NOTIFY=FAILURE ORCPT={kind};{address}")
                .expect("a string takes all that is written");
        }
        command
    }
}

/// Why a mail cannot go to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// The recipient's address.
    Address(&'static str),
    /// Our own.
    Sender(&'static str),
    /// The server does not say that it takes addresses which are not ASCII.
    Utf8,
    Size {
        size: u64,
        most: u64,
    },
}

/// Whether an address can stand between angle brackets without ending them, the command or the
/// line.
fn is_writable(address: &str) -> bool {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for character in address.chars() {
        if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
            return false;
        }
        if is_escaped {
            is_escaped = false;
        } else if is_quoted {
            is_escaped = character == '\\';
            is_quoted = character != '"';
        } else if character == '"' {
            is_quoted = true;
        } else if character.is_whitespace() || matches!(character, '<' | '>' | '\\') {
            return false;
        }
    }
    !is_quoted && !is_escaped && address.contains('@')
}

/// `xtext` of RFC 3461, 4: hexadecimal digits after a plus sign for what is not printable, `+` and
/// `=`.
fn xtext(address: &str) -> String {
    let mut text = String::with_capacity(address.len());
    for byte in address.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'+' | b'=') {
            text.push(char::from(byte));
        } else {
            write!(text, "+{byte:02X}").expect("a string takes all that is written");
        }
    }
    text
}

/// `utf-8-addr-xtext` of RFC 6533, 3: all in ASCII.
fn utf8_xtext(address: &str) -> String {
    let mut text = String::with_capacity(address.len());
    for character in address.chars() {
        if character.is_ascii_graphic() && !matches!(character, '+' | '=' | '\\') {
            text.push(character);
        } else {
            write!(text, "\\x{{{:02X}}}", u32::from(character))
                .expect("a string takes all that is written");
        }
    }
    text
}

/// The content as it is written (RFC 5321, 4.5.2), without the final dot: a dot at the beginning of
/// a line gets another one. Every line ends with CR LF, since servers do not agree on what else
/// ends one.
pub(super) fn stuffed(content: &str) -> String {
    let mut text = String::with_capacity(content.len() + 64);
    let mut rest = content;
    while !rest.is_empty() {
        let end = rest.find(['\r', '\n']).unwrap_or(rest.len());
        let (line, after) = rest.split_at(end);
        if line.starts_with('.') {
            text.push('.');
        }
        text.push_str(line);
        text.push_str("\r\n");
        rest = after.strip_prefix("\r\n").or_else(|| after.get(1..)).unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_mail_ends_it() {
        for (text, expected) in [
            ("", ""),
            ("a", "a\r\n"),
            ("a\r\n", "a\r\n"),
            (".", "..\r\n"),
            (".\r\n.\r\n..\r\na.", "..\r\n..\r\n...\r\na.\r\n"),
            ("a\r\r\n.\r\nQUIT\r\n", "a\r\n\r\n..\r\nQUIT\r\n"),
            ("a\n.\nQUIT", "a\r\n..\r\nQUIT\r\n"),
            ("a\r.\rQUIT", "a\r\n..\r\nQUIT\r\n"),
            ("gr\u{fc}\u{df}e\r\n\r\n\u{e9}", "gr\u{fc}\u{df}e\r\n\r\n\u{e9}\r\n"),
        ] {
            assert_eq!(stuffed(text), expected, "{text:?}");
        }
    }

    #[test]
    fn parameters_are_given_where_they_are_offered_and_needed() {
        let letter = Letter { from: "us@x.test", to: "o'neil+a=b@x.test", content: "a\r\n" };
        let none = Extensions::default();
        let all =
            Extensions { smtputf8: true, eight_bit: true, dsn: true, ..Extensions::default() };
        assert_eq!(letter.mail(&none), "MAIL FROM:<us@x.test>");
        assert_eq!(letter.rcpt(&none), "RCPT TO:<o'neil+a=b@x.test>");
        assert_eq!(letter.mail(&all), "MAIL FROM:<us@x.test> RET=HDRS");
        assert_eq!(
            letter.rcpt(&all),
            "RCPT TO:<o'neil+a=b@x.test> NOTIFY=FAILURE ORCPT=rfc822;o'neil+2Ba+3Db@x.test"
        );
        let letter = Letter { to: "j\u{f6}s\\a@x.test", content: "\u{e9}", ..letter };
        assert_eq!(letter.mail(&all), "MAIL FROM:<us@x.test> BODY=8BITMIME SMTPUTF8 RET=HDRS");
        let letter = Letter { to: "\"j\u{f6}s a\"@x.test", ..letter };
        assert!(letter.rcpt(&all).ends_with(" ORCPT=utf-8;\"j\\x{F6}s\\x{20}a\"@x.test"));
    }

    #[test]
    fn a_mail_that_does_not_fit_is_not_tried() {
        let letter = Letter { from: "us@x.test", to: "ada@x.test", content: "123456789" };
        let of = |size| Extensions { size, ..Extensions::default() };
        assert_eq!(letter.misfit(&of(None)), None);
        assert_eq!(letter.misfit(&of(Some(9))), None);
        assert_eq!(letter.misfit(&of(Some(8))), Some(Misfit::Size { size: 9, most: 8 }));
        for utf8 in [
            Letter { to: "j\u{f6}s@x.test", ..letter },
            Letter { from: "j\u{f6}s@x.test", ..letter },
        ] {
            assert_eq!(utf8.misfit(&of(None)), Some(Misfit::Utf8));
        }
        for to in
            ["a b@x.test", "a>@x.test", "a\r\nDATA@x.test", "\"a@x.test", "a", "\"a\\\"@x.test"]
        {
            let misfit = Letter { to, ..letter }.misfit(&of(None));
            assert!(matches!(misfit, Some(Misfit::Address(_))), "{to}");
        }
        let misfit = Letter { from: "a b@x.test", ..letter }.misfit(&of(None));
        assert!(matches!(misfit, Some(Misfit::Sender(_))));
        for to in ["\"a b\"@x.test", "\"a>\\\"\"@x.test", "foo..bar@x.test", "a@[IPv6:::1]"] {
            assert_eq!(Letter { to, ..letter }.misfit(&of(None)), None, "{to}");
        }
    }
}
