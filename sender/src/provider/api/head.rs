//! The head of an answer, as servers really write it: what the client would refuse is taken out.
//! After the body of a request was sent, an answer that cannot be read leaves its mail in doubt,
//! and a server that always writes an odd header would get each mail three times.
//!
//! The status line decides. A header whose name is none is left out; blanks stand for control
//! characters and for the end of a line that goes on (RFC 9112, 5.2; RFC 9110, 5.5). What is left
//! of many or long headers has the length of the body, and no second one that differs.

/// How many headers are passed on, beside those of the body's length, and how many bytes they have.
/// The client takes 128.
const MAX_HEADERS: usize = 100;
const MAX_BYTES: usize = 65_536;

/// How many bytes of a line are read.
const MAX_LINE: usize = 16_384;

/// Where in an answer it is.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    Status,
    /// In the headers after this status.
    Headers(u16),
    Body,
}

/// Reads one answer after another, in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Head {
    place: Place,
    /// The line that has begun.
    line: Vec<u8>,
    /// The header before it, which it may go on with.
    header: Vec<u8>,
    headers: usize,
    bytes: usize,
    /// The body's length.
    length: Option<Vec<u8>>,
    /// Whether anything was taken out: nobody knows what such a server means by what follows.
    pub(super) is_odd: bool,
}

impl Head {
    /// Whether the head is over.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.place, Place::Body)
    }

    /// Forgets all of this answer but that it was odd.
    pub(super) fn begin_next(&mut self) {
        *self = Self { is_odd: self.is_odd, ..Self::default() };
    }

    /// Takes bytes, and writes what the client is to read.
    pub(super) fn read(&mut self, mut bytes: &[u8], into: &mut Vec<u8>) {
        while !self.is_over() {
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                return self.begin(bytes);
            };
            self.begin(&bytes[..end]);
            bytes = &bytes[end + 1..];
            while self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
            let line = std::mem::take(&mut self.line);
            match self.place {
                Place::Headers(status) => self.end_header(status, &line, into),
                _ => self.end_status(&line, into),
            }
        }
        into.extend_from_slice(bytes);
    }

    fn begin(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(MAX_LINE - self.line.len());
        self.is_odd |= kept < bytes.len();
        self.line.extend_from_slice(&bytes[..kept]);
    }

    fn end_status(&mut self, line: &[u8], into: &mut Vec<u8>) {
        if line.is_empty() {
            return;
        }
        let Some(status) = status_of(line) else {
            // The client says what is wrong with it.
            into.extend_from_slice(line);
            into.extend_from_slice(b"\r\n");
            self.place = Place::Body;
            return;
        };
        // Nobody reads the words after it.
        into.extend_from_slice(&line[..12]);
        into.extend_from_slice(b"\r\n");
        self.place = Place::Headers(status);
    }

    fn end_header(&mut self, status: u16, line: &[u8], into: &mut Vec<u8>) {
        if matches!(line.first(), Some(b' ' | b'\t')) {
            self.is_odd = true;
            if !self.header.is_empty() && self.header.len() + line.len() <= MAX_LINE {
                self.header.extend_from_slice(line);
            }
            return;
        }
        let header = std::mem::replace(&mut self.header, line.to_vec());
        if !header.is_empty() {
            self.pass_on(status, &header, into);
        }
        if line.is_empty() {
            into.extend_from_slice(b"\r\n");
            // An answer before the answer; 101 is the last one.
            if matches!(status, 100 | 102..200) {
                self.begin_next();
            } else {
                self.place = Place::Body;
            }
        }
    }

    fn pass_on(&mut self, status: u16, header: &[u8], into: &mut Vec<u8>) {
        let Some(colon) = header.iter().position(|byte| *byte == b':') else {
            self.is_odd = true;
            return;
        };
        let (name, value) = (header[..colon].trim_ascii_end(), header[colon + 1..].trim_ascii());
        self.is_odd |= name.len() < colon;
        // The client refuses any header of this one.
        if status == 100 {
            return;
        }
        if name.is_empty() || !name.iter().copied().all(is_of_name) {
            self.is_odd = true;
            return;
        }
        let is_length = name.eq_ignore_ascii_case(b"Content-Length");
        if is_length {
            let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let is_other = self.length.as_ref().is_some_and(|length| length != value);
            if !is_number || is_other {
                self.is_odd = true;
                return;
            }
            if self.length.replace(value.to_vec()).is_some() {
                return;
            }
        } else if !name.eq_ignore_ascii_case(b"Transfer-Encoding") {
            self.headers += 1;
            self.bytes += header.len();
            if self.headers > MAX_HEADERS || self.bytes > MAX_BYTES {
                self.is_odd = true;
                return;
            }
        }
        into.extend_from_slice(name);
        into.push(b':');
        let is_control = |byte: u8| byte.is_ascii_control() && byte != b'\t';
        self.is_odd |= value.iter().copied().any(is_control);
        into.extend(value.iter().map(|byte| if is_control(*byte) { b' ' } else { *byte }));
        into.extend_from_slice(b"\r\n");
    }
}

