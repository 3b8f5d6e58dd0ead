//! Listens for notifications of tokens, on a connection of its own.
//!
//! The connection is read at all times, whatever the output does: the server keeps notifications
//! that a listener does not read, and vacuum waits. A notification wakes the collector and is never
//! taken for a count of tokens, because the server merges those of one transaction. Each new
//! connection counts as a wake-up once it listens, so that tokens announced before are found.
//!
//! The same session holds the idle lock ([`crate::wake::idle_lock`]).

use std::convert::Infallible;
use std::time::{Duration, Instant};

use mailroom_connect::{ConnectionSettings, SchemaClient, Session, SessionOptions, explain};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::Error;

use super::idle_lock::IdleLockHolder;
use crate::log::outage::OutageLog;
use mailroom_pace::{Backoff, MAX_CONNECT_PAUSE};

const SETTINGS: &str = include_str!("../session_settings.sql");

/// How long the session waits for the response to any of its statements.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest interval of the ping that, with the timeout of its response,
/// detects half-open connections.
const PING_INTERVAL: Duration = Duration::from_secs(4);

/// A connection that lasted this long was a success.
const LASTED: Duration = Duration::from_secs(1);

/// The task that listens, ended when this is dropped.
pub struct Listener {
    /// The number of wake-ups so far, to be watched.
    pub wakeups: watch::Receiver<u64>,
    /// An outage does not end it.
    pub(crate) task: JoinSet<Infallible>,
}

impl Listener {
    /// Starts listening on `channel`, until it is dropped. The connection is pinged at least every
    /// `healthcheck_interval`.
    pub fn start(
        connection: ConnectionSettings,
        channel: &str,
        healthcheck_interval: Duration,
        idle_lock: IdleLockHolder,
    ) -> Self {
        let (wakeups, receiver) = watch::channel(0);
        let listening = Listening {
            connection,
            channel: channel.to_owned(),
            ping_interval: PING_INTERVAL.min(healthcheck_interval),
            wakeups,
            outage: OutageLog::of("listening"),
            idle_lock,
        };
        Self { wakeups: receiver, task: JoinSet::from_iter([listening.run()]) }
    }
}

struct Listening {
    connection: ConnectionSettings,
    channel: String,
    ping_interval: Duration,
    wakeups: watch::Sender<u64>,
    outage: OutageLog,
    idle_lock: IdleLockHolder,
}

impl Listening {
    async fn run(mut self) -> Infallible {
        const OPTIONS: SessionOptions<'_> = SessionOptions {
            application_name: "mailroom collect (listener)",
            statement_timeout: Some(RESPONSE_TIMEOUT),
            needs_session: true,
        };
        let mut backoff = Backoff::up_to(MAX_CONNECT_PAUSE);
        loop {
            let connecting = Box::pin(mailroom_connect::connect(&self.connection, &OPTIONS));
            let cause = match self.idle_lock.refuse_during(connecting).await {
                Ok(session) => {
                    let connected = Instant::now();
                    let cause = self.listen(session).await;
                    if connected.elapsed() >= LASTED {
                        backoff.reset();
                    }
                    cause
                }
                Err(error) => error.to_string(),
            };
            self.outage.failed(&cause, Instant::now());
            self.idle_lock.refuse_during(sleep(backoff.pause())).await;
        }
    }

    /// Listens until the connection is lost; returns why it is.
    async fn listen(&mut self, session: Session) -> String {
        let Session { client, mut connection, .. } = session;
        let client = SchemaClient { raw: client, schema: self.connection.schema.clone() };
        let wakeups = self.wakeups.clone();
        // In a task of its own, so that it is read also while a statement waits for its response.
        let mut reading = JoinSet::from_iter([async move {
            loop {
                match connection.notification().await {
                    Some(Ok(_)) => wakeups.send_modify(|count| *count += 1),
                    Some(Err(error)) => return explain(&error),
                    None => return "the connection is closed".to_owned(),
                }
            }
        }]);
        // Quoted, so that any name is one, and none is more than that.
        let listen = format!("LISTEN \"{}\"", self.channel.replace('"', "\"\""));
        for statement in [SETTINGS, &listen] {
            if let Err(cause) = response(client.raw.batch_execute(statement)).await {
                return cause;
            }
        }
        // Only from here on nothing is missed.
        self.wakeups.send_modify(|count| *count += 1);
        if !self.outage.over(Instant::now()) {
            tracing::info!(event = "listening", "listening on `{}`", self.channel);
        }
        let pinging = async {
            loop {
                sleep(self.ping_interval).await;
                if let Err(cause) = response(client.raw.batch_execute("SELECT 1")).await {
                    return cause;
                }
            }
        };
        tokio::select! {
            cause = pinging => cause,
            cause = self.idle_lock.serve(&client, self.wakeups.subscribe()) => cause,
            Some(ended) = reading.join_next() => ended.unwrap_or_else(|error| error.to_string()),
        }
    }
}

pub(super) async fn response<T>(
    statement: impl Future<Output = Result<T, Error>>,
) -> Result<T, String> {
    match timeout(RESPONSE_TIMEOUT, statement).await {
        Ok(response) => response.map_err(|error| explain(&error)),
        Err(_) => Err(format!("no answer within {} s", RESPONSE_TIMEOUT.as_secs())),
    }
}
