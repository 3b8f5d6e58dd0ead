//! The collector, run as a child.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom_tests::program;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

/// How long the collector may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) struct Collector {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    log: Lines<BufReader<ChildStderr>>,
}

/// Something the collector printed.
pub(crate) enum Printed {
    /// A line of tokens, on standard output.
    Line(String),
    /// What it says of itself, on standard error.
    Log(String),
}

impl Collector {
    /// Starts `mailroom collect`, which is told everything secret by its environment.
    pub(crate) fn start(database: &str, key: &str) -> Result<Self> {
        let mut command = program::mailroom()?;
        command.arg("collect");
        command.env("MAILROOM_DATABASE_URL", database).env("MAILROOM_SECRET_KEY", key);
        // A batch is out within a second, so that one need not wait for the next line.
        command.env("MAILROOM_BATCH_TIMEOUT", "1000");
        let mut command = Command::from(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the demonstration, which then stops the collector after what is on its way.
        let mut child = command.process_group(0).kill_on_drop(true).spawn().context("cannot run mailroom")?;
        let lines = BufReader::new(child.stdout.take().expect("the output is piped")).lines();
        let log = BufReader::new(child.stderr.take().expect("the log is piped")).lines();
        Ok(Self { child, lines, log })
    }

    /// What the collector prints next; `None` when it has ended. Nothing is lost when this is not waited for.
    pub(crate) async fn next(&mut self) -> Result<Option<Printed>> {
        let line = tokio::select! {
            line = self.lines.next_line() => line?,
            Ok(Some(log)) = self.log.next_line() => return Ok(Some(Printed::Log(log))),
        };
        match line {
            Some(line) => Ok(Some(Printed::Line(line))),
            // The reason of an end is in the log.
            None => Ok(self.log.next_line().await?.map(Printed::Log)),
        }
    }

    /// Asks the collector to end, as a service manager does.
    pub(crate) fn terminate(&self) -> Result<()> {
        let process = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        kill_process(process.context("the collector has ended")?, Signal::TERM)?;
        Ok(())
    }

    /// Waits for the end; anything but success is an error.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        let status = timeout(PATIENCE, self.child.wait()).await.context("the collector does not end")??;
        ensure!(status.success(), "the collector ended with {status}");
        Ok(())
    }
}
