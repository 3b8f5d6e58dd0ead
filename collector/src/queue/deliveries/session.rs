//! The session on which the database's functions are called.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use mailroom_connect::ConnectionSettings;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::preflight;
use crate::queue::QueueError;
use crate::queue::session::{QueueSession, answer, answer_within, column, not_open};

/// The longest that a statement may take by the server's clock. Shorter than the wait for its answer, so that the server can
/// answer that it gave up, and the session goes on.
const STATEMENT: Duration = Duration::from_secs(8);

/// The timeout of the ping that detects dead connections.
const PING: Duration = Duration::from_secs(5);

/// A statement goes out with a ping if the server was sent nothing for this long.
const SILENCE: Duration = Duration::from_millis(100);

pub(super) type SqlParameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The session, if there is one. Through a pooler every statement may have another one of the server, so nothing is prepared:
/// what the functions do is planned once a session anyhow.
#[derive(Debug)]
pub(super) struct Link {
    session: Option<QueueSession>,
    /// When the server was last sent anything.
    pub(super) used: Instant,
}

impl Link {
    /// To be opened.
    pub(super) fn new() -> Self {
        Self { session: None, used: Instant::now() }
    }

    /// Replaces the session; returns the server's name.
    pub(super) async fn open(&mut self, connection: &ConnectionSettings) -> Result<String, QueueError> {
        self.session = None;
        let session = QueueSession::open(connection, STATEMENT, false, preflight::OF_COLLECTORS);
        let session = Box::pin(session).await?;
        let is_current = "SELECT to_regproc('trg_after_account_email_change') IS NOT NULL";
        let is_current = answer(session.client.query_typed_one(is_current, &[])).await?;
        if !column::<bool>(&is_current, 0)? {
            return Err(QueueError::Unusable(
                "the database has a schema from before migration 19; run `mailroom migrate up`".to_owned(),
            ));
        }
        Ok(self.session.insert(session).server.clone())
    }

    /// Whether the database takes all characters.
    pub(super) fn is_unicode(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_unicode)
    }

    /// Runs `work`, a single statement. The session is lost on an error: whatever state it is in, a new one is in a known state.
    pub(super) async fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&QueueSession) -> Result<T, QueueError>,
    ) -> Result<T, QueueError> {
        let session = self.session.as_ref().ok_or_else(not_open)?;
        let outcome = if self.used.elapsed() < SILENCE {
            work(session).await
        } else {
            Box::pin(with_ping(session, work(session))).await
        };
        if outcome.is_err() {
            self.session = None;
        }
        self.used = Instant::now();
        outcome
    }

    /// Runs a statement and returns what `read` makes of its rows.
    pub(super) async fn query<T>(
        &mut self,
        sql: &str,
        parameters: &[SqlParameter<'_>],
        read: impl FnOnce(&[Row]) -> Result<T, QueueError>,
    ) -> Result<T, QueueError> {
        self.run(async |session| read(&answer(session.client.query_typed(sql, parameters)).await?)).await
    }
}

/// Finds out whether the server still answers.
pub(super) async fn ping(session: &QueueSession) -> Result<(), QueueError> {
    Ok(answer_within(PING, session.client.batch_execute("SELECT 1")).await??)
}

/// Runs `work` behind a ping: a statement may take its time, and the ping shows much sooner that the connection is dead. Both are
/// sent at once, so that nothing waits for the ping.
async fn with_ping<T>(
    session: &QueueSession,
    work: impl Future<Output = Result<T, QueueError>>,
) -> Result<T, QueueError> {
    let (mut ping, mut work) = (pin!(ping(session)), pin!(work));
    tokio::select! {
        // In the order in which they are sent, and answered.
        biased;
        alive = &mut ping => alive?,
        done = &mut work => return done,
    }
    work.await
}
