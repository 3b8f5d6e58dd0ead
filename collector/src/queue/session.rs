//! A session on the server, and its answers.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use mailroom_connect::sqlstate::{WRONG_SCHEMA, is_in};
use mailroom_connect::{ConnectionSettings, SchemaClient, Session, SessionOptions};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::FromSql;
use tokio_postgres::{Error, Row};

use super::QueueError;
use crate::preflight::{self, Requirements};

const SETTINGS: &str = include_str!("../session_settings.sql");

pub(super) const ANSWER: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct QueueSession {
    pub(super) client: SchemaClient,
    /// Which server answers, for log lines.
    pub(super) server: String,
    pub(super) is_unicode: bool,
    /// Ended with the session.
    _driver: JoinSet<Result<(), Error>>,
}

impl QueueSession {
    /// Connects to a primary, and finds out whether the database has what the queue needs.
    pub(super) async fn open(
        settings: &ConnectionSettings,
        statement_timeout: Duration,
        needs_session: bool,
        required: Requirements<'_>,
    ) -> Result<Self, QueueError> {
        let options = SessionOptions {
            application_name: "mailroom collect",
            statement_timeout: Some(statement_timeout),
            needs_session,
        };
        let connected = mailroom_connect::connect(settings, &options).await;
        let connected = connected.map_err(|error| QueueError::Unavailable(error.to_string()))?;
        let Session { client, connection, server, keeps_state } = connected;
        let is_unicode = connection.parameter("server_encoding") == Some("UTF8");
        let client = SchemaClient { raw: client, schema: settings.schema.clone() };
        let session =
            Self { client, server, is_unicode, _driver: JoinSet::from_iter([connection.run()]) };
        if keeps_state {
            answer(session.client.raw.batch_execute(SETTINGS)).await?;
        }
        // First: a standby that lags behind may lack what the primary has.
        let is_standby =
            answer(session.client.query_typed_one("SELECT pg_is_in_recovery()", &[])).await?;
        if column(&is_standby, 0)? {
            return Err(QueueError::Unavailable(
                "the server is a standby, where nothing can be claimed; connect to the primary, \
                 for instance with target_session_attrs=read-write"
                    .to_owned(),
            ));
        }
        if let Some(fault) = answer(preflight::missing(&session.client, required)).await? {
            return Err(QueueError::Unusable(fault));
        }
        Ok(session)
    }
}

pub(super) async fn answer<T>(
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, QueueError> {
    Ok(answer_within(ANSWER, work).await??)
}

/// Waits for an answer until a timeout. The inner error may be one after which the session goes on.
pub(super) async fn answer_within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<Result<T, Error>, QueueError> {
    let no_answer = |_| QueueError::Unavailable(format!("no answer within {} s", limit.as_secs()));
    timeout(limit, work).await.map_err(no_answer)
}

/// Only the message of an error is shown: its detail can quote rows.
impl From<Error> for QueueError {
    fn from(error: Error) -> Self {
        match error.as_db_error() {
            // `preflight`, which runs when the queue is opened again, names what is missing.
            Some(refusal) if is_in(&WRONG_SCHEMA, refusal.code().code()) => {
                Self::Unusable(format!(
                    "the database has no schema that this queue can use ({}); run `mailroom \
                     migrate up`, or name the right database and schema in MAILROOM_DATABASE_URL \
                     and MAILROOM_SCHEMA, or set MAILROOM_QUEUE_KIND to `cursor` for the base \
                     schema",
                    refusal.message()
                ))
            }
            _ => Self::Unavailable(mailroom_connect::explain(&error)),
        }
    }
}

pub(super) fn not_open() -> QueueError {
    QueueError::Unavailable("there is no connection to the database".to_owned())
}

pub(super) fn unexpected(what: &str) -> QueueError {
    QueueError::Unavailable(format!("the server answered {what}"))
}

/// A count, which the server has as a signed `N`.
pub(super) fn count<'a, N: FromSql<'a>, T: TryFrom<N>>(
    row: &'a Row,
    place: impl RowIndex + Display + Copy,
) -> Result<T, QueueError> {
    T::try_from(column::<N>(row, place)?).map_err(|_| unexpected("a negative count"))
}

/// A column, by its name where a row has many of them.
pub(super) fn column<'a, T: FromSql<'a>>(
    row: &'a Row,
    place: impl RowIndex + Display + Copy,
) -> Result<T, QueueError> {
    row.try_get(place).map_err(|_| {
        QueueError::Unusable(format!(
            "the database's schema has another type in column {place} of a query than this queue \
             expects; run `mailroom migrate up`"
        ))
    })
}
