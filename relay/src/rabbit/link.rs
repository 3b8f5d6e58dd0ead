//! A connection to one of the servers, which is made anew when it is lost, and what they say in
//! sentences.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::queues::Queues;
use super::wire::Wire;
use crate::broker::Fault;

/// How long an answer of the broker is waited for: less than a collector waits for its sender.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long a broker may take to make all queues.
const DECLARING: Duration = Duration::from_secs(15);

/// How long it is waited at least until a broker that is away is tried again.
const PAUSE: Duration = Duration::from_millis(300);

/// How long a message may be: less than each version of the broker takes. A longer one ends the
/// channel, and the confirmations of others with it.
const LONGEST: usize = 15 << 20;

/// A connection, which comes back when it is asked for.
pub(super) struct Link {
    pub(super) queues: Queues,
    /// How long a message may be: the broker may be told to take less than usual, as long as it
    /// runs.
    pub(super) longest: AtomicUsize,
    servers: Vec<AMQPUri>,
    wire: Wire,
    name: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// By which the verdicts were claimed last.
    claimed: Option<Weak<Connection>>,
    /// Which server is tried next.
    next: usize,
    failed: Option<(Instant, Fault)>,
}

impl Link {
    pub(super) fn new(queues: Queues, servers: Vec<AMQPUri>, wire: Wire, name: &str) -> Self {
        let (longest, name) = (AtomicUsize::new(LONGEST), name.to_owned());
        Self { queues, longest, servers, wire, name, state: Mutex::default() }
    }

    /// A new channel of a connection of which all queues are there.
    pub(super) async fn channel(&self) -> Result<Channel, Fault> {
        let connection = self.connection().await?;
        match timeout(PATIENCE, connection.create_channel()).await {
            Ok(created) => created.map_err(|error| fault(&error)),
            Err(_) => Err(self.give_up(&connection).await),
        }
    }

    /// Does without a connection that carries nothing more: whoever comes next would wait for it as
    /// long, one after another. It stays open for what was given out by it.
    async fn give_up(&self, silenced: &Arc<Connection>) -> Fault {
        let mut state = self.state.lock().await;
        if state.connection.take_if(|known| Arc::ptr_eq(known, silenced)).is_some() {
            state.next = state.next.wrapping_add(1);
            state.failed = Some((Instant::now(), silent()));
        }
        silent()
    }

    /// Lets all queues be looked for again, by a new connection.
    pub(super) async fn forget(&self) {
        self.state.lock().await.connection = None;
    }

    /// Claims the verdicts for a ledger, once on each connection: a broker that has lost all it had
    /// may be another ledger's now.
    pub(super) async fn claim(&self, ledger: &str) -> Result<(), Fault> {
        let connection = self.connection().await?;
        let claiming = Arc::downgrade(&connection);
        if self.state.lock().await.claimed.as_ref().is_some_and(|known| known.ptr_eq(&claiming)) {
            return Ok(());
        }
        self.queues.claim(&connection, ledger).await?;
        self.state.lock().await.claimed = Some(claiming);
        Ok(())
    }

    /// Whether the server takes no messages for now. A connection that was lost during an alarm
    /// knows nothing of its end.
    pub(super) async fn is_blocked(&self) -> bool {
        let state = self.state.lock().await;
        state.connection.as_ref().is_some_and(|connection| {
            let status = connection.status();
            status.connected() && status.blocked()
        })
    }

    async fn connection(&self) -> Result<Arc<Connection>, Fault> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            if connection.status().connected() {
                return Ok(Arc::clone(connection));
            }
            state.connection = None;
        }
        // Hundreds of mails ask at a time.
        if let Some((at, fault)) = &state.failed
            && at.elapsed() < PAUSE
        {
            return Err(fault.clone());
        }
        let server = &self.servers[state.next % self.servers.len()];
        match self.connect(server).await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                state.failed = None;
                self.longest.store(LONGEST, Ordering::Relaxed);
                state.connection = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(fault) => {
                state.next = state.next.wrapping_add(1);
                state.failed = Some((Instant::now(), fault.clone()));
                Err(fault)
            }
        }
    }

    async fn connect(&self, server: &AMQPUri) -> Result<Connection, Fault> {
        let properties =
            ConnectionProperties::default().with_connection_name(self.name.as_str().into());
        let connection = answered(self.wire.connect(server.clone(), properties)).await?;
        let declared = timeout(DECLARING, self.queues.declare(&connection)).await;
        declared.map_err(|_| silent())??;
        Ok(connection)
    }
}

/// Waits for an answer of the broker.
pub(super) async fn answered<T>(
    future: impl Future<Output = lapin::Result<T>>,
) -> Result<T, Fault> {
    timeout(PATIENCE, future).await.map_err(|_| silent())?.map_err(|error| fault(&error))
}

fn silent() -> Fault {
    Fault::Away("the broker does not answer".to_owned())
}

/// What is said of a fault of the broker.
pub(super) fn fault(error: &lapin::Error) -> Fault {
    Fault::Away(sentence(error))
}

fn sentence(error: &lapin::Error) -> String {
    let ErrorKind::ProtocolError(error) = error.kind() else {
        return format!("the broker cannot be reached: {error}");
    };
    let said = error.get_message();
    match error.kind() {
        AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => format!(
            "the broker does not let its user into the virtual host: name one at the end of the \
             URL that is there, and grant it to the user ({said})"
        ),
        // Of a login, and of what a user may do.
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) if said.as_str().contains("Login") => {
            "the broker does not know the user or its password: correct --user and \
             --password-file, or let the broker know them"
                .to_owned()
        }
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => format!(
            "the broker's user may not do what is needed: grant it to configure, write and read \
             what begins with the name of the queue ({said})"
        ),
        _ => format!("the broker refuses what it is asked for: {said}"),
    }
}
