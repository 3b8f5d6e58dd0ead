//! Connections that come to a free port.

use std::io;
use std::thread;

use anyhow::Result;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Accepts connections at 127.0.0.1, on a thread of its own. It ends with this value, and all that
/// is done with the connections.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) port: u16,
    /// Dropped to end the thread.
    _running: oneshot::Sender<()>,
}

impl Listening {
    /// Calls `accepted` for each connection at once, and runs what it returns beside the others.
    pub(super) fn start<W>(accepted: impl Fn(TcpStream) -> W + Send + 'static) -> Result<Self>
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let (running, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("proxy".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = ended => {}
                    _ = accept(listener, accepted) => {}
                }
            });
        })?;
        Ok(Self { port, _running: running })
    }
}

async fn accept<W>(
    listener: std::net::TcpListener,
    accepted: impl Fn(TcpStream) -> W,
) -> io::Result<()>
where
    W: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(accepted(client));
    }
}
