//! A sender that the test controls: its input goes to a file, its output is what the test writes.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use mailroom_tests::collector::wait_until;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Appends its process id and its input to files, and copies a named pipe to its output.
const SCRIPT: &str = r#"
    echo $$ >> "$0/started"
    exec 3<&0
    cat <&3 >> "$0/lines" & exec 3<&-
    exec cat "$0/answers"
"#;

/// The files and the pipe of such a sender.
pub(crate) struct TestSender {
    folder: TempDir,
    answers: File,
    read: usize,
}

/// A batch as a sender gets it.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) name: String,
    pub(crate) knows: Vec<Value>,
    pub(crate) items: Vec<Value>,
}

impl Batch {
    /// The ids of its tokens.
    pub(crate) fn ids(&self) -> Vec<i64> {
        self.items.iter().filter_map(|item| item["id"].as_i64()).collect()
    }

    /// The attempts of its tokens.
    pub(crate) fn attempts(&self) -> Vec<i64> {
        self.items.iter().filter_map(|item| item["attempt"].as_i64()).collect()
    }
}

impl TestSender {
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let pipe = folder.path().join("answers");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        fs::write(folder.path().join("lines"), "")?;
        // For both, so that it neither waits for a sender nor ends with one.
        let answers = OpenOptions::new().read(true).write(true).open(&pipe)?;
        Ok(Self { folder, answers, read: 0 })
    }

    /// The value of `--sender`.
    pub(crate) fn command(&self) -> String {
        format!("bash -c '{SCRIPT}' {}", self.folder.path().display())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How many batches it got that the test has not read.
    pub(crate) fn unseen(&self) -> Result<usize> {
        Ok(self.lines()?.lines().count() - self.read)
    }

    fn lines(&self) -> Result<String> {
        let text = fs::read_to_string(self.path("lines"))?;
        Ok(text[..text.rfind('\n').map_or(0, |end| end + 1)].to_owned())
    }

    /// The next batch that it gets.
    pub(crate) fn next_batch(&mut self) -> Result<Batch> {
        wait_until(|| self.unseen().is_ok_and(|count| count > 0)).context("no batch comes")?;
        let lines = self.lines()?;
        let line = lines.lines().nth(self.read).context("there is one")?;
        self.read += 1;
        let batch: Value = serde_json::from_str(line)?;
        let name = batch["batch"].as_str().context("a batch has a name")?.to_owned();
        let knows = batch["knows"].as_array().cloned().unwrap_or_default();
        Ok(Batch {
            name,
            knows,
            items: batch["items"].as_array().context("a batch has items")?.clone(),
        })
    }

    /// Writes a line.
    pub(crate) fn write_line(&mut self, line: &str) -> Result<()> {
        Ok(self.answers.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Answers for a batch; `rest` are the fields behind its name.
    pub(crate) fn answer(&mut self, batch: &Batch, rest: &str) -> Result<()> {
        self.write_line(&format!("{{\"batch\":\"{}\",{rest}}}", batch.name))
    }

    /// Acknowledges the next batch, which has a single token.
    pub(crate) fn pass_the_trial(&mut self) -> Result<Batch> {
        let batch = self.next_batch()?;
        assert_eq!(batch.items.len(), 1, "a sender on trial gets one token");
        self.answer(&batch, "\"ok\":\"all\"")?;
        Ok(batch)
    }

    /// The processes that were started as this sender so far.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.path("started")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Waits until it was started `times` times.
    pub(crate) fn wait_for_start(&self, times: usize) -> Result<()> {
        wait_until(|| self.processes().len() >= times).with_context(|| format!("start {times}"))
    }

    /// Whether the process that was started last is gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.processes().last().is_none_or(|id| {
            let status = fs::read_to_string(format!("/proc/{id}/stat"));
            status.map_or(true, |status| status.contains(") Z "))
        })
    }

    /// Sends a signal to the process that was started last.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let process = self.processes().last().copied().and_then(Pid::from_raw);
        Ok(kill_process(process.context("it was never started")?, signal)?)
    }
}
