//! Hears the database announce tokens, on a connection of its own.
//!
//! The connection is read at all times, whatever the output does: a listener that stops reading makes the server keep
//! notifications for it, and vacuum wait. A notification is a hint to look, never a count, because the server merges
//! those of one transaction. Tokens that were announced while nobody listened are found because each new connection
//! counts as a hint, once it listens.
//!
//! The same connection holds the lock by which writers know that this collector sleeps ([`crate::sleeper`]).

use std::convert::Infallible;
use std::future::pending;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use crate::backoff::Backoff;
use crate::outage::Outage;
use crate::postgres::{self, ConnectionSettings, Session, SessionOptions, explain};
use crate::sleeper::Attendant;

const SETTINGS: &str = include_str!("listener_settings.sql");

/// How often the connection is asked something, and how long the answer is waited for. Together they are how late a
/// connection that died without a word is noticed.
const QUESTION_INTERVAL: Duration = Duration::from_secs(4);
const ANSWER: Duration = Duration::from_secs(5);

/// A connection that lasted this long was a success.
const LASTED: Duration = Duration::from_secs(1);

/// The task that listens, ended when this is dropped.
#[derive(Debug)]
pub struct Listener {
    hints: watch::Receiver<u64>,
    task: JoinHandle<Infallible>,
}

impl Listener {
    /// Starts listening on `channel`, and goes on for ever. The connection is asked something at least every
    /// `healthcheck_interval`. `attendant` is given if writers announce only while somebody sleeps.
    pub fn start(
        connection: ConnectionSettings,
        channel: &str,
        healthcheck_interval: Duration,
        attendant: Option<Attendant>,
    ) -> Self {
        let (sender, hints) = watch::channel(0);
        let listening = Listening {
            connection,
            // Quoted, so that any name is one, and none is more than that.
            statement: format!("LISTEN \"{}\"", channel.replace('"', "\"\"")),
            channel: channel.to_owned(),
            question_interval: QUESTION_INTERVAL.min(healthcheck_interval),
            hints: sender,
        };
        Self { hints, task: tokio::spawn(listening.run(attendant)) }
    }

    /// The number of hints so far, to be watched.
    pub fn hints(&self) -> watch::Receiver<u64> {
        self.hints.clone()
    }

    /// Waits until nothing is heard any more. That is a fault of this program: an outage does not end it.
    pub async fn ended(&mut self) {
        (&mut self.task).await.ok();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Listening {
    connection: ConnectionSettings,
    statement: String,
    channel: String,
    question_interval: Duration,
    hints: watch::Sender<u64>,
}

impl Listening {
    async fn run(self, mut attendant: Option<Attendant>) -> Infallible {
        let mut backoff = Backoff::default();
        let mut outage = Outage::of("listening");
        loop {
            let connecting = Box::pin(self.connect());
            let cause = match while_refusing(attendant.as_mut(), connecting).await {
                Ok(session) => {
                    let connected = Instant::now();
                    let cause = self.listen(session, attendant.as_mut(), &mut outage).await;
                    if connected.elapsed() >= LASTED {
                        backoff.reset();
                    }
                    cause
                }
                Err(cause) => cause,
            };
            outage.failed(&cause, Instant::now());
            while_refusing(attendant.as_mut(), sleep(backoff.pause())).await;
        }
    }

    async fn connect(&self) -> Result<Session, String> {
        let options = SessionOptions {
            application_name: "mailroom collect (listener)",
            statement_timeout: Some(ANSWER),
            needs_session: true,
        };
        postgres::connect(&self.connection, &options).await.map_err(|error| error.to_string())
    }

    /// Listens until the connection is lost; returns why it is.
    async fn listen(
        &self,
        session: Session,
        attendant: Option<&mut Attendant>,
        outage: &mut Outage,
    ) -> String {
        let Session { client, mut connection, .. } = session;
        let hints = self.hints.clone();
        // In a task of its own, so that it is read also while a question waits for its answer.
        let mut reading = AbortOnDrop(tokio::spawn(async move {
            loop {
                match connection.notification().await {
                    Some(Ok(_)) => hints.send_modify(|count| *count += 1),
                    Some(Err(error)) => return explain(&error),
                    None => return "the connection is closed".to_owned(),
                }
            }
        }));
        for statement in [SETTINGS, &self.statement] {
            if let Err(cause) = ask(&client, statement).await {
                return cause;
            }
        }
        // Only now, when nothing can be missed any more, is it time to look for what was.
        self.hints.send_modify(|count| *count += 1);
        if !outage.over(Instant::now()) {
            tracing::info!(event = "listening", "listening on `{}`", self.channel);
        }
        let questions = async {
            loop {
                sleep(self.question_interval).await;
                if let Err(cause) = ask(&client, "SELECT 1").await {
                    return cause;
                }
            }
        };
        tokio::select! {
            cause = questions => cause,
            cause = serve(attendant, &client, self.hints.subscribe()) => cause,
            ended = &mut reading.0 => ended.unwrap_or_else(|error| error.to_string()),
        }
    }
}

/// Does `work` while nobody can sleep.
async fn while_refusing<T>(attendant: Option<&mut Attendant>, work: impl Future<Output = T>) -> T {
    let Some(attendant) = attendant else { return work.await };
    tokio::select! {
        never = attendant.refuse() => match never {},
        done = work => done,
    }
}

async fn serve(attendant: Option<&mut Attendant>, client: &Client, hints: watch::Receiver<u64>) -> String {
    let Some(attendant) = attendant else { return pending().await };
    match attendant.serve(client, hints, ANSWER).await {
        Ok(never) => match never {},
        Err(Some(error)) => explain(&error),
        Err(None) => no_answer(),
    }
}

async fn ask(client: &Client, statement: &str) -> Result<(), String> {
    match timeout(ANSWER, client.batch_execute(statement)).await {
        Ok(answer) => answer.map_err(|error| explain(&error)),
        Err(_) => Err(no_answer()),
    }
}

fn no_answer() -> String {
    format!("no answer within {} s", ANSWER.as_secs())
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
