//! A way to a server that takes a while, as to another host.

use std::io;
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::listening::Listening;

/// Forwards connections to a port of this machine; each byte is under way for a while, and any
/// number of them at the same time. It ends with this value.
#[derive(Debug)]
pub struct Distance(Listening);

impl Distance {
    /// Listens on a free port.
    pub fn start(server_port: u16, one_way: Duration) -> Result<Self> {
        let listening = Listening::start(move |client| async move {
            forward(client, server_port, one_way).await.ok();
        })?;
        Ok(Self(listening))
    }

    /// The port at 127.0.0.1 where clients connect.
    pub fn port(&self) -> u16 {
        self.0.port
    }
}

async fn forward(client: TcpStream, server_port: u16, one_way: Duration) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server_port)).await?;
    // What is written is sent at once, as the two ends ask for it.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(carry(from_client, to_server, one_way), carry(from_server, to_client, one_way));
    Ok(())
}

/// Carries what one end writes, until it ends.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, one_way: Duration) {
    let (sender, mut under_way) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let arrive = async move {
        while let Some((at, bytes)) = under_way.recv().await {
            sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        to.shutdown().await.ok();
    };
    let depart = async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if sender.send((Instant::now() + one_way, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    };
    tokio::join!(arrive, depart);
}
