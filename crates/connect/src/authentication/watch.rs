//! What a server says until it has accepted the client, and how long its messages are.

use std::error::Error;
use std::{fmt, io};

use super::{Allowed, Method, RefusedMethod};

/// How many bytes a server may send until it is ready for statements. The client keeps what it says
/// before, and nothing is proven then: whoever stands between could fill the memory.
const MAX_BEFORE_READY: usize = 1 << 20;

/// The longest message afterwards, in bytes. It is kept whole. A row has a few megabytes at most.
const MAX_MESSAGE: usize = 64 << 20;

/// Reads along: a message is its type, its length with itself, and its body, which of a request for
/// authentication (`R`) begins with what is asked for.
pub(super) struct Watch {
    allowed: Allowed,
    /// The type, the length, and the first four bytes of the body, as far as they have come.
    head: [u8; 9],
    filled: usize,
    /// How many bytes of the message are still to come behind its head.
    skip: usize,
    /// Whether a method was asked for.
    has_asked: bool,
    is_accepted: bool,
    /// How many bytes may come until the server is ready; none once it is.
    left: Option<usize>,
}

/// Why a connection is given up.
#[derive(Debug)]
pub(super) enum Fault {
    Method(RefusedMethod),
    TooLong,
}

impl Fault {
    pub(super) fn into_error(self) -> io::Error {
        match self {
            Self::Method(refused) => io::Error::other(refused),
            Self::TooLong => io::Error::new(io::ErrorKind::InvalidData, TooLong),
        }
    }
}

/// A message is longer than any of a database.
#[derive(Debug)]
struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the server sends more than any database has to say")
    }
}

impl Error for TooLong {}

impl Watch {
    const HEADER: usize = 5;

    pub(super) fn new(allowed: Allowed) -> Self {
        Self {
            allowed,
            head: [0; 9],
            filled: 0,
            skip: 0,
            has_asked: false,
            is_accepted: false,
            left: Some(MAX_BEFORE_READY),
        }
    }

    pub(super) fn see(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let [byte, rest @ ..] = bytes else { break };
            self.head[self.filled] = *byte;
            self.filled += 1;
            bytes = rest;
            self.advance()?;
        }
        Ok(())
    }

    /// Looks at the head, if it is complete.
    fn advance(&mut self) -> Result<(), Fault> {
        let [kind, length @ .., _, _, _, _] = self.head;
        let body = (u32::from_be_bytes(length) as usize).saturating_sub(4);
        if self.filled == Self::HEADER {
            self.count(kind, body)?;
        }
        let is_request = !self.is_accepted && kind == b'R' && body >= 4;
        if self.filled < Self::HEADER || is_request && self.filled < self.head.len() {
            return Ok(());
        }
        self.skip = body - if is_request { 4 } else { 0 };
        self.filled = 0;
        if is_request {
            let [.., a, b, c, d] = self.head;
            self.asked_for(u32::from_be_bytes([a, b, c, d]))?;
        }
        Ok(())
    }

    /// Counts a message before it comes.
    fn count(&mut self, kind: u8, body: usize) -> Result<(), Fault> {
        match &mut self.left {
            Some(left) => *left = left.checked_sub(Self::HEADER + body).ok_or(Fault::TooLong)?,
            None if body > MAX_MESSAGE => return Err(Fault::TooLong),
            None => {}
        }
        if kind == b'Z' {
            self.left = None;
        }
        Ok(())
    }

    fn asked_for(&mut self, code: u32) -> Result<(), Fault> {
        let method = match code {
            0 if !self.has_asked => Method::None,
            3 => Method::Password,
            5 => Method::Md5,
            10 => Method::Scram,
            _ => {
                // Accepted, a further message of a method, or one that the library refuses.
                self.is_accepted = code == 0;
                return Ok(());
            }
        };
        self.has_asked = true;
        self.is_accepted = code == 0;
        if self.allowed.allows(method) {
            return Ok(());
        }
        let is_restricted = self.allowed.is_restricted;
        Err(Fault::Method(RefusedMethod { method, is_restricted }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::tests::allowed;

    fn request(code: u32, rest: &[u8]) -> Vec<u8> {
        let length = u32::try_from(8 + rest.len()).unwrap();
        [b"R", &length.to_be_bytes()[..], &code.to_be_bytes(), rest].concat()
    }

    /// Whether the watch refuses what the server says, however it is cut.
    fn is_refused(allowed: Allowed, said: &[u8]) -> bool {
        let outcomes = [1, 2, 3, 5, 7, 9, 4096].map(|size| {
            let mut watch = Watch::new(allowed);
            said.chunks(size).any(|bytes| watch.see(bytes).is_err())
        });
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
        outcomes[0]
    }

    #[test]
    fn a_password_goes_out_in_clear_only_where_that_is_asked_for() {
        for (setting, is_sent) in
            [("", false), ("!md5", false), ("password", true), ("password,scram-sha-256", true)]
        {
            let allowed = allowed(setting).unwrap();
            assert_eq!(!is_refused(allowed.in_clear(), &request(3, b"")), is_sent, "{setting}");
            assert!(!is_refused(allowed, &request(3, b"")), "{setting}");
        }
        assert!(!is_refused(Allowed::default().in_clear(), &request(5, b"salt")));
    }

    #[test]
    fn the_method_is_found_wherever_it_stands_and_only_before_the_client_is_accepted() {
        let scram = allowed("scram-sha-256").unwrap();
        let sasl = request(10, b"SCRAM-SHA-256\0\0");
        let further =
            [sasl.clone(), request(11, b"R\0\0\0\x08\0\0\0\x03"), request(12, b"v=")].concat();
        let (accepted, clear) = (request(0, b""), request(3, b""));
        let notice = [b"N", &17_u32.to_be_bytes()[..], b"R\0\0\0\x08\0\0\0\x03xyzt"].concat();
        let empty = [b"A", &4_u32.to_be_bytes()[..]].concat();
        assert!(!is_refused(scram, &[&further[..], &accepted, &clear].concat()));
        assert!(is_refused(scram, &[&notice[..], &empty, &clear].concat()));
        assert!(!is_refused(scram, &[&notice[..], &sasl, &accepted].concat()));
        assert!(is_refused(scram, &accepted), "nothing was proven");
        assert!(is_refused(scram, &request(5, b"salt")));
        assert!(is_refused(scram, &[&sasl[..], &clear].concat()), "a second request counts, too");
    }
    fn message(kind: u8, body: usize) -> Vec<u8> {
        let length = u32::try_from(body + 4).unwrap();
        [&[kind][..], &length.to_be_bytes(), &vec![b'x'; body]].concat()
    }

    #[test]
    fn a_server_says_little_before_it_is_ready_and_no_endless_message_afterwards() {
        let any = Allowed::default();
        let endless = [b"E", &0x7fff_ffff_u32.to_be_bytes()[..], b"xxxx"].concat();
        let (accepted, ready) = (request(0, b""), message(b'Z', 1));
        assert!(is_refused(any, &endless));
        assert!(is_refused(any, &[&accepted[..], &endless].concat()));
        assert!(is_refused(any, &[&accepted[..], &ready, &endless].concat()));
        assert!(is_refused(any, &message(b'N', 1_000).repeat(1_100)));
        let row = [&accepted[..], &ready, &message(b'D', 2_000_000)].concat();
        assert!(!is_refused(any, &[row.clone(), row].concat()));
    }
}
