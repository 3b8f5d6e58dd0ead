//! Finding a connection pooler between this program and the server.
//!
//! A server tells each new session the number of its process, for requests to cancel. A pooler has these requests sent to itself
//! and tells a number of its own, so where the two differ there is one. Whether it gives every transaction another session cannot
//! be asked; it shows when two connections take turns and are served by the same process, or one of them by several.

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
pub(super) const MEND: &str = "connect to the server itself, or to a pool that keeps sessions (PgBouncer: pool_mode=session); only \
     `mailroom collect` of the queue `deliveries` with MAILROOM_WAKE=poll, `status`, `retry` and `prune` do without";

/// What a server's refusal says about the way to it, if it is known for one.
pub(super) fn hint(refusal: &DbError) -> Option<String> {
    if [&SqlState::INVALID_SQL_STATEMENT_NAME, &SqlState::DUPLICATE_PSTATEMENT].contains(&refusal.code()) {
        return Some(format!(
            "a pooler in between gives each transaction another session, which loses prepared statements: {MEND}"
        ));
    }
    refusal.message().starts_with("unsupported startup parameter").then(|| {
        "a pooler in between passes no settings on to the server: take `options` out of MAILROOM_DATABASE_URL and PGOPTIONS, \
         and set them for the role, as by ALTER ROLE … SET search_path = …"
            .to_owned()
    })
}

/// The process that a connection was told to be served by.
pub(super) async fn process_told(token: &CancelToken) -> Option<i32> {
    // The library hands the number out in a request to cancel only; this one goes nowhere.
    let mut request = Request::default();
    token.cancel_query_raw(&mut request, Unencrypted).await.ok()?;
    // At its end are the process and the key, of four bytes each.
    let (rest, _key) = request.0.split_last_chunk::<4>()?;
    rest.last_chunk().copied().map(i32::from_be_bytes)
}

/// Keeps what is written, and agrees to encryption when it is asked for it.
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
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        out.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Request {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
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
