//! A way to the server that fails as networks do.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;

const FORWARD: u8 = 0;
const SWALLOW_ANSWERS: u8 = 1;
const SILENT: u8 = 2;

/// Forwards connections to a server; what it does to them can be changed while it runs.
pub(crate) struct Proxy {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<Arc<Connection>>>>,
}

struct Connection {
    mode: AtomicU8,
    client: TcpStream,
    server: TcpStream,
}

impl Proxy {
    /// Listens on a free port and forwards to `server_port` on this machine.
    pub(crate) fn start(server_port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let connections = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&connections);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) else { continue };
                let connection = Arc::new(Connection { mode: AtomicU8::new(FORWARD), client, server });
                list.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&connection));
                let other = Arc::clone(&connection);
                thread::spawn(move || connection.copy(&connection.client, &connection.server, false));
                thread::spawn(move || other.copy(&other.server, &other.client, true));
            }
        });
        Ok(Self { address, connections })
    }

    /// Where clients connect.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@{}/{database}?sslmode=disable", self.address)
    }

    /// The connections there are now carry nothing more in either direction, and do not end.
    pub(crate) fn silence(&self) {
        self.set(SILENT);
    }

    /// On the connections there are now, the server hears everything and its answers do not arrive.
    pub(crate) fn swallow_answers(&self) {
        self.set(SWALLOW_ANSWERS);
    }

    /// Ends the connections there are now.
    pub(crate) fn cut(&self) {
        for connection in self.connections.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            connection.client.shutdown(Shutdown::Both).ok();
            connection.server.shutdown(Shutdown::Both).ok();
        }
    }

    fn set(&self, mode: u8) {
        for connection in &*self.connections.lock().unwrap_or_else(PoisonError::into_inner) {
            connection.mode.store(mode, Ordering::SeqCst);
        }
    }
}

impl Connection {
    fn copy(&self, mut from: &TcpStream, mut to: &TcpStream, are_answers: bool) {
        let mut bytes = vec![0; 65_536];
        loop {
            let count = match from.read(&mut bytes) {
                Ok(count) if count > 0 => count,
                _ => break,
            };
            match self.mode.load(Ordering::SeqCst) {
                SILENT => loop {
                    thread::sleep(Duration::from_secs(3_600));
                },
                SWALLOW_ANSWERS if are_answers => {}
                _ => {
                    if to.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
            }
        }
        self.client.shutdown(Shutdown::Both).ok();
        self.server.shutdown(Shutdown::Both).ok();
    }
}
