//! SIGTERM and SIGINT: the first ends the collector in order, a second one at once. SIGHUP: the keys are read again.

use std::io;
use std::process;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Whether the collector is to stop.
pub(crate) type Stop = watch::Receiver<bool>;

/// Waits until the collector is to stop.
pub(crate) async fn stopped(stop: &mut Stop) {
    // It fails when the sender was dropped, which is a reason to stop as well.
    stop.wait_for(|stop| *stop).await.ok();
}

/// From now on a first SIGTERM or SIGINT sends `true` to `stop`; a second one calls `clean_up` and ends the process with
/// status 1. The task ends only by a fault of this program.
pub(crate) fn on_termination(stop: watch::Sender<bool>, clean_up: fn()) -> io::Result<JoinHandle<()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(tokio::spawn(async move {
        let name = either(&mut terminate, &mut interrupt).await;
        tracing::info!(
            event = "stop_requested",
            signal = name,
            "finishing what is on its way to the reader; a second signal ends at once"
        );
        stop.send_replace(true);
        let name = either(&mut terminate, &mut interrupt).await;
        tracing::warn!(
            event = "stop_forced",
            signal = name,
            "ending at once; lines that the reader has not taken go out again"
        );
        clean_up();
        process::exit(1);
    }))
}

/// Calls `reload` at every SIGHUP from now on. The task ends only by a fault of this program.
pub(crate) fn on_hangup(mut reload: impl FnMut() + 'static + Send) -> io::Result<JoinHandle<()>> {
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            reload();
        }
    }))
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
