//! Replies of a mail server (RFC 5321, 4.2), as servers really write them.
//!
//! The first three bytes of a line decide, whatever follows: no text at all, bytes of any encoding,
//! a line feed alone at its end. Lines without a code are passed over between others, and before
//! the reply to the content: only a code decides (RFC 5321, 4.2), and nothing else is asked before
//! it has come. At other steps a mail is tried again at once over such a line, and is not doubled.
//! What a server sends is bounded, so that it cannot take the memory.

use std::fmt;

/// The most bytes of a reply that are read.
const MAX_BYTES: usize = 65_536;

/// The most lines of a reply that are read.
const MAX_LINES: usize = 1_000;

/// The most bytes of all its lines' texts that are kept.
const MAX_KEPT: usize = 16_384;

/// The most characters of a reply that are shown.
const MAX_SHOWN: usize = 600;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// The three digits that decide: those of the last line, or of a line that refuses.
    pub(super) code: u16,
    /// Whether another line says the contrary.
    pub(super) is_contradictory: bool,
    /// Whether its last line has an end. If not, nothing more can be read from the connection.
    pub(super) is_whole: bool,
    lines: Vec<Vec<u8>>,
}

impl Reply {
    const fn is_positive(&self) -> bool {
        self.code / 100 == 2
    }

    /// Whether the server says yes to our greeting or to a command of a mail. A reply that the
    /// protocol knows for other commands is to one of these (RFC 5321, 4.2.3; RFC 4954, 6): 21x to
    /// HELP, 22x a greeting or the end of the connection, 23x to a login. Of others the first digit
    /// decides.
    pub(super) const fn is_completion(&self) -> bool {
        self.is_positive() && !matches!(self.code / 10, 21..=23)
    }

    /// Whether the server is ready for what follows, as a greeting or before encryption.
    pub(super) const fn is_ready(&self) -> bool {
        self.code == 220 || self.is_completion()
    }

    /// Whether a login has succeeded.
    pub(super) const fn is_login(&self) -> bool {
        self.code == 235 || self.is_completion()
    }

    pub(super) const fn is_intermediate(&self) -> bool {
        self.code / 100 == 3
    }

    /// Whether the server asks for a content; 33x asks for a part of a login.
    pub(super) const fn is_go_ahead(&self) -> bool {
        self.is_intermediate() && self.code / 10 != 33
    }

    /// Whether the server says no, for now or for ever.
    pub(super) const fn is_refusal(&self) -> bool {
        matches!(self.code / 100, 4 | 5)
    }

    /// The texts of its lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().map(Vec::as_slice)
    }

    /// Its text in one line; replacement characters stand for bytes that are no UTF-8 and for
    /// control characters.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let line = String::from_utf8_lossy(line);
            for word in line.split([' ', '\t']).filter(|word| !word.is_empty()) {
                if !text.is_empty() {
                    text.push(' ');
                }
                let shown = |character: char| {
                    if character.is_control() { char::REPLACEMENT_CHARACTER } else { character }
                };
                text.extend(word.chars().map(shown));
            }
        }
        text.chars().take(MAX_SHOWN).collect()
    }
}

/// The code and the text.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        let space = if text.is_empty() { "" } else { " " };
        write!(f, "{:03}{space}{text}", self.code)
    }
}

/// Why what a server sends is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("what the server sends does not begin with three digits")]
    NoCode,
    #[error("the server's reply has no end within {MAX_BYTES} bytes and {MAX_LINES} lines")]
    TooLong,
}

/// Reads one reply, from bytes in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Reader {
    is_of_content: bool,
    /// Whether a line without a code came before all others.
    began_with_text: bool,
    line: Vec<u8>,
    bytes: usize,
    codes: Vec<u16>,
    lines: Vec<Vec<u8>>,
    kept: usize,
}

impl Reader {
    /// Reads the reply to a content.
    pub(super) fn of_content() -> Self {
        Self { is_of_content: true, ..Self::default() }
    }

    /// Whether all that came is text without a code.
    pub(super) fn has_text_alone(&self) -> bool {
        self.began_with_text && self.codes.is_empty()
    }

