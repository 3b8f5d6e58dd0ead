//! Signals: SIGTERM and SIGINT end the collector in order, a second one at once; SIGHUP reads the keys again.

use std::io;
use std::process;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::sink;

/// Whether the collector is to end.
pub type Stop = watch::Receiver<bool>;

/// Waits until the collector is to end.
pub async fn stopped(stop: &mut Stop) {
    // Without a sender nobody can ask for the end any more, which is an end too.
    stop.wait_for(|stop| *stop).await.ok();
}

/// The task that hears SIGTERM and SIGINT.
#[derive(Debug)]
pub struct Signals {
    stop: Arc<watch::Sender<bool>>,
    task: JoinHandle<()>,
}

impl Signals {
    /// Told of the first signal.
    pub fn stop(&self) -> Stop {
        self.stop.subscribe()
    }

    /// Ends the collector as a first signal would, when `true` is sent.
    pub fn stopper(&self) -> Arc<watch::Sender<bool>> {
        Arc::clone(&self.stop)
    }

    #[cfg(test)]
    pub(crate) fn abort(&self) {
        self.task.abort();
    }

    /// Waits until no signal is heard any more. That is a fault of this program.
    pub async fn ended(&mut self) {
        (&mut self.task).await.ok();
    }
}

/// From now on a first SIGTERM or SIGINT is told, and a second one ends the process with status 1.
pub fn on_signals() -> io::Result<Signals> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = Arc::new(watch::Sender::new(false));
    let sender = Arc::clone(&stop);
    let task = tokio::spawn(async move {
        let name = either(&mut terminate, &mut interrupt).await;
        tracing::info!(
            event = "stop_requested",
            signal = name,
            "finishing what is on its way to the reader; a second signal ends at once"
        );
        sender.send_replace(true);
        let name = either(&mut terminate, &mut interrupt).await;
        tracing::warn!(
            event = "stop_forced",
            signal = name,
            "ending at once; lines that the reader has not taken go out again"
        );
        sink::kill_running_sender();
        process::exit(1);
    });
    Ok(Signals { stop, task })
}

/// Calls `reload` at every SIGHUP from now on.
///
/// The task that is returned ends only by a fault of this program.
pub fn on_hangup(mut reload: impl FnMut() + 'static + Send) -> io::Result<JoinHandle<()>> {
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
