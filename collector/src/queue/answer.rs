//! Waiting for the database's answers, and reading them.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::FromSql;

use super::QueueError;
use crate::postgres;

/// The longest that any answer is waited for.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// The longest that a statement may take by the server's clock. Shorter, so that the server can say so and the session goes on.
pub(super) const STATEMENT: Duration = Duration::from_secs(8);

/// The longest that the answer to a question is waited for which costs the server nothing. A connection that died without a
/// word is found by it.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// Waits for the server, but not for ever.
pub(super) async fn answer<T>(
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, QueueError> {
    answer_unless(&[], work).await?.ok_or_else(|| unexpected("nothing"))
}

/// Waits for a sign of life.
pub(super) async fn sign_of_life(
    question: impl Future<Output = Result<(), tokio_postgres::Error>>,
) -> Result<(), QueueError> {
    match timeout(SIGN_OF_LIFE, question).await {
        Ok(answer) => answer.map_err(|error| explain(&error)),
        Err(_) => Err(no_answer(SIGN_OF_LIFE)),
    }
}

/// Waits for the server, but not for ever; `None` for an error with one of these codes, which leaves the session usable.
pub(super) async fn answer_unless<T>(
    codes: &[SqlState],
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<Option<T>, QueueError> {
    match timeout(ANSWER, work).await {
        Ok(Ok(value)) => Ok(Some(value)),
        Ok(Err(error)) if error.code().is_some_and(|code| codes.contains(code)) => Ok(None),
        Ok(Err(error)) => Err(explain(&error)),
        Err(_) => Err(no_answer(ANSWER)),
    }
}

/// Waits for the server, but not for ever; the inner error is what it says if it refuses, after which the session goes on.
pub(super) async fn answer_or_refusal<T>(
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<Result<T, String>, QueueError> {
    match timeout(ANSWER, work).await {
        Ok(Ok(value)) => Ok(Ok(value)),
        Ok(Err(error)) if error.as_db_error().is_some() => Ok(Err(explain(&error).to_string())),
        Ok(Err(error)) => Err(explain(&error)),
        Err(_) => Err(no_answer(ANSWER)),
    }
}

fn no_answer(limit: Duration) -> QueueError {
    QueueError::Unavailable(format!("no answer within {} s", limit.as_secs()))
}

/// Only the message of an error is shown: its detail can quote rows.
fn explain(error: &tokio_postgres::Error) -> QueueError {
    let Some(refusal) = error.as_db_error() else {
        return QueueError::Unavailable(format!("the connection is lost: {}", postgres::explain(error)));
    };
    let (code, message) = (refusal.code(), refusal.message());
    if [
        &SqlState::UNDEFINED_TABLE,
        &SqlState::UNDEFINED_COLUMN,
        &SqlState::UNDEFINED_OBJECT,
        &SqlState::UNDEFINED_FUNCTION,
        &SqlState::DATATYPE_MISMATCH,
    ]
    .contains(&code)
    {
        QueueError::Unusable(format!(
            "the database has no schema that this queue can use ({message}); run `mailroom migrate up`, or name the \
             right database and schema in MAILROOM_DATABASE_URL, or set MAILROOM_QUEUE_KIND to `cursor` for a schema from \
             before migration 15"
        ))
    } else if code == &SqlState::INSUFFICIENT_PRIVILEGE {
        QueueError::Unusable(format!(
            "the database user lacks a privilege ({message}); of the queue `deliveries` it needs EXECUTE on \
             mailroom_exchange, mailroom_tend, mailroom_tidy and mailroom_prospect, of the queue `cursor` SELECT on accounts and tokens, \
             and SELECT and UPDATE on jobs"
        ))
    } else {
        QueueError::Unavailable(postgres::explain(error))
    }
}

pub(super) fn unexpected(what: &str) -> QueueError {
    QueueError::Unavailable(format!("the server answered {what}"))
}

pub(super) fn count(row: &Row, index: usize) -> Result<usize, QueueError> {
    usize::try_from(column::<i64>(row, index)?).map_err(|_| unexpected("a negative count"))
}

pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, QueueError> {
    row.try_get(index).map_err(|_| {
        QueueError::Unusable(format!(
            "the database's schema has another type in column {index} of a query than this queue expects; run `mailroom \
             migrate up`"
        ))
    })
}
