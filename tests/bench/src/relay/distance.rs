//! A way to a server that takes a while, as to another host.

use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

/// Forwards connections to a port of this machine; each byte is under way for a while, and any
/// number of them at the same time. It ends with this value.
pub(super) struct Distance {
    pub(super) port: u16,
    _running: oneshot::Sender<()>,
}

impl Distance {
    pub(super) fn start(server_port: u16, one_way: Duration) -> Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let (running, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = ended => {}
                    _ = accept(listener, server_port, one_way) => {}
                }
            });
        });
        Ok(Self { port, _running: running })
    }
}

async fn accept(
    listener: std::net::TcpListener,
    server_port: u16,
    one_way: Duration,
) -> std::io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (client, _) = listener.accept().await?;
        let server = TcpStream::connect(("127.0.0.1", server_port)).await?;
        // What is written is sent at once, as the two ends ask for it.
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let ((from_client, to_client), (from_server, to_server)) =
            (client.into_split(), server.into_split());
        tokio::spawn(carry(from_client, to_server, one_way));
        tokio::spawn(carry(from_server, to_client, one_way));
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, one_way: Duration) {
    let (sender, mut under_way) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((arrives, bytes)) = under_way.recv().await {
            sleep_until(arrives).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        to.shutdown().await.ok();
    });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if sender.send((Instant::now() + one_way, buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}
