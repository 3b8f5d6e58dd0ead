//! What systemd is told: that the service has started, what it does, and that it is alive
//! (`sd_notify(3)`).

use std::env;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState::{Ready, Status, Stopping, Watchdog};

use crate::metrics::Metrics;

/// How often it is looked whether there is something to say.
const LOOK: Duration = Duration::from_secs(1);

/// From now on systemd is told, if it wants to know.
///
/// By a thread of its own: to say it can block, and whether tasks have their turn cannot be told by
/// one of them. The service counts as started at once, so that an outage of the database at the
/// boot of a machine is no failed start. Nothing depends on what systemd hears.
pub(crate) fn report(metrics: &Arc<Metrics>) -> io::Result<()> {
    if env::var_os("NOTIFY_SOCKET").is_none() {
        return Ok(());
    }
    let watchdog = sd_notify::watchdog_enabled();
    let pause = watchdog.map_or(LOOK, |limit| LOOK.min(limit / 3));
    let metrics = Arc::clone(metrics);
    let tell = move || {
        sd_notify::notify(&[Ready]).ok();
        let (mut said, mut is_stopping) = ("", false);
        loop {
            if metrics.health.is_ending() && !is_stopping {
                sd_notify::notify(&[Stopping]).ok();
                is_stopping = true;
            }
            let state = state(&metrics);
            if state != said {
                sd_notify::notify(&[Status(state)]).ok();
                said = state;
            }
            if watchdog.is_some() && metrics.health.hung().is_none() {
                sd_notify::notify(&[Watchdog]).ok();
            }
            thread::sleep(pause);
        }
    };
    thread::Builder::new().name("systemd".to_owned()).spawn(tell)?;
    Ok(())
}

/// What `systemctl status` shows.
fn state(metrics: &Metrics) -> &'static str {
    match metrics.health.trouble(None) {
        Some(trouble) => trouble,
        None if metrics.is_sender_unavailable() => "the sender is unavailable, and mails wait",
        None => "collecting",
    }
}
