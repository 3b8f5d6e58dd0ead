//! An established connection.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, Client, Error, Notification, Socket};

use super::authentication::GuardedStream;

/// What the caller wants of a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionOptions<'a> {
    /// Shown in `pg_stat_activity`, unless the settings name the application.
    pub application_name: &'a str,
    /// After this time the server cancels a statement, whatever else is set for user or database;
    /// not through a pooler, unless the session is kept.
    pub statement_timeout: Option<Duration>,
    /// Whether statements rely on session state: a lock, a prepared statement, LISTEN. Then
    /// [`connect`](crate::connect) fails through a pooler
    /// that gives each transaction another session.
    pub needs_session: bool,
}

/// A session on a server.
///
/// Nothing happens on it, not even a query of `client`, unless `connection` is driven: by
/// [`Connection::spawn`] or, to receive notifications, by [`Connection::notification`] in a loop.
pub struct Session {
    /// Sends queries. The connection ends when it is dropped.
    pub client: Client,
    /// Moves the bytes.
    pub connection: Connection,
    /// Whether what a statement sets is there for the next one. Through a pooler it is known only
    /// if [`SessionOptions::needs_session`] was set, and false otherwise.
    pub keeps_state: bool,
    /// Which server answered, for log lines: a socket's path, or host, address and port.
    pub server: String,
}

/// The half of a session that reads and writes.
pub struct Connection(pub(crate) tokio_postgres::Connection<Socket, GuardedStream>);

impl Connection {
    /// Drives the connection in a task of its own. The client's next call reports why the
    /// connection ended.
    pub fn spawn(self) -> JoinHandle<()> {
        tokio::spawn(async move {
            self.run().await.ok();
        })
    }

    /// Drives the connection until the client is dropped; notifications are not kept.
    ///
    /// # Errors
    ///
    /// The connection was lost: the server went away, ended the session,
    /// or did not answer for too long.
    pub async fn run(mut self) -> Result<(), Error> {
        self.drive(log).await
    }

    /// The same, and passes on each notice of the server before the answer that it belongs to.
    pub async fn run_with(mut self, on_notice: impl FnMut(&DbError)) -> Result<(), Error> {
        self.drive(on_notice).await
    }

    /// Drives the connection until a notification arrives; `None` when the client was dropped and
    /// all is sent.
    ///
    /// Nothing is lost when the returned future is dropped.
    /// After `None` or an error it must not be called again.
    pub async fn notification(&mut self) -> Option<Result<Notification, Error>> {
        loop {
            match self.message().await? {
                Err(error) => return Some(Err(error)),
                Ok(AsyncMessage::Notification(notification)) => return Some(Ok(notification)),
                Ok(AsyncMessage::Notice(notice)) => log(&notice),
                Ok(_) => {}
            }
        }
    }

    /// The value that the server reports for a setting, such as `server_version`.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.0.parameter(name)
    }

    /// Waits for a query while driving the connection.
    pub(crate) async fn wait_for<T>(
        &mut self,
        query: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut query = pin!(query);
        tokio::select! {
            biased;
            answer = &mut query => return answer,
            ended = self.drive(log) => ended?,
        }
        // The client is alive, so that the connection has no reason to end; the query knows more.
        query.await
    }

    async fn drive(&mut self, mut on_notice: impl FnMut(&DbError)) -> Result<(), Error> {
        while let Some(message) = self.message().await {
            if let AsyncMessage::Notice(notice) = message? {
                on_notice(&notice);
            }
        }
        Ok(())
    }

    async fn message(&mut self) -> Option<Result<AsyncMessage, Error>> {
        poll_fn(|context| self.0.poll_message(context)).await
    }
}

fn log(notice: &DbError) {
    tracing::debug!(
        event = "notice",
        severity = notice.severity(),
        code = notice.code().code(),
        reason = %notice.message(),
        "the server says"
    );
}
