//! An established connection: what carries queries, and what hears the server.

use std::error::Error as _;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, CancelToken, Client, Error, Notification, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{TlsStream, pooler};

/// What the caller wants of a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionOptions<'a> {
    /// Shown in `pg_stat_activity`, unless the settings name the application.
    pub application_name: &'a str,
    /// After this time the server breaks off a statement, whatever else is set for user or database; not through a pooler,
    /// unless the session is kept.
    pub statement_timeout: Option<Duration>,
    /// Whether statements rely on the session of those before: a lock, a prepared statement, LISTEN. It is refused then by a
    /// pooler that gives each transaction another one.
    pub needs_session: bool,
}

/// What a server refuses, or how the connection was lost. Without the detail, which can quote rows.
pub fn explain(error: &Error) -> String {
    let Some(refusal) = error.as_db_error() else {
        return error.source().map_or_else(|| error.to_string(), ToString::to_string);
    };
    let hint = pooler::hint(refusal).map_or_else(String::new, |hint| format!("; {hint}"));
    format!("the server says: {} (SQLSTATE {}){hint}", refusal.message(), refusal.code().code())
}

/// A session on a server.
///
/// Nothing happens on it, not even a query of `client`, unless `connection` is driven: by [`Connection::run`]
/// in a task of its own or, to hear notifications, by [`Connection::notification`] in a loop.
#[derive(Debug)]
pub struct Session {
    /// Sends queries. The connection ends when it is dropped.
    pub client: Client,
    /// Moves the bytes.
    pub connection: Connection,
    /// Breaks off what the session is doing.
    pub canceller: Canceller,
    /// Whether what a statement sets is there for the next one. Known only if it was asked for where a pooler is in between,
    /// and false there otherwise.
    pub keeps_state: bool,
    /// Which server answered, for log lines: a socket's path, or host, address and port.
    pub server: String,
}

/// The half of a session that reads and writes.
pub struct Connection(tokio_postgres::Connection<Socket, TlsStream>);

impl Connection {
    pub(super) fn new(connection: tokio_postgres::Connection<Socket, TlsStream>) -> Self {
        Self(connection)
    }

    /// Drives the connection until the client is dropped; notifications are not kept.
    ///
    /// # Errors
    ///
    /// The connection was lost: the server went away, ended the session, or did not answer for too long.
    pub async fn run(self) -> Result<(), Error> {
        self.run_with(log).await
    }

    /// The same, and hands over what the server has to say beside its answers, before the answer that it belongs to.
    ///
    /// # Errors
    ///
    /// As [`Connection::run`].
    pub async fn run_with(mut self, mut note: impl FnMut(&DbError)) -> Result<(), Error> {
        while let Some(message) = poll_fn(|context| self.0.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message? {
                note(&notice);
            }
        }
        Ok(())
    }

    /// Drives the connection until a notification arrives; `None` when the client was dropped and all is
    /// sent.
    ///
    /// Nothing is lost when the returned future is dropped. After `None` or an error it must not be called
    /// again.
    pub async fn notification(&mut self) -> Option<Result<Notification, Error>> {
        poll_fn(|context| self.poll_notification(context)).await
    }

    /// The same for callers that poll.
    pub fn poll_notification(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Notification, Error>>> {
        loop {
            match ready!(self.0.poll_message(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    return Poll::Ready(Some(Ok(notification)));
                }
                Some(Ok(AsyncMessage::Notice(notice))) => log(&notice),
                Some(Ok(_)) => {}
            }
        }
    }

    /// The value that the server reports for a setting, such as `server_version`.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.0.parameter(name)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").finish_non_exhaustive()
    }
}

fn log(notice: &DbError) {
    let (severity, code) = (notice.severity(), notice.code().code());
    tracing::debug!(event = "notice", severity, code, reason = %notice.message(), "the server says");
}

/// Asks the server to break off what a session is doing, over a connection of its own.
#[derive(Clone)]
pub struct Canceller {
    token: CancelToken,
    tls: MakeRustlsConnect,
}

impl Canceller {
    pub(super) fn new(token: CancelToken, tls: MakeRustlsConnect) -> Self {
        Self { token, tls }
    }

    /// Sends the request. The session's statement fails, unless it is finished before the request arrives.
    ///
    /// # Errors
    ///
    /// The server cannot be reached. A server that does not answer is waited for; bound the time from
    /// outside.
    pub async fn cancel(&self) -> Result<(), Error> {
        self.token.cancel_query(self.tls.clone()).await
    }
}

impl std::fmt::Debug for Canceller {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Canceller").finish_non_exhaustive()
    }
}
