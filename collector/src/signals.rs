//! SIGTERM and SIGINT: the first signal stops the collector gracefully, a second one at once.
//! SIGHUP: reads keys again.

use std::convert::Infallible;
use std::io;
use std::process;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::sink::kill_running_sender;

/// From now on a first SIGTERM or SIGINT cancels `stop`; a second one kills the sender and ends the
/// process with status 1.
pub(crate) fn on_termination(
    stop: CancellationToken,
) -> io::Result<impl Future<Output = Infallible>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let name = either(&mut terminate, &mut interrupt).await;
        tracing::info!(
            event = "stop_requested",
            signal = name,
            "finishing what is on its way to the reader; a second signal ends at once"
        );
        stop.cancel();
        let name = either(&mut terminate, &mut interrupt).await;
        tracing::warn!(
            event = "stop_forced",
            signal = name,
            "ending at once; lines that the reader has not taken go out again"
        );
        kill_running_sender();
        process::exit(1)
    })
}

/// Calls `reload` at every SIGHUP from now on.
pub(crate) fn on_hangup(mut reload: impl FnMut()) -> io::Result<impl Future<Output = Infallible>> {
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        loop {
            hangup.recv().await.expect("signals come for as long as the process lives");
            reload();
        }
    })
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
