//! Finding a connection pooler between this program and the server.
//!
//! A server announces the number of its process to each new session, for requests to cancel. A
//! pooler receives these requests itself and announces a number of its own, so where the two differ
//! there is one. Whether it gives every transaction another session cannot be queried; it shows
//! when two connections take turns and are served by the same process, or one of them by several.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::CancelToken;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// What to do about a pooler that does not keep sessions.
pub(crate) const REMEDY: &str = "connect to the server itself, or to a pool that keeps sessions \
                                 (PgBouncer: pool_mode=session); with MAILROOM_WAKE=poll `mailroom \
                                 collect` of the queue `deliveries` needs neither, and of other \
                                 commands only `migrate` does";

/// What to do about an error that only a pooler causes; empty for others.
pub(crate) fn hint(refusal: &DbError) -> String {
    if [&SqlState::INVALID_SQL_STATEMENT_NAME, &SqlState::DUPLICATE_PSTATEMENT]
        .contains(&refusal.code())
    {
        let cause = "a pooler in between gives each transaction another session, \
                     which loses prepared statements";
        return format!("; {cause}: {REMEDY}");
    }
    if refusal.message().starts_with("transaction blocks not allowed") {
        return "; a pooler in between gives each statement another session: name a pool of \
                transactions or of sessions (PgBouncer: pool_mode=transaction)"
            .to_owned();
    }
    if refusal.message().starts_with("unsupported startup parameter") {
        return "; a pooler in between passes no settings on to the server: take `options` out of \
                MAILROOM_DATABASE_URL and PGOPTIONS, and set them for the role, as by ALTER ROLE … \
                SET search_path = …"
            .to_owned();
    }
    String::new()
}

/// The process that was announced when a connection was made.
pub(crate) async fn announced_process(token: &CancelToken) -> Option<i32> {
    // The library returns the number in a request to cancel only; this one is not sent.
    let mut request = Request::default();
    token.cancel_query_raw(&mut request, Unencrypted).await.ok()?;
    // At its end are the process and the key, of four bytes each.
    let (rest, _key) = request.0.split_last_chunk::<4>()?;
    rest.last_chunk().copied().map(i32::from_be_bytes)
}

/// A stream that keeps what is written to it, and answers yes to a request for encryption.
#[derive(Default)]
struct Request(Vec<u8>);

struct Unencrypted;

impl<'a> TlsConnect<&'a mut Request> for Unencrypted {
    type Stream = &'a mut Request;
    type Error = Infallible;
    type Future = Ready<Result<Self::Stream, Infallible>>;

    fn connect(self, stream: &'a mut Request) -> Self::Future {
        ready(Ok(stream))
    }
}

impl TlsStream for &mut Request {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Request {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        out.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Request {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
