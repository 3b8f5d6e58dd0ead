//! A connection that holds the queue: the same session claims, advances and owns the lock.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, Statement};

use super::page::CLAIM;
use super::survey::SURVEY;
use crate::postgres::{self, ConnectionSettings, SessionOptions};
use crate::preflight;
use crate::queue::QueueError;
use crate::queue::answer::{ANSWER, answer, column};

const SETTINGS: &str = include_str!("../settings.sql");
const INSPECT: &str = include_str!("inspect.sql");
const HOLDER: &str = include_str!("holder.sql");
const BEGIN: &str = include_str!("begin.sql");
const ADVANCE: &str = include_str!("advance.sql");

/// How long the server gets to end a session that was told to.
const PARTING: Duration = Duration::from_secs(2);

/// A session on the queue, which holds its lock once it was taken.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    driver: JoinHandle<()>,
    queue: String,
    pub(super) claim: Statement,
    pub(super) survey: Statement,
    advance: Statement,
    lock: i64,
    process: i32,
    started: String,
    /// Which server answers, for log lines.
    pub(super) server: String,
}

/// What tells an earlier session of this process from those of others.
#[derive(Debug)]
pub(super) struct PastSession {
    process: i32,
    started: String,
}

impl Session {
    /// Connects and checks that the queue is there.
    pub(super) async fn open(connection: &ConnectionSettings, queue: &str) -> Result<Self, QueueError> {
        let options = SessionOptions {
            application_name: "mailroom collect",
            statement_timeout: Some(ANSWER),
            needs_session: true,
        };
        let connected = postgres::connect(connection, &options).await;
        let session = connected.map_err(|error| QueueError::Unavailable(error.to_string()))?;
        let (client, server) = (session.client, session.server);
        let driver = tokio::spawn(async move {
            // The next call of the client reports why the connection ended.
            session.connection.run().await.ok();
        });
        Self::prepare(client, driver, server, queue).await
    }

    /// Takes the queue's lock, from an earlier session of this process if need be.
    ///
    /// Tried, not waited for: a statement that waits keeps a snapshot, and vacuum would wait with it.
    pub(super) async fn take_lock(&mut self, past: Option<&PastSession>) -> Result<(), QueueError> {
        if self.try_lock().await? {
            return Ok(());
        }
        let (process, started) = past.map(|past| (past.process, past.started.as_str())).unzip();
        let Some(holder) = answer(self.client.query_opt(HOLDER, &[&self.lock, &process, &started])).await?
        else {
            return Err(QueueError::Taken("another collector has just ended".to_owned()));
        };
        let holder_process: i32 = column(&holder, 0)?;
        if !column::<bool>(&holder, 1)? {
            return Err(QueueError::Taken(format!(
                "another collector has the queue `{}`, by the server's process {holder_process}; waiting for it to end",
                self.queue
            )));
        }
        // The server has not noticed that the earlier connection of this very process is gone.
        answer(self.client.execute("SELECT pg_terminate_backend($1)", &[&holder_process])).await?;
        let freed = timeout(PARTING, async {
            while !self.try_lock().await? {
                sleep(Duration::from_millis(20)).await;
            }
            Ok::<_, QueueError>(())
        });
        freed.await.unwrap_or_else(|_| {
            Err(QueueError::Unavailable("the earlier connection of this collector does not end".to_owned()))
        })
    }

    /// Reads where the cursor stands. Nobody else moves it as long as this session lives.
    pub(super) async fn begin(&mut self) -> Result<i64, QueueError> {
        let rows = answer(self.client.query(BEGIN, &[&self.queue])).await?;
        let row = rows.first().ok_or_else(|| unknown_queue(&self.queue, ""))?;
        column(row, 0)
    }

    /// Moves the cursor, if it still is at `from` and this session still has the lock.
    pub(super) async fn advance(&mut self, from: i64, to: i64) -> Result<(), QueueError> {
        let moved =
            answer(self.client.execute(&self.advance, &[&self.queue, &to, &from, &self.lock])).await?;
        if moved == 1 {
            return Ok(());
        }
        Err(QueueError::Unavailable(format!(
            "the cursor is no longer at {from}, or this session no longer has the lock of the queue; if nobody set the \
             cursor by hand, look for another collector and for a connection pool in between, which must keep sessions"
        )))
    }

    /// Closes the connection. The server frees the lock when it notices.
    pub(super) fn end(self) -> PastSession {
        self.driver.abort();
        PastSession { process: self.process, started: self.started.clone() }
    }

    async fn prepare(
        client: Client,
        driver: JoinHandle<()>,
        server: String,
        queue: &str,
    ) -> Result<Self, QueueError> {
        answer(client.batch_execute(SETTINGS)).await?;
        if let Some(fault) = answer(preflight::lacking(&client, preflight::OF_CURSORS)).await? {
            return Err(QueueError::Unusable(fault));
        }
        let row = answer(client.query_one(INSPECT, &[&queue])).await?;
        if column(&row, 0)? {
            return Err(QueueError::Unavailable(
                "the server is a standby, where the cursor cannot be moved; connect to the primary, for instance with \
                 target_session_attrs=read-write"
                    .to_owned(),
            ));
        }
        if let Some(others) = column::<Option<String>>(&row, 1)? {
            return Err(unknown_queue(queue, &others));
        }
        if column(&row, 5)? {
            return Err(superseded());
        }
        Ok(Self {
            queue: queue.to_owned(),
            claim: answer(client.prepare(CLAIM)).await?,
            survey: answer(client.prepare(SURVEY)).await?,
            advance: answer(client.prepare(ADVANCE)).await?,
            lock: column(&row, 2)?,
            process: column(&row, 3)?,
            started: column(&row, 4)?,
            server,
            client,
            driver,
        })
    }

    async fn try_lock(&self) -> Result<bool, QueueError> {
        let row = answer(self.client.query_one("SELECT pg_try_advisory_lock($1)", &[&self.lock])).await?;
        column(&row, 0)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The schema has another queue, which sends the same tokens.
pub(super) fn superseded() -> QueueError {
    QueueError::Superseded(
        "the tokens of this database are queued in the table pending, and the queue `cursor` would send them a second \
         time; set MAILROOM_QUEUE_KIND to `deliveries`, or unset it"
            .to_owned(),
    )
}

fn unknown_queue(queue: &str, others: &str) -> QueueError {
    let others = if others.is_empty() { "no row at all".to_owned() } else { others.to_owned() };
    QueueError::Unusable(format!(
        "there is no queue `{queue}`: MAILROOM_QUEUE_NAME or --queue-name must name a row of the table jobs, which has \
         {others}"
    ))
}