    /// Takes bytes; returns how many of them belong to the reply, and the reply once it is whole.
    ///
    /// # Errors
    /// Bytes that are no reply, or too many.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<Reply>), Unreadable> {
        for (index, byte) in bytes.iter().enumerate() {
            self.bytes += 1;
            if self.bytes > MAX_BYTES || self.codes.len() == MAX_LINES {
                return match self.cut() {
                    Some(reply) => Ok((index + 1, Some(reply))),
                    None => Err(Unreadable::TooLong),
                };
            }
            if *byte != b'\n' {
                self.line.push(*byte);
            } else if self.end_line()? {
                return Ok((index + 1, Some(self.reply(true))));
            }
        }
        Ok((bytes.len(), None))
    }

    /// The reply whose last line has begun and has no end: its digits say what the server decided.
    pub(super) fn cut(&mut self) -> Option<Reply> {
        let code = code_of(&self.line)?;
        // More digits or lines could follow.
        if self.line.get(3) != Some(&b' ') {
            return None;
        }
        self.keep(code);
        Some(self.reply(false))
    }

    /// Whether the line that has ended is the last one.
    fn end_line(&mut self) -> Result<bool, Unreadable> {
        while self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        let Some(code) = code_of(&self.line) else {
            // Some servers put text without a code, or nothing, before a reply or into it.
            if self.codes.is_empty() && !self.line.is_empty() {
                if !self.is_of_content {
                    return Err(Unreadable::NoCode);
                }
                self.began_with_text = true;
            }
            self.line.clear();
            return Ok(false);
        };
        let is_last = self.line.get(3) != Some(&b'-');
        self.keep(code);
        Ok(is_last)
    }

    /// Keeps the text of the line.
    fn keep(&mut self, code: u16) {
        self.codes.push(code);
        let is_separator = |byte: &u8| matches!(byte, b' ' | b'-' | b'\t');
        let begin = if self.line.get(3).is_some_and(is_separator) { 4 } else { 3 };
        let text = &self.line[begin..];
        let text = &text[..text.len().min(MAX_KEPT - self.kept)];
        self.kept += text.len();
        self.lines.push(text.to_vec());
        self.line.clear();
    }

    /// A line that refuses decides, if the lines say different things: what is refused was not
    /// done.
    fn reply(&mut self, is_whole: bool) -> Reply {
        let last = *self.codes.last().unwrap_or(&0);
        let refusal = self.codes.iter().rev().copied().find(|code| *code >= 400);
        let code = if last < 400 { refusal.unwrap_or(last) } else { last };
        let is_contradictory =
            self.codes.iter().any(|other| (*other >= 400) != (code >= 400)) && last < 400;
        let lines = std::mem::take(&mut self.lines);
        *self = Self::default();
        Reply { code, is_contradictory, is_whole, lines }
    }
}