/// The status of a line that begins with a version and three digits, and no fourth.
fn status_of(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let [b'0' | b'1', b' ', first @ b'1'..=b'9', second, third, rest @ ..] = rest else {
        return None;
    };
    let is_code = second.is_ascii_digit() && third.is_ascii_digit();
    let has_end = matches!(rest, [] | [b' ', ..]);
    let digit = |digit: &u8| u16::from(digit - b'0');
    (is_code && has_end).then(|| digit(first) * 100 + digit(second) * 10 + digit(third))
}

/// Whether a byte may be in the name of a header (RFC 9110, 5.6.2).
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, bool) {
        let (mut head, mut into) = (Head::default(), Vec::new());
        head.read(text.as_bytes(), &mut into);
        let read = (String::from_utf8(into).unwrap(), head.is_odd);
        for size in 1..text.len().min(40) {
            let (mut head, mut into) = (Head::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                head.read(piece, &mut into);
            }
            assert_eq!((String::from_utf8(into).unwrap(), head.is_odd), read, "{size}");
        }
        read
    }

    #[test]
    fn what_the_client_would_refuse_is_taken_out_and_the_rest_is_as_it_was() {
        const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n";
        const EXPECTED: &str = "HTTP/1.1 200\r\nContent-Length:2\r\n";
        for (headers, expected, is_odd) in [
            ("X-Name: j\u{f6}s, a b\r\n", "X-Name:j\u{f6}s, a b\r\n", false),
            ("X-Empty:\r\n", "X-Empty:\r\n", false),
            ("Content-Length: 2\r\n", "", false),
            ("X-\u{f6}: a\r\n", "", true),
            ("X Y: a\r\n", "", true),
            (": a\r\n", "", true),
            ("no header\r\n", "", true),
            ("X-Late : a\r\n", "X-Late:a\r\n", true),
            ("X-Zero: a\0b\x7f\rc\r\n", "X-Zero:a b  c\r\n", true),
            ("X-Long: a\r\n  b\r\n\tc\r\nX: d\r\n", "X-Long:a  b\tc\r\nX:d\r\n", true),
            ("Content-Length: 3\r\n", "", true),
            ("Content-Length: -2\r\n", "", true),
        ] {
            for end in ["\r\n{}", "\n{}"] {
                let (found, found_odd) = read(&format!("{OK}{headers}{end}"));
                assert_eq!(found, format!("{EXPECTED}{expected}\r\n{{}}"), "{headers}");
                assert_eq!(found_odd, is_odd, "{headers}");
            }
        }
    }

    #[test]
    fn a_status_line_is_read_whatever_its_words_and_one_that_is_none_is_left() {
        for (text, expected) in [
            ("HTTP/1.1 422 \u{1}\r\n\r\nx", "HTTP/1.1 422\r\n\r\nx"),
            ("\r\nHTTP/1.0 200\n\nx", "HTTP/1.0 200\r\n\r\nx"),
            (
                "HTTP/1.1 100 Go\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx",
                "HTTP/1.1 100\r\n\r\nHTTP/1.1 200\r\n\r\nx",
            ),
            (
                "HTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nA b\r\n\r\nx",
                "HTTP/1.1 103\r\nA:b\r\n\r\nHTTP/1.1 200\r\n\r\nx",
            ),
            ("HTTP/1.1 2000 OK\r\nA b\r\n\r\n", "HTTP/1.1 2000 OK\r\nA b\r\n\r\n"),
            ("SSH-2.0\r\nA b\r\n", "SSH-2.0\r\nA b\r\n"),
        ] {
            assert_eq!(read(text).0, expected, "{text}");
        }
    }

    #[test]
    fn many_and_long_headers_take_a_bounded_memory_and_leave_the_length_of_the_body() {
        let many = "X-Many: a\r\n".repeat(10_000);
        let long = format!("X-Long: {}\r\n", "a".repeat(10_000_000));
        let folded = format!("X-Folded: a\r\n{}", " b\r\n".repeat(100_000));
        for headers in [many, long, folded] {
            let text = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 2\r\n\r\n{{}}");
            let (mut head, mut into) = (Head::default(), Vec::new());
            for piece in text.as_bytes().chunks(4_096) {
                head.read(piece, &mut into);
                assert!(head.line.len() + head.header.len() <= 2 * MAX_LINE);
            }
            assert!(into.len() < MAX_BYTES && head.is_over(), "{}", into.len());
            assert!(into.ends_with(b"Content-Length:2\r\n\r\n{}"));
        }
    }
}
