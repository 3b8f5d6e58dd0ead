//! A running `mailroom collect`, its reader and its log.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::Location;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};

use crate::program;

/// The key that collectors of tests sign with, in hexadecimal.
pub const KEY: &str = "f0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";

/// How long anything is waited for that is to happen soon:
/// above what a busy machine needs, below a lease.
pub const PATIENCE: Duration = Duration::from_secs(80);

/// The same for work of many steps, such as a thousand mails, and no sooner because a lease ends.
const LONG_PATIENCE: Duration = Duration::from_secs(400);

/// A collector that is running, killed when this is dropped.
#[derive(Debug)]
pub struct Collector {
    child: Child,
    output: Option<ChildStdout>,
    log: Arc<Mutex<String>>,
    log_reader: Option<thread::JoinHandle<()>>,
}

/// `mailroom collect` on the queue of a database, with [`KEY`]; settings can be added.
pub fn command(database_url: &str) -> Result<Command> {
    let mut command = program::mailroom()?;
    command
        .arg("collect")
        .env("MAILROOM_DATABASE_URL", database_url)
        .env("MAILROOM_SECRET_KEY", KEY);
    Ok(command)
}

/// The same for the queue of a base schema, `cursor`.
pub fn on_base_schema(database_url: &str) -> Result<Command> {
    let mut command = command(database_url)?;
    command.env("MAILROOM_QUEUE_KIND", "cursor");
    Ok(command)
}

impl Collector {
    /// Starts it with a pipe for its lines. Nobody reads them until [`output`](Self::output) is
    /// taken or [`lines`](Self::lines) called.
    pub fn start(command: &mut Command) -> Result<Self> {
        Self::start_writing_to(command, Stdio::piped())
    }

    /// Starts it with its lines going elsewhere.
    pub fn start_writing_to(command: &mut Command, output: impl Into<Stdio>) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
        let mut child = command.spawn().context("the collector does not start")?;
        let mut errors = BufReader::new(child.stderr.take().context("standard error is a pipe")?);
        let log = Arc::new(Mutex::new(String::new()));
        let copy = Arc::clone(&log);
        let log_reader = thread::spawn(move || {
            let mut line = Vec::new();
            while errors.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                copy.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        Ok(Self { output: child.stdout.take(), child, log, log_reader: Some(log_reader) })
    }

    /// The reading end of the pipe with its lines.
    pub fn output(&mut self) -> Result<ChildStdout> {
        self.output.take().context("the output is not a pipe, or was taken already")
    }

    /// Reads its lines from now on, as fast as they come.
    pub fn lines(&mut self) -> Result<Lines> {
        Ok(Lines::of(self.output()?.into()))
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.locked_log().clone()
    }

    fn locked_log(&self) -> MutexGuard<'_, String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until its log contains `text`, `times` times.
    pub fn wait_for_log(&self, text: &str, times: usize) -> Result<()> {
        let logged = || self.locked_log().matches(text).count() >= times;
        wait_until(logged).with_context(|| format!("`{text}` is not in the log:\n{}", self.log()))
    }

    /// Waits until it collects.
    pub fn wait_until_it_collects(&self) -> Result<()> {
        self.wait_for_log("this collector has the queue", 1)
    }

    /// Its process's number.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The number of its sender's process, if it has one now.
    pub fn sender(&self) -> Result<Option<u32>> {
        let process = self.process();
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"))?;
        Ok(children.split_whitespace().next().map(str::parse).transpose()?)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(process.context("a process has a positive id")?, signal)?)
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for its end; returns how it ended and all that it logged.
    pub fn wait(mut self) -> Result<(ExitStatus, String)> {
        let ended = wait_until(|| self.child.try_wait().is_ok_and(|status| status.is_some()));
        ended.with_context(|| format!("the collector does not end; its log:\n{}", self.log()))?;
        let status = self.child.wait()?;
        if let Some(reader) = self.log_reader.take() {
            reader.join().ok();
        }
        Ok((status, self.log()))
    }

    /// Asks it to end, as a service manager does, and waits until it did so in order.
    pub fn stop(self) -> Result<String> {
        self.signal(Signal::TERM)?;
        let (status, log) = self.wait()?;
        ensure!(status.success(), "the collector ended with {status}; its log:\n{log}");
        Ok(log)
    }

    /// Ends it as the kernel does when memory runs out: in the middle of whatever it is doing.
    pub fn kill(mut self) -> Result<String> {
        self.child.kill()?;
        Ok(self.wait()?.1)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The lines of a collector, read by a thread.
#[derive(Debug)]
pub struct Lines {
    receiver: Receiver<Vec<u8>>,
}

/// A token as a line carries it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Item {
    /// 1 or 2.
    pub action: String,
    /// Where the mail goes.
    pub email: String,
    /// The account's login name.
    pub login: String,
    /// What the link carries.
    pub token: String,
    /// What the person types.
    pub code: String,
}

impl Lines {
    /// Reads `pipe` to its end.
    pub fn of(pipe: OwnedFd) -> Self {
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let mut pipe = BufReader::with_capacity(1 << 20, std::fs::File::from(pipe));
            loop {
                let mut line = Vec::new();
                match pipe.read_until(b'\n', &mut line) {
                    Ok(count) if count > 0 && sender.send(line).is_ok() => {}
                    _ => return,
                }
            }
        });
        Self { receiver }
    }

