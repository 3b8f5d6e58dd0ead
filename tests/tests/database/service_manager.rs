//! What the collector tells systemd by `sd_notify(3)`.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mailroom_tests::collector::{self, Collector, PATIENCE, wait_until};
use mailroom_tests::mailer::Mailer;
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::recorder::Recorder;
use mailroom_tests::rows::register;
use rustix::process::Signal;

/// The service manager's end.
struct Manager(UnixDatagram);

impl Manager {
    /// Reads until a message has this line, and returns the lines before it.
    fn until(&self, wanted: &str) -> Result<Vec<String>> {
        let (began, mut lines, mut bytes) = (Instant::now(), Vec::new(), [0; 4_096]);
        loop {
            let received = self.0.recv(&mut bytes);
            let length = received.with_context(|| format!("no `{wanted}` after {lines:?}"))?;
            for line in String::from_utf8(bytes[..length].to_vec())?.lines() {
                if line == wanted {
                    return Ok(lines);
                }
                lines.push(line.to_owned());
            }
            ensure!(began.elapsed() < PATIENCE, "no `{wanted}` after {PATIENCE:?}: {lines:?}");
        }
    }
}

#[tokio::test]
async fn systemd_hears_of_the_start_of_each_state_of_life_and_of_the_end() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("notify");
    let manager = Manager(UnixDatagram::bind(&path)?);
    manager.0.set_read_timeout(Some(PATIENCE))?;
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let mut command = collector::command(database.url())?;
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "3000000");
    // A sender that answers nothing for a while, so that the end takes as long.
    command.args(["--batch-timeout", "0", "--sender", "sh -c 'read -r line; sleep 5'"]);
    let collector = Collector::start(&mut command)?;

    ensure!(manager.until("READY=1")?.is_empty(), "the start is said first");
    manager.until("STATUS=collecting")?;
    cluster.stop(Shutdown::Immediate)?;
    // An outage is no reason to be started again.
    manager.until("STATUS=the database is away, read-only or a standby")?;
    for _ in 0..3 {
        manager.until("WATCHDOG=1")?;
    }
    cluster.start_again()?;
    manager.until("STATUS=collecting")?;
    register(&database.connect().await?, 1..=1).await?;
    wait_until(|| collector.sender().is_ok_and(|sender| sender.is_some()))?;
    collector.signal(Signal::TERM)?;
    manager.until("STOPPING=1")?;
    Ok(())
}

/// `systemctl status` is where somebody looks first whose mails do not come.
#[tokio::test]
async fn systemd_hears_that_the_sender_is_away_and_that_it_is_back() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("notify");
    let manager = Manager(UnixDatagram::bind(&path)?);
    manager.0.set_read_timeout(Some(PATIENCE))?;
    let database = Database::migrated()?;
    let recorder = Recorder::new()?;
    let mailer = Mailer::start(Path::new(env!("CARGO_BIN_EXE_relay")), &recorder)?;
    let works = folder.path().join("works");
    let sender = mailer.command("one");
    let script = format!("test -e {} || exit 1; exec {sender}", works.display());
    let mut command = collector::command(database.url())?;
    command.env("NOTIFY_SOCKET", &path).args(["--sender", &format!("sh -c '{script}'")]);
    let collector = Collector::start(&mut command)?;
    register(&database.connect().await?, 1..=1).await?;
    manager.until("STATUS=the sender is unavailable, and mails wait")?;
    fs::write(&works, "")?;
    manager.until("STATUS=collecting").with_context(|| collector.log())?;
    collector.signal(Signal::KILL)?;
    Ok(())
}

#[test]
fn a_manager_that_does_not_read_keeps_nobody_from_collecting() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path)?;
    // Until it is full; to send waits from then on.
    let other = UnixDatagram::unbound()?;
    other.set_nonblocking(true)?;
    while other.send_to(b"X=1", &path).is_ok() {}
    let database = Database::migrated()?;
    let mut command = collector::command(database.url())?;
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "3000000");
    let collector = Collector::start(&mut command)?;
    collector.wait_until_it_collects()?;
    std::thread::sleep(Duration::from_secs(2));
    collector.stop()?;
    drop(manager);
    Ok(())
}
