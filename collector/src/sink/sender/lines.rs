//! Cuts what a sender writes into lines of bounded length.

/// The longest answer, in bytes without its line feed.
pub(super) const LONGEST_LINE: usize = 1_000_000;

/// A line that was longer than [`LONGEST_LINE`]; nothing of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// What was read and not cut yet: never more than one line and one piece.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where no line feed was found.
    searched: usize,
    /// Whether the rest of a line that is too long is still to come.
    is_skipping: bool,
}

impl Lines {
    /// More was read. [`next_line`](Self::next_line) is called afterwards until it has nothing more.
    pub(super) fn push(&mut self, piece: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.bytes.extend_from_slice(piece);
    }

    /// The next line, without its line feed.
    pub(super) fn next_line(&mut self) -> Option<Result<&[u8], TooLong>> {
        loop {
            let found = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(position) = found else {
                self.searched = self.bytes.len();
                if self.is_skipping || self.searched - self.start > LONGEST_LINE {
                    let is_new = !self.is_skipping;
                    self.is_skipping = true;
                    self.bytes = Vec::new();
                    (self.start, self.searched) = (0, 0);
                    return is_new.then_some(Err(TooLong));
                }
                return None;
            };
            let (start, end) = (self.start, self.searched + position);
            (self.start, self.searched) = (end + 1, end + 1);
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            return Some(if end - start > LONGEST_LINE { Err(TooLong) } else { Ok(&self.bytes[start..end]) });
        }
    }

    /// What came after the last line feed. An object is whole or not without one.
    pub(super) fn rest(&mut self) -> Option<Vec<u8>> {
        let rest = self.bytes.split_off(self.start);
        let is_new = !self.is_skipping && !rest.is_empty();
        *self = Self::default();
        is_new.then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Cut = (Vec<Result<Vec<u8>, TooLong>>, Option<Vec<u8>>);

    fn cut(pieces: &[&[u8]]) -> Cut {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.push(piece);
            while let Some(line) = lines.next_line() {
                found.push(line.map(<[u8]>::to_vec));
            }
            assert!(lines.bytes.len() <= LONGEST_LINE + piece.len());
        }
        (found, lines.rest())
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let expected =
            (vec![Ok(b"one".to_vec()), Ok(Vec::new()), Ok(b"two".to_vec())], Some(b"rest".to_vec()));
        assert_eq!(cut(&[b"one\n\ntwo\nrest"]), expected);
        let bytes: Vec<&[u8]> = b"one\n\ntwo\nrest".chunks(1).collect();
        assert_eq!(cut(&bytes), expected);
        assert_eq!(cut(&[b"on", b"e\n", b"", b"\ntwo\nre", b"st"]), expected);
        assert_eq!(cut(&[b"one\n"]), (vec![Ok(b"one".to_vec())], None));
    }

    #[test]
    fn a_line_that_is_too_long_is_told_once_and_the_next_one_is_read() {
        let longest = vec![b'x'; LONGEST_LINE];
        assert_eq!(cut(&[&longest, b"\n"]).0, [Ok(longest.clone())]);
        assert_eq!(cut(&[&longest, b"x\nnext\n"]).0, [Err(TooLong), Ok(b"next".to_vec())]);
        let pieces: Vec<&[u8]> =
            std::iter::repeat_n(&longest[..50_000], 100).chain([&b"\nnext\n"[..]]).collect();
        assert_eq!(cut(&pieces), (vec![Err(TooLong), Ok(b"next".to_vec())], None));
    }

    #[test]
    fn the_end_of_a_line_that_is_too_long_is_no_line() {
        let longest = vec![b'x'; LONGEST_LINE];
        assert_eq!(cut(&[&longest, b"xx", b"{}"]), (vec![Err(TooLong)], None));
    }
}