/// The three digits that a line begins with, and no fourth.
fn code_of(line: &[u8]) -> Option<u16> {
    let [first @ b'2'..=b'5', second @ b'0'..=b'9', third @ b'0'..=b'9', ..] = line else {
        return None;
    };
    let is_longer = line.get(3).is_some_and(u8::is_ascii_digit);
    let digit = |byte: &u8| u16::from(byte - b'0');
    (!is_longer).then(|| digit(first) * 100 + digit(second) * 10 + digit(third))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Reply, Unreadable> {
        let mut reader = Reader::of_content();
        let (used, reply) = reader.read(bytes)?;
        assert_eq!(used, bytes.len().min(used));
        reply.or_else(|| reader.cut()).ok_or(Unreadable::NoCode)
    }

    #[test]
    fn three_digits_decide_whatever_follows() {
        for (bytes, code, shown) in [
            (&b"250 2.0.0 ok\r\n"[..], 250, "250 2.0.0 ok"),
            (b"250\r\n", 250, "250"),
            (b"250 \r\n", 250, "250"),
            (b"250 ok\n", 250, "250 ok"),
            (b"250\n", 250, "250"),
            (b"250 ok\r\r\n", 250, "250 ok"),
            (b"250\tok\r\n", 250, "250 ok"),
            (b"250ok\r\n", 250, "250 ok"),
            (b"571 blocked\r\n", 571, "571 blocked"),
            (b"550 5.1.1 \xc3\xbb\xd3\xd0\r\n", 550, "550 5.1.1 \u{fb}\u{fffd}\u{fffd}"),
            (b"550 a\0b\x1b[31m\r\n", 550, "550 a\u{fffd}b\u{fffd}[31m"),
            (b"220-a\r\n220-b\r\n220 c\r\n", 220, "220 a b c"),
            (b"220-a\n220-\n220\n", 220, "220 a"),
            (b"\r\n220 a\r\n", 220, "220 a"),
            (b"220-a\r\n\r\nmore\r\n220 b\r\n", 220, "220 a b"),
            (b"one moment\r\n250 ok\r\n", 250, "250 ok"),
            (b"Notice: 250\r\n25 \r\n550-no\r\n550 never\r\n", 550, "550 no never"),
        ] {
            let reply = read(bytes).unwrap();
            assert_eq!((reply.code, reply.to_string().as_str()), (code, shown));
            assert!(reply.is_whole && !reply.is_contradictory);
        }
    }

    #[test]
    fn a_line_that_refuses_decides_where_lines_say_different_things() {
        for (bytes, code, is_contradictory) in [
            (&b"220-mx one moment\r\n521 mx takes no mail\r\n"[..], 521, false),
            (b"550-no\r\n250 ok\r\n", 550, true),
            (b"250-ok\r\n450-no\r\n354 ok\r\n", 450, true),
            (b"550-no\r\n450 later\r\n", 450, false),
            (b"250-ok\r\n220 ok\r\n", 220, false),
        ] {
            let reply = read(bytes).unwrap();
            assert_eq!((reply.code, reply.is_contradictory), (code, is_contradictory));
        }
    }

    #[test]
    fn what_has_no_three_digits_is_no_reply() {
        for bytes in [
            &b"ok\r\n"[..],
            b"25 ok\r\n",
            b"2500 ok\r\n",
            b"150 ok\r\n",
            b"600 x\r\n",
            b"\x16\x03\x01\n",
        ] {
            assert_eq!(read(bytes), Err(Unreadable::NoCode), "{bytes:?}");
            let mut reader = Reader::default();
            assert_eq!(reader.read(bytes), Err(Unreadable::NoCode), "{bytes:?}");
        }
        let mut reader = Reader::of_content();
        assert_eq!(reader.read(b"ok\r\n"), Ok((4, None)));
        assert!(reader.has_text_alone());
        assert_eq!(reader.read(b"250-ok\r\n"), Ok((8, None)));
        assert!(!reader.has_text_alone());
    }

    #[test]
    fn a_reply_whose_end_is_missing_counts_once_its_last_line_has_begun() {
        for bytes in [&b"250 2.0.0 qu"[..], b"250-a\r\n250 "] {
            let reply = read(bytes).unwrap();
            assert!(reply.code == 250 && !reply.is_whole, "{reply:?}");
        }
        for bytes in [&b""[..], b"2", b"25", b"250", b"250-", b"250-a\r\n", b"250-a\r\n25"] {
            assert_eq!(read(bytes), Err(Unreadable::NoCode), "{bytes:?}");
        }
    }

    #[test]
    fn no_reply_takes_more_than_a_bounded_memory() {
        let long = [b"220-".to_vec(), vec![b'a'; 10_000_000]].concat();
        assert_eq!(read(&long), Err(Unreadable::TooLong));
        assert_eq!(read(&b"220-\r\n".repeat(10_000)), Err(Unreadable::TooLong));
        assert_eq!(read(&b"\n".repeat(100_000)), Err(Unreadable::TooLong));
        assert_eq!(read(&b"one moment\r\n".repeat(10_000)), Err(Unreadable::TooLong));
        let keywords = "250-KEYWORD\r\n".repeat(10_000);
        assert_eq!(read(keywords.as_bytes()), Err(Unreadable::TooLong));
        let last = [b"250 ".to_vec(), vec![b'a'; 10_000_000]].concat();
        let reply = read(&last).unwrap();
        assert!(reply.is_positive() && !reply.is_whole && reply.text().len() == MAX_SHOWN);
        let kept: usize = reply.lines().map(<[u8]>::len).sum();
        assert_eq!(kept, MAX_KEPT);
    }

    #[test]
    fn the_size_of_the_pieces_does_not_matter() {
        let bytes = b"\r\n250-mx\r\n250-\xff\n  text\r\n250 SIZE 1\r\n220 next";
        for size in 1..bytes.len() {
            let (mut reader, mut used, mut found) = (Reader::default(), 0, None);
            for piece in bytes.chunks(size) {
                let (taken, reply) = reader.read(piece).unwrap();
                used += taken;
                if reply.is_some() {
                    found = reply;
                    break;
                }
            }
            assert_eq!((used, found), (bytes.len() - 8, read(&bytes[..bytes.len() - 8]).ok()));
        }
    }
}
