//! The signals that end a server in order.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Comes when SIGTERM or SIGINT does, which end the process no more from now on.
///
/// # Errors
/// The signals cannot be waited for.
pub fn termination() -> io::Result<impl Future<Output = ()> + Send> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    })
}
