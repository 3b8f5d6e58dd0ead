//! Where connections come from.

use std::future::{Ready, ready};
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// What connections are accepted from.
pub trait Listen {
    /// A connection that bytes can be read from.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send;

    /// What is done for a connection before that, such as a handshake; its client may be slow.
    type Opening: Future<Output = io::Result<Self::Stream>> + Send + 'static;

    /// Waits for the next connection.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Opening>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;
    type Opening = Ready<io::Result<TcpStream>>;

    async fn accept(&self) -> io::Result<Self::Opening> {
        Ok(ready(Ok(self.accept().await?.0)))
    }
}

impl Listen for UnixListener {
    type Stream = UnixStream;
    type Opening = Ready<io::Result<UnixStream>>;

    async fn accept(&self) -> io::Result<Self::Opening> {
        Ok(ready(Ok(self.accept().await?.0)))
    }
}
