//! Backups, one after the other.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use mailroom_tests::postgres::Cluster;

/// How fast a backup reads, as a careful operator sets it.
const MAX_RATE: &str = "--max-rate=20M";

/// How often it is looked whether one has ended.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Backups {
    end: Sender<()>,
    running: JoinHandle<Result<u32>>,
}

impl Backups {
    /// `pg_basebackup` of the whole server, whose result is thrown away.
    pub(super) fn start(server: &Cluster) -> Self {
        let program = server.installation().programs.join("pg_basebackup");
        let place = server.socket_dir().display();
        let dsn = format!("host={place} port={} user=postgres", server.port());
        let (end, ends) = channel();
        let running = thread::spawn(move || {
            let mut made = 0;
            loop {
                let mut command = Command::new(&program);
                command.args(["--pgdata=-", "--format=tar", "--wal-method=none", MAX_RATE]);
                command.args(["--dbname", &dsn]).stdin(Stdio::null()).stdout(Stdio::null());
                let mut backup = Running(command.spawn().context("pg_basebackup is missing")?);
                let status = loop {
                    if let Some(status) = backup.0.try_wait()? {
                        break status;
                    }
                    if ends.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
                        return Ok(made);
                    }
                };
                ensure!(status.success(), "pg_basebackup ended with {status}");
                made += 1;
            }
        });
        Self { end, running }
    }

    /// Ends the one that runs; returns how many were made.
    pub(super) fn stop(self) -> Result<u32> {
        drop(self.end);
        self.running.join().map_err(|_| anyhow!("a thread of this benchmark has failed"))?
    }
}

/// Killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
