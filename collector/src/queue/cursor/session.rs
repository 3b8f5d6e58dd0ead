//! A session that holds the queue: it claims, advances and owns the lock.

use std::time::Duration;

use mailroom_connect::ConnectionSettings;
use mailroom_verifier_core::Action;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use crate::preflight;
use crate::queue::session::{
    ANSWER, QueueSession, answer, answer_within, column, count, unexpected,
};
use crate::queue::{QueueError, Token};

const INSPECT: &str = include_str!("inspect.sql");
const HOLDER: &str = include_str!("holder.sql");
const BEGIN: &str = include_str!("begin.sql");
const ADVANCE: &str = include_str!("advance.sql");
const CLAIM: &str = include_str!("claim.sql");
const RECOVER_SKIPPED: &str = include_str!("recover_skipped.sql");

/// The longest that a transaction which changes a status, or makes a token, is believed to take.
pub(super) const SLOWEST_TRANSACTION: Duration = Duration::from_secs(60);

/// How long the server gets to end a session that is terminated.
const TERMINATION: Duration = Duration::from_secs(2);

const UNTRANSLATABLE: [SqlState; 2] =
    [SqlState::UNTRANSLATABLE_CHARACTER, SqlState::CHARACTER_NOT_IN_REPERTOIRE];

/// Columns to leave out when a text cannot be converted to UTF-8, in the order in which they are
/// tried to find the one at fault.
const UNREAD: [&[&str]; 5] = [&[], &["email"], &["login"], &["code"], &["email", "login", "code"]];

/// A session on the queue, which holds its lock once it was taken.
#[derive(Debug)]
pub(super) struct CursorSession {
    pub(super) connection: QueueSession,
    queue: String,
    claim: Statement,
    recover_skipped: Statement,
    advance: Statement,
    lock: i64,
    pub(super) backend: Backend,
}

/// Identifies a session among all that the server ever had: its process and when that started.
pub(super) type Backend = (i32, String);

#[derive(Debug)]
pub(super) struct Page {
    /// The tokens that can be sent now, in id order.
    pub(super) tokens: Vec<Token>,
    /// Tokens that are neither expired nor consumed, but whose account has the wrong status.
    pub(super) ineligible: Vec<i64>,
    /// The highest id that was read, or where reading began if there was no row.
    pub(super) through: i64,
    /// How many rows were read, whatever their state.
    pub(super) rows: usize,
}

impl Page {
    fn of(rows: &[Row]) -> Result<Self, QueueError> {
        let first = rows.first().ok_or_else(|| unexpected("a page without a row"))?;
        if column(first, 10)? {
            return Err(superseded());
        }
        let through = column(first, 0)?;
        let read = count::<i64, _>(first, 1)?;
        let mut page = Self {
            tokens: Vec::with_capacity(rows.len()),
            ineligible: Vec::new(),
            through,
            rows: read,
        };
        for row in rows {
            let Some(id) = column::<Option<i64>>(row, 2)? else { continue };
            if !column::<bool>(row, 3)? {
                page.ineligible.push(id);
                continue;
            }
            let action = Action::from_database_value(column(row, 4)?);
            page.tokens.push(Token {
                id,
                attempt: 1,
                doubts: 0,
                priority: None,
                action: action.map_err(|_| unexpected("an unknown action"))?,
                email: column(row, 5)?,
                login: column(row, 6)?,
                secret: column(row, 7)?,
                code: column(row, 8)?,
                expires_at: column(row, 9)?,
                language: None,
                payload: None,
                binding: None,
                traceparent: None,
            });
        }
        Ok(page)
    }
}

impl CursorSession {
    pub(super) async fn open(
        settings: &ConnectionSettings,
        queue: &str,
    ) -> Result<Self, QueueError> {
        let connection = QueueSession::open(settings, ANSWER, true, preflight::OF_CURSORS).await?;
        let client = &connection.client.raw;
        let row = answer(client.query_one(INSPECT, &[&queue])).await?;
        if let Some(others) = column::<Option<String>>(&row, 0)? {
            return Err(unknown_queue(queue, &others));
        }
        if column(&row, 4)? {
            return Err(superseded());
        }
        Ok(Self {
            queue: queue.to_owned(),
            claim: answer(client.prepare(CLAIM)).await?,
            recover_skipped: answer(client.prepare(RECOVER_SKIPPED)).await?,
            advance: answer(client.prepare(ADVANCE)).await?,
            lock: column(&row, 1)?,
            backend: (column(&row, 2)?, column(&row, 3)?),
            connection,
        })
    }

