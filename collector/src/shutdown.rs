//! Signals: SIGTERM and SIGINT end the collector in order, a second one at once; SIGHUP reads the keys again.

use std::io;
use std::process;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Whether the collector is to end.
pub type Stop = watch::Receiver<bool>;

/// Waits until the collector is to end.
pub async fn stopped(stop: &mut Stop) {
    // Without a sender nobody can ask for the end any more, which is an end too.
    stop.wait_for(|stop| *stop).await.ok();
}

/// From now on a first SIGTERM or SIGINT is told, and a second one ends the process with status 1.
pub fn on_signals() -> io::Result<Stop> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, stop) = watch::channel(false);
    tokio::spawn(async move {
        let name = either(&mut terminate, &mut interrupt).await;
        tracing::info!("{name}: finishing what is on its way to the reader; a second signal ends at once");
        sender.send_replace(true);
        let name = either(&mut terminate, &mut interrupt).await;
        tracing::warn!("{name} again: ending at once; lines that the reader has not taken go out again");
        process::exit(1);
    });
    Ok(stop)
}

/// Calls `reload` at every SIGHUP from now on.
pub fn on_hangup(mut reload: impl FnMut() + 'static + Send) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            reload();
        }
    });
    Ok(())
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