    /// The next line with its line feed.
    pub fn next_line(&self) -> Result<String> {
        let line = self.receiver.recv_timeout(PATIENCE).context("no line comes")?;
        Ok(String::from_utf8(line)?)
    }

    /// The tokens of the next line.
    pub fn next_batch(&self) -> Result<Vec<Item>> {
        items(&self.next_line()?)
    }

    /// The tokens of the next line, however long it takes; `None` when the output has ended.
    pub fn next_batch_or_end(&self) -> Result<Option<Vec<Item>>> {
        match self.receiver.recv() {
            Ok(line) => Ok(Some(items(&String::from_utf8(line)?)?)),
            Err(_) => Ok(None),
        }
    }

    /// The next tokens, of whole lines; as soon as there are `count`, not more are waited for.
    pub fn next_items(&self, count: usize) -> Result<Vec<Item>> {
        let mut all = Vec::new();
        while all.len() < count {
            let batch = self.next_batch();
            all.extend(batch.with_context(|| format!("{} of {count} tokens came", all.len()))?);
        }
        Ok(all)
    }

    /// Everything that comes until the collector has ended.
    /// A last line without its line feed is left out.
    pub fn rest(&self) -> Result<Vec<Item>> {
        let mut all = Vec::new();
        loop {
            match self.receiver.recv_timeout(PATIENCE) {
                Ok(line) if line.ends_with(b"\n") => all.extend(items(&String::from_utf8(line)?)?),
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(all),
                Err(RecvTimeoutError::Timeout) => bail!("the output does not end"),
            }
        }
    }

    /// Makes sure that nothing comes for a while.
    pub fn expect_none(&self, during: Duration) -> Result<()> {
        match self.receiver.recv_timeout(during) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => bail!("the collector has ended"),
            Ok(line) => bail!("a line came: {}", String::from_utf8_lossy(&line)),
        }
    }
}

/// The tokens of a line.
pub fn items(line: &str) -> Result<Vec<Item>> {
    let text = line.strip_suffix('\n').with_context(|| format!("no line feed ends {line:?}"))?;
    let fields: Vec<_> = text.split(',').map(str::to_owned).collect();
    ensure!(fields.len().is_multiple_of(5), "not five fields a token: {line:?}");
    let item = |fields: &[String]| {
        let [action, email, login, token, code] = fields else { unreachable!("chunks of five") };
        Item {
            action: action.clone(),
            email: email.clone(),
            login: login.clone(),
            token: token.clone(),
            code: code.clone(),
        }
    };
    Ok(fields.chunks(5).map(item).collect())
}