    /// Takes the queue's lock, from an earlier session of this process if need be.
    ///
    /// The lock is tried, not waited for: a statement that waits keeps a snapshot,
    /// which holds vacuum back.
    pub(super) async fn take_lock(&self, past: Option<&Backend>) -> Result<(), QueueError> {
        if self.try_lock().await? {
            return Ok(());
        }
        let client = &self.connection.client.raw;
        let (pid, started) = past.map(|(pid, started)| (pid, started.as_str())).unzip();
        let holder = answer(client.query_opt(HOLDER, &[&self.lock, &pid, &started])).await?;
        let Some(holder) = holder else {
            return Err(QueueError::Locked("another collector has just ended".to_owned()));
        };
        let pid: i32 = column(&holder, 0)?;
        if !column::<bool>(&holder, 1)? {
            return Err(QueueError::Locked(format!(
                "another collector has the queue `{}`, by the server's process {pid}; \
                 waiting for it to end",
                self.queue
            )));
        }
        // The server has not noticed that the earlier connection of this process was lost.
        answer(client.execute("SELECT pg_terminate_backend($1::integer)", &[&pid])).await?;
        let freed = timeout(TERMINATION, async {
            while !self.try_lock().await? {
                sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        });
        freed.await.unwrap_or_else(|_| {
            Err(QueueError::Unavailable(
                "the earlier connection of this collector does not end".to_owned(),
            ))
        })
    }

    async fn try_lock(&self) -> Result<bool, QueueError> {
        let lock = "SELECT pg_try_advisory_lock($1::bigint)";
        column(&answer(self.connection.client.raw.query_one(lock, &[&self.lock])).await?, 0)
    }

    /// Reads where the cursor stands. No other collector moves it as long as this session lasts.
    pub(super) async fn begin(&self) -> Result<i64, QueueError> {
        let rows = answer(self.connection.client.raw.query(BEGIN, &[&self.queue])).await?;
        column(rows.first().ok_or_else(|| unknown_queue(&self.queue, ""))?, 0)
    }

    /// Moves the cursor, if it still is at `from` and this session still has the lock.
    pub(super) async fn advance(&self, from: i64, to: i64) -> Result<(), QueueError> {
        let parameters: [&(dyn ToSql + Sync); 4] = [&self.queue, &to, &from, &self.lock];
        if answer(self.connection.client.raw.execute(&self.advance, &parameters)).await? == 1 {
            return Ok(());
        }
        Err(QueueError::Unavailable(format!(
            "the cursor is no longer at {from}, or this session no longer has the lock of the \
             queue; if nobody set the cursor by hand, look for another collector and for a \
             connection pool in between, which must keep sessions"
        )))
    }

    /// Reads the `limit` rows after the id `after`, and the rows with the ids `again`.
    ///
    /// The server refuses a statement for one text that has no UTF-8 form. The page is `None` then,
    /// and a smaller one is to be read. In a page of one row,
    /// such texts become bytes that are not UTF-8.
    pub(super) async fn read(
        &self,
        after: i64,
        limit: usize,
        again: &[i64],
    ) -> Result<Option<Page>, QueueError> {
        let rows = i64::try_from(limit).unwrap_or(i64::MAX);
        let is_single = limit + again.len() <= 1;
        for unread in &UNREAD[..if is_single { UNREAD.len() } else { 1 }] {
            let parameters: [&(dyn ToSql + Sync); 4] = [&after, &rows, &again, unread];
            match answer_within(ANSWER, self.connection.client.raw.query(&self.claim, &parameters))
                .await?
            {
                Err(error) if error.code().is_some_and(|code| UNTRANSLATABLE.contains(code)) => {}
                rows => return Page::of(&rows?).map(Some),
            }
        }
        if is_single { Err(unexpected("a row that it cannot convert to UTF-8")) } else { Ok(None) }
    }

    /// Reads the `limit` rows up to the id `through`, from the highest down, before a cursor. If a
    /// status was changed more than `slack` before the last token there,
    /// the reader had seen that change.
    pub(super) async fn skipped(
        &self,
        through: i64,
        limit: usize,
        cursor: i64,
        slack: Duration,
    ) -> Result<Vec<Row>, QueueError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let seconds = |span: Duration| i64::try_from(span.as_secs() + 1).unwrap_or(i64::MAX);
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&through, &limit, &cursor, &seconds(slack), &seconds(SLOWEST_TRANSACTION)];
        answer(self.connection.client.raw.query(&self.recover_skipped, &parameters)).await
    }
}

/// The schema has another queue, which sends the same tokens.
fn superseded() -> QueueError {
    QueueError::Superseded(
        "the tokens of this database are queued in Mailroom's table `queue`, and the queue \
         `cursor` would send them a second time; \
         set MAILROOM_QUEUE_KIND to `deliveries`, or unset it"
            .to_owned(),
    )
}

fn unknown_queue(queue: &str, others: &str) -> QueueError {
    let others = if others.is_empty() { "no row at all" } else { others };
    QueueError::Unusable(format!(
        "there is no queue `{queue}`: MAILROOM_QUEUE_NAME or --queue-name must name a row of the \
         table jobs, which has {others}"
    ))
}
