//! A session on which the database's functions are called.

use std::time::{Duration, Instant, SystemTime};

use mailroom_connect::ConnectionSettings;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::preflight;
use crate::queue::QueueError;
use crate::queue::session::{QueueSession, answer, answer_within, column, not_open};

/// A statement gets less time than its answer, so that the server itself reports a timeout and the
/// session goes on.
const STATEMENT: Duration = Duration::from_secs(8);

const PING: Duration = Duration::from_secs(5);

/// A statement goes out with a ping if the server was sent nothing for this long.
const SILENCE: Duration = Duration::from_millis(100);

const IS_CURRENT: &str = include_str!("is_current.sql");

pub(super) type SqlParameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The session, if there is one. Through a pooler, every statement may run in another server
/// session, so nothing is prepared: the functions' own statements are planned once
/// a server session anyhow.
#[derive(Debug)]
pub(super) struct SessionSlot {
    session: Option<QueueSession>,
    pub(super) used: Instant,
}

impl SessionSlot {
    pub(super) fn new() -> Self {
        Self { session: None, used: Instant::now() }
    }

    /// Replaces the session; returns the server's name, and when it was started,
    /// which tells servers apart.
    pub(super) async fn open(
        &mut self,
        connection: &ConnectionSettings,
    ) -> Result<(String, SystemTime), QueueError> {
        self.session = None;
        let session = QueueSession::open(connection, STATEMENT, false, preflight::OF_COLLECTORS);
        let session = Box::pin(session).await?;
        let is_current = answer(session.client.query_typed_one(IS_CURRENT, &[])).await?;
        if !column::<bool>(&is_current, 0)? {
            return Err(QueueError::Unusable(
                "the database has the base schema; run `mailroom migrate up`".to_owned(),
            ));
        }
        let started_at = column(&is_current, 1)?;
        Ok((self.session.insert(session).server.clone(), started_at))
    }

    pub(super) fn is_open(&self) -> bool {
        self.session.is_some()
    }

    pub(super) fn is_unicode(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_unicode)
    }

    /// Runs `work`. The session is lost on an error: whatever state it is in,
    /// a new one is in a known state.
    pub(super) async fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&QueueSession) -> Result<T, QueueError>,
    ) -> Result<T, QueueError> {
        let session = self.session.as_ref().ok_or_else(not_open)?;
        let outcome = if self.used.elapsed() < SILENCE {
            work(session).await
        } else {
            // A statement may take its time, and the ping shows much sooner that the connection is
            // dead. Both are sent at once, in this order, so that nothing waits for the ping.
            Box::pin(async { tokio::try_join!(biased; ping(session), work(session)) })
                .await
                .map(|((), done)| done)
        };
        if outcome.is_err() {
            self.session = None;
        }
        self.used = Instant::now();
        outcome
    }

    pub(super) async fn query(
        &mut self,
        sql: &str,
        parameters: &[SqlParameter<'_>],
    ) -> Result<Vec<Row>, QueueError> {
        self.run(async |session| answer(session.client.query_typed(sql, parameters)).await).await
    }
}

/// The rows of a statement. A statement that is not wanted has no rows.
pub(super) async fn rows_if(
    is_wanted: bool,
    session: &QueueSession,
    sql: &str,
    parameters: &[SqlParameter<'_>],
) -> Result<Vec<Row>, QueueError> {
    if is_wanted {
        answer(session.client.query_typed(sql, parameters)).await
    } else {
        Ok(Vec::new())
    }
}

pub(super) async fn ping(session: &QueueSession) -> Result<(), QueueError> {
    Ok(answer_within(PING, session.client.raw.batch_execute("SELECT 1")).await??)
}

pub(super) fn integer(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
