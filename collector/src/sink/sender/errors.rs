//! What a sender writes to its standard error: a log line for each line.

use super::reason::clean;

/// So much of a line is kept; more than what is logged of it after what must not be logged is replaced.
const LONGEST_LINE: usize = 2_000;

/// The beginning of a line that has not ended.
#[derive(Debug, Default)]
pub(super) struct Errors {
    line: Vec<u8>,
}

impl Errors {
    /// More was read. Calls `log` for every line that ended, without addresses and what looks like a token.
    pub(super) fn push(&mut self, piece: &[u8], mut log: impl FnMut(&str)) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = LONGEST_LINE - self.line.len();
            self.line.extend(part.iter().take(room));
            if part.ends_with(b"\n") {
                self.end(&mut log);
            }
        }
    }

    /// Nothing more comes, or the line has ended.
    pub(super) fn end(&mut self, mut log: impl FnMut(&str)) {
        let line = std::mem::take(&mut self.line);
        if !line.trim_ascii().is_empty() {
            log(&clean(&String::from_utf8_lossy(&line)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let (mut errors, mut lines) = (Errors::default(), Vec::new());
        for piece in pieces {
            errors.push(piece, |line| lines.push(line.to_owned()));
        }
        errors.end(|line| lines.push(line.to_owned()));
        lines
    }

    #[test]
    fn lines_are_told_one_by_one_however_they_come_and_empty_ones_are_not() {
        let pieces: [&[u8]; 5] = [b"one\ntw", b"o\n\n \r\n", b"", b"b\xffd \x1b[2J\nlast", b" words"];
        assert_eq!(lines(&pieces), ["one", "two", "b\u{fffd}d [2J", "last words"]);
    }

    #[test]
    fn neither_a_long_line_nor_an_address_nor_a_token_is_kept() {
        let mut errors = Errors::default();
        for _ in 0..1_000 {
            errors.push(&[b'x'; 1_000], |line| panic!("{line}"));
        }
        assert!(errors.line.capacity() < 10_000);
        let long = lines(&[&b"ab ".repeat(5_000), b"\nnext\n"]);
        assert!(long[0].len() <= 500 && long[0].ends_with('…') && long[1] == "next", "{long:?}");
        let told = lines(&[b"to ada@example.test: ", &[b'A'; 86]]);
        assert_eq!(told, ["to [address] [secret]"]);
    }
}
