//! The connection to a mail server, in clear or encrypted. Whatever waits has a deadline.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};

use super::reply::{Reader, Reply, Unreadable};
use super::tls::{self, Tls};

/// How long a reply is waited for after text without a code.
const AFTER_TEXT: Duration = Duration::from_secs(10);

/// How many bytes are read at a time.
const PIECE: usize = 4_096;

/// Why a connection is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("no answer in time")]
    Late,
    #[error("the server closed the connection")]
    Closed,
    #[error("{0}")]
    Unreadable(#[from] Unreadable),
    #[error("the server sends replies to which there was no command")]
    OutOfStep,
    #[error("{0}")]
    Tls(String),
    #[error("{0}")]
    Broken(io::Error),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as E;
        if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            return Self::Tls(tls::describe(error));
        }
        match error.kind() {
            E::TimedOut | E::WouldBlock => Self::Late,
            E::UnexpectedEof | E::ConnectionReset | E::ConnectionAborted | E::BrokenPipe => {
                Self::Closed
            }
            _ => Self::Broken(error),
        }
    }
}

/// A connection.
pub(super) struct Stream {
    link: Link,
    /// What was read and is no part of a reply yet.
    unread: Vec<u8>,
}

enum Link {
    Clear(Socket),
    Encrypted(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Stream {
    /// Connects.
    pub(super) fn connect(address: &SocketAddr, patience: Duration) -> Result<Self, Lost> {
        let stream = TcpStream::connect_timeout(address, patience.max(Duration::from_millis(1)))?;
        // Commands are written whole, and each waits for its reply.
        stream.set_nodelay(true)?;
        let deadline = Instant::now();
        let socket = Socket { stream, deadline, waits: true, skips_line_ends: false };
        Ok(Self { link: Link::Clear(socket), unread: Vec::new() })
    }

    /// The addresses of this end and of the other one.
    pub(super) fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        let stream = &self.socket().stream;
        Ok((stream.local_addr()?, stream.peer_addr()?))
    }

    /// Encrypts what follows.
    ///
    /// # Errors
    /// A server that has no certificate which is trusted; [`Lost::OutOfStep`] if something in clear
    /// is left, which would be taken for a part of what is encrypted.
    pub(super) fn encrypt(mut self, tls: &Tls, deadline: Instant) -> Result<Self, Lost> {
        if !self.is_quiet()? {
            return Err(Lost::OutOfStep);
        }
        let Link::Clear(mut socket) = self.link else { return Err(Lost::OutOfStep) };
        socket.deadline = deadline;
        // An empty line behind the reply in clear, which may come late, is no record of TLS.
        socket.skips_line_ends = true;
        let connection = ClientConnection::new(tls.config.clone(), tls.name.clone());
        let mut connection = connection.map_err(|error| Lost::Tls(tls::describe(&error)))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        let link = Link::Encrypted(Box::new(StreamOwned::new(connection, socket)));
        Ok(Self { link, unread: Vec::new() })
    }

    /// Writes.
    pub(super) fn write(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), Lost> {
        self.socket_mut().deadline = deadline;
        let writer: &mut dyn Write = match &mut self.link {
            Link::Clear(socket) => socket,
            Link::Encrypted(stream) => stream,
        };
        writer.write_all(bytes)?;
        Ok(writer.flush()?)
    }

    /// Reads the reply to a content.
    pub(super) fn read_of_content(&mut self, deadline: Instant) -> Result<Reply, Lost> {
        self.read_by(Reader::of_content(), deadline)
    }

    /// Reads a reply.
    pub(super) fn read(&mut self, deadline: Instant) -> Result<Reply, Lost> {
        self.read_by(Reader::default(), deadline)
    }

    fn read_by(&mut self, mut reader: Reader, deadline: Instant) -> Result<Reply, Lost> {
        loop {
            let is_text = reader.has_text_alone();
            let until = if is_text { deadline.min(Instant::now() + AFTER_TEXT) } else { deadline };
            if self.unread.is_empty()
                && let Err(lost) = self.fill(until)
            {
                let lost = if is_text { Unreadable::NoCode.into() } else { lost };
                return reader.cut().ok_or(lost);
            }
            let (used, reply) = reader.read(&self.unread)?;
            self.unread.drain(..used);
            if let Some(reply) = reply {
                return Ok(reply);
            }
        }
    }

    /// Whether the server has sent nothing more than was read. What comes before its command was
    /// sent is no reply to it.
    pub(super) fn is_quiet(&mut self) -> Result<bool, Lost> {
        if self.has_unread() {
            return Ok(false);
        }
        self.socket_mut().stop_waiting(true)?;
        let outcome = self.fill(Instant::now());
        self.socket_mut().stop_waiting(false)?;
        match outcome {
            Ok(()) => Ok(!self.has_unread()),
            Err(Lost::Late) => Ok(true),
            Err(lost) => Err(lost),
        }
    }

    /// Whether something was read that is no part of a reply. Empty lines, which some servers put
    /// between replies, say nothing.
    pub(super) fn has_unread(&self) -> bool {
        self.unread.iter().any(|byte| !matches!(byte, b'\r' | b'\n'))
    }

    /// Tells the other end of TLS that nothing will come any more.
    pub(super) fn close(mut self, deadline: Instant) {
        self.socket_mut().deadline = deadline;
        if let Link::Encrypted(stream) = &mut self.link {
            stream.conn.send_close_notify();
            stream.conn.complete_io(&mut stream.sock).ok();
        }
    }

    /// Reads some bytes.
    fn fill(&mut self, deadline: Instant) -> Result<(), Lost> {
        self.socket_mut().deadline = deadline;
        let mut piece = [0; PIECE];
        let reader: &mut dyn Read = match &mut self.link {
            Link::Clear(socket) => socket,
            Link::Encrypted(stream) => stream,
        };
        let count = loop {
            match reader.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if count == 0 {
            return Err(Lost::Closed);
        }
        self.unread.extend_from_slice(&piece[..count]);
        Ok(())
    }

    fn socket(&self) -> &Socket {
        match &self.link {
            Link::Clear(socket) => socket,
            Link::Encrypted(stream) => &stream.sock,
        }
    }

    fn socket_mut(&mut self) -> &mut Socket {
        match &mut self.link {
            Link::Clear(socket) => socket,
            Link::Encrypted(stream) => &mut stream.sock,
        }
    }
}

/// A socket whose every read and write ends at a deadline, however slowly bytes come: TLS asks for
/// as many as a record has.
struct Socket {
    stream: TcpStream,
    deadline: Instant,
    /// Whether a read may wait at all.
    waits: bool,
    /// Whether ends of lines are left out until something else comes.
    skips_line_ends: bool,
}

impl Socket {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn stop_waiting(&mut self, stops: bool) -> io::Result<()> {
        self.waits = !stops;
        self.stream.set_nonblocking(stops)
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.waits {
                self.stream.set_read_timeout(Some(self.left()?))?;
            }
            let count = self.stream.read(buffer)?;
            if !self.skips_line_ends || count == 0 {
                return Ok(count);
            }
            let read = &buffer[..count];
            let ends = read.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            if ends < count {
                self.skips_line_ends = false;
                buffer.copy_within(ends..count, 0);
                return Ok(count - ends);
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.waits {
            self.stream.set_write_timeout(Some(self.left()?))?;
        }
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
