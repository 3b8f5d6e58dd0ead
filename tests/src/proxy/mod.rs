//! A way to the server that fails as networks do.

mod connection;
mod distance;
mod listening;
mod messages;
mod trap;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use tokio::net::TcpStream;
use tokio::sync::watch;

use connection::{Mode, serve};
pub use distance::Distance;
use listening::Listening;
use trap::Trap;

/// Forwards connections to a server; what it does to them can be changed while it runs.
///
/// It ends with this value, and all that it forwards with it.
#[derive(Debug)]
pub struct Proxy {
    listening: Listening,
    shared: Arc<Shared>,
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
        let connections = Mutex::new(Connections { of_new: Mode::Forward, open: Vec::new() });
        let shared = Arc::new(Shared { server_port, trap: Trap::default(), connections });
        let accepting = Arc::clone(&shared);
        let listening = Listening::start(move |client| {
            let mode = {
                let mut connections = accepting.connections();
                let (sender, mode) = watch::channel(connections.of_new);
                connections.open.push(sender);
                mode
            };
            let shared = Arc::clone(&accepting);
            async move {
                // A server that is away refuses, and so does the proxy.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", shared.server_port)).await {
                    serve(client, server, mode, &shared.trap).await;
                }
            }
        })?;
        Ok(Self { listening, shared })
    }

    /// Where clients connect.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port())
    }

    /// The port of that address at 127.0.0.1. What is forwarded need not be PostgreSQL's protocol,
    /// but for [`cut_after`](Self::cut_after).
    pub fn port(&self) -> u16 {
        self.listening.port
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
