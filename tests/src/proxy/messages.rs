//! As much of PostgreSQL's protocol as it takes to see where a transaction ends.

use std::collections::HashMap;

/// What a client says, without encryption.
#[derive(Debug, Default)]
pub(super) struct Statements {
    frames: Frames,
    /// The first message has no type.
    started: bool,
    /// Prepared statements by their names: what is wanted may change after they were prepared.
    prepared: HashMap<Vec<u8>, String>,
    /// Whether one that is wanted was executed since the last end.
    pending: bool,
    /// How many answers were asked for.
    asked: u64,
}

/// What a server says.
#[derive(Debug, Default)]
pub(super) struct Answers {
    frames: Frames,
    complete: u64,
}

impl Statements {
    /// Takes bytes as they come. If they end transactions with a statement that is `wanted`,
    /// returns how many answers the server has given once it has answered the first of them.
    pub(super) fn read(&mut self, bytes: &[u8], wanted: impl Fn(&str) -> bool) -> Option<u64> {
        let mut caught = None;
        self.frames.push(bytes);
        while let Some((kind, body)) = self.frames.next(self.started) {
            match kind {
                None => {
                    self.started = true;
                    self.asked += 1;
                }
                Some(b'P') => {
                    let (name, rest) = text(&body);
                    let (statement, _) = text(rest);
                    self.prepared
                        .insert(name.to_vec(), String::from_utf8_lossy(statement).into_owned());
                }
                Some(b'B') => {
                    let (_, rest) = text(&body);
                    let (name, _) = text(rest);
                    self.pending |=
                        self.prepared.get(name).is_some_and(|statement| wanted(statement));
                }
                Some(b'Q') => {
                    self.pending |= wanted(&String::from_utf8_lossy(text(&body).0));
                    self.end(&mut caught);
                }
                Some(b'S') => self.end(&mut caught),
                Some(_) => {}
            }
        }
        caught
    }

    fn end(&mut self, caught: &mut Option<u64>) {
        self.asked += 1;
        if std::mem::take(&mut self.pending) && caught.is_none() {
            *caught = Some(self.asked);
        }
    }
}

impl Answers {
    pub(super) fn read(&mut self, bytes: &[u8]) {
        self.frames.push(bytes);
        while let Some((kind, _)) = self.frames.next(true) {
            if kind == Some(b'Z') {
                self.complete += 1;
            }
        }
    }

    /// How many times it was ready for the next transaction.
    pub(super) fn complete(&self) -> u64 {
        self.complete
    }
}

/// Cuts a stream into messages.
#[derive(Debug, Default)]
struct Frames {
    buffer: Vec<u8>,
}

impl Frames {
    fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message: its type, if messages have one, and what follows the length.
    fn next(&mut self, typed: bool) -> Option<(Option<u8>, Vec<u8>)> {
        let start = usize::from(typed);
        let length = self.buffer.get(start..start + 4)?;
        let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
        let end = start + length.max(4);
        if self.buffer.len() < end {
            return None;
        }
        let message: Vec<u8> = self.buffer.drain(..end).collect();
        Some((typed.then(|| message[0]), message[start + 4..].to_vec()))
    }
}

/// A text that ends with a zero, and what follows it.
fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &[u8], body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [kind, &length.to_be_bytes(), body].concat()
    }

    fn is_claim(statement: &str) -> bool {
        statement.contains("claim")
    }

    #[test]
    fn a_prepared_statement_is_caught_where_its_transaction_ends_however_the_bytes_are_cut() {
        let talk = [
            message(b"", &[0, 3, 0, 0]),
            message(b"P", b"s0\0SELECT claim()\0\0\0"),
            message(b"P", b"s1\0SELECT 1\0\0\0"),
            message(b"S", b""),
            message(b"B", b"\0s1\0"),
            message(b"S", b""),
            message(b"B", b"\0s0\0"),
            message(b"E", b"\0\0\0\0\0"),
            message(b"S", b""),
        ]
        .concat();
        let mut whole = Statements::default();
        assert_eq!(whole.read(&talk, is_claim), Some(4));
        let mut pieces = Statements::default();
        let caught: Vec<_> = talk.iter().map(|byte| pieces.read(&[*byte], is_claim)).collect();
        assert_eq!(caught.iter().flatten().collect::<Vec<_>>(), [&4]);
        assert_eq!(caught.last().unwrap(), &Some(4));
    }

    #[test]
    fn a_simple_query_ends_its_transaction() {
        let mut statements = Statements { started: true, ..Statements::default() };
        assert_eq!(statements.read(&message(b"Q", b"BEGIN; claim\0"), is_claim), Some(1));
        assert_eq!(statements.read(&message(b"Q", b"COMMIT\0"), is_claim), None);
    }

    #[test]
    fn answers_are_counted_by_their_ends() {
        let mut answers = Answers::default();
        let said = [message(b"D", b"ZZZZ"), message(b"Z", b"I"), message(b"Z", b"T")].concat();
        answers.read(&said[..said.len() - 1]);
        assert_eq!(answers.complete(), 1);
        answers.read(b"T");
        assert_eq!(answers.complete(), 2);
    }
}