/// Reads one line byte by byte, so that nothing behind it is taken out of the pipe. Fails if it
/// does not come soon.
pub fn read_one_line(pipe: &mut (impl Read + AsFd)) -> Result<String> {
    read_one_line_within(pipe, PATIENCE)
}

fn read_one_line_within(pipe: &mut (impl Read + AsFd), patience: Duration) -> Result<String> {
    let end = Instant::now() + patience;
    let mut line = Vec::new();
    let mut byte = [0];
    let mut unread = 0;
    while line.last() != Some(&b'\n') {
        if unread == 0 {
            unread = wait_for_bytes(pipe, end).with_context(|| {
                format!("no whole line in {patience:?}, only {:?}", String::from_utf8_lossy(&line))
            })?;
        }
        pipe.read_exact(&mut byte).context("the output ended within a line")?;
        line.push(byte[0]);
        unread -= 1;
    }
    Ok(String::from_utf8(line)?)
}

/// How many bytes can be read without waiting; one at the end of the output, too,
/// which a read then finds.
fn wait_for_bytes(pipe: &impl AsFd, end: Instant) -> Result<u64> {
    loop {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now()))?;
        match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&left)) {
            Ok(0) => bail!("nothing comes"),
            Ok(_) => return Ok(ioctl_fionread(pipe)?.max(1)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until something is so. The error names the line that waited, which says for what.
#[track_caller]
pub fn wait_until(condition: impl FnMut() -> bool) -> Result<()> {
    wait_within(PATIENCE, condition)
}

/// Waits until something is so that takes many steps.
#[track_caller]
pub fn wait_long_until(condition: impl FnMut() -> bool) -> Result<()> {
    wait_within(LONG_PATIENCE, condition)
}

#[track_caller]
fn wait_within(patience: Duration, mut condition: impl FnMut() -> bool) -> Result<()> {
    let (caller, begin) = (Location::caller(), Instant::now());
    while !condition() {
        let waited = begin.elapsed();
        ensure!(waited < patience, "{caller}: it is not so after {} s", patience.as_secs());
        sleep(pause_after(waited));
    }
    Ok(())
}

/// How long to wait before it is asked again whether something is so: a twentieth of the wait so
/// far. What comes soon is seen soon, and what takes seconds is not asked for a hundred times a
/// second by each of many tests.
pub(crate) fn pause_after(waited: Duration) -> Duration {
    (waited / 20).clamp(Duration::from_millis(5), Duration::from_millis(200))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write, pipe};

    #[test]
    fn pauses_are_a_twentieth_of_the_wait_within_bounds() {
        for (waited, pause) in [(0, 5), (100, 5), (1_000, 50), (4_000, 200), (60_000, 200)] {
            assert_eq!(pause_after(Duration::from_millis(waited)), Duration::from_millis(pause));
        }
    }

    #[test]
    fn one_line_is_taken_and_what_follows_is_left() {
        let (mut reader, mut writer) = pipe().unwrap();
        writer.write_all(b"one\ntwo").unwrap();
        assert_eq!(read_one_line(&mut reader).unwrap(), "one\n");
        assert_eq!(ioctl_fionread(&reader).unwrap(), 3);
        drop(writer);
        let error = read_one_line(&mut reader).unwrap_err();
        assert_eq!(error.to_string(), "the output ended within a line");
    }

    #[test]
    fn a_line_that_does_not_come_is_not_waited_for_for_ever() {
        let (mut reader, mut writer) = pipe().unwrap();
        writer.write_all(b"half").unwrap();
        let error = read_one_line_within(&mut reader, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.to_string(), "no whole line in 20ms, only \"half\"");
    }
}
