//! A way to the server that fails as networks do.

mod connection;
mod messages;
mod trap;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use connection::{Mode, serve};
use trap::Trap;

/// Forwards connections to a server; what it does to them can be changed while it runs.
///
/// It ends with this value, and all that it forwards with it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Dropped to end the thread.
    _running: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    server_port: u16,
    trap: Trap,
    connections: Mutex<Connections>,
}

#[derive(Debug)]
struct Connections {
    /// How those that come are treated.
    of_new: Mode,
    /// Those there are, to be told of a change.
    open: Vec<watch::Sender<Mode>>,
}

impl Proxy {
    /// Listens on a free port and forwards to `server_port` on this machine,
    /// on a thread of its own.
    pub fn start(server_port: u16) -> Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let connections = Mutex::new(Connections { of_new: Mode::Forward, open: Vec::new() });
        let shared = Arc::new(Shared { server_port, trap: Trap::default(), connections });
        let (running, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let accepting = Arc::clone(&shared);
        thread::Builder::new().name("proxy".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = ended => {}
                    _ = accept(listener, accepting) => {}
                }
            });
        })?;
        Ok(Self { address, shared, _running: running })
    }

    /// Where clients connect.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@{}/{database}?sslmode=disable", self.address)
    }

    /// The port of that address at 127.0.0.1. What is forwarded need not be PostgreSQL's protocol,
    /// but for [`cut_after`](Self::cut_after).
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The connections there are now carry nothing more in either direction, and do not end. New
    /// ones are forwarded.
    pub fn silence(&self) {
        self.shared.connections().tell(Mode::Silent);
    }

    /// [`silence`](Self::silence), and new connections are accepted and carry nothing either, until
    /// [`restore`](Self::restore).
    pub fn half_open(&self) {
        let mut connections = self.shared.connections();
        connections.of_new = Mode::Silent;
        connections.tell(Mode::Silent);
    }

    /// New connections are forwarded again. Those that were silenced stay as they are.
    pub fn restore(&self) {
        self.shared.connections().of_new = Mode::Forward;
    }

    /// Nothing is carried on any connection, old or new, until [`resume`](Self::resume).
    pub fn stall(&self) {
        self.half_open();
    }

    /// Everything is carried again, also what was written while it was not.
    pub fn resume(&self) {
        let mut connections = self.shared.connections();
        connections.of_new = Mode::Forward;
        connections.tell(Mode::Forward);
    }

    /// On the connections there are now, the server hears everything and its answers do not arrive.
    pub fn swallow_answers(&self) {
        self.shared.connections().tell(Mode::SwallowAnswers);
    }

    /// Ends the connections there are now.
    pub fn cut(&self) {
        let mut connections = self.shared.connections();
        connections.tell(Mode::Cut);
        connections.open.clear();
    }

    /// Of the next `times` transactions that contain one of `statements`, the server hears
    /// everything to the end, and commits; the connection is cut before its answer arrives.
    ///
    /// A statement is one if its text contains the given one.
    /// Takes the place of what was asked for before.
    pub fn cut_after(&self, statements: &[&str], times: usize) {
        self.shared.trap.set(statements, times);
    }

    /// How often [`cut_after`](Self::cut_after) has cut.
    pub fn cuts(&self) -> usize {
        self.shared.trap.sprung()
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn tell(&mut self, mode: Mode) {
        // Of those that have ended nobody hears it.
        self.open.retain(|connection| connection.send(mode).is_ok());
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) -> Result<()> {
    let listener = TcpListener::from_std(listener).context("the proxy cannot listen")?;
    loop {
        let (client, _) = listener.accept().await?;
        let mode = {
            let mut connections = shared.connections();
            let (sender, mode) = watch::channel(connections.of_new);
            connections.open.push(sender);
            mode
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A server that is away refuses, and so does the proxy.
            if let Ok(server) = TcpStream::connect(("127.0.0.1", shared.server_port)).await {
                serve(client, server, mode, &shared.trap).await;
            }
        });
    }
}
