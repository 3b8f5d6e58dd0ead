//! A running sender: its process, its pipes and its end.

use std::future::pending;
use std::io;
use std::ops::Range;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use mailroom_redact::redact;
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio_util::bytes::{Bytes, BytesMut};
use tokio_util::codec::{AnyDelimiterCodec, Decoder};

use super::protocol::{MAX_LINE, Reply, parse_reply};
use crate::sender_command::SenderCommand;
use crate::timer::sleep_until_opt;

const READ_SIZE: usize = 64 * 1024;

/// How much of a line of standard error is kept.
/// This is more than a log line shows after redaction.
const MAX_ERROR_LINE: usize = 2_000;

/// How long the output is read after the sender has ended: other processes may keep it open.
const READ_AFTER_END: Duration = Duration::from_secs(1);

pub(super) enum ProcessEvent {
    /// A part of the line was written, or it has written something: see [`Process::next_reply`].
    Progress,
    InputClosed,
    OutputClosed,
    /// It has ended, and its output was read to the end.
    Ended(ExitStatus),
}

/// The process group of the running sender, or 0:
/// for an exit of this process without an orderly end.
static RUNNING: AtomicI32 = AtomicI32::new(0);

pub(crate) fn kill_running_sender() {
    if let Some(group) = Pid::from_raw(RUNNING.load(Ordering::Relaxed)) {
        kill_process_group(group, Signal::KILL).ok();
    }
}

/// A sender's process with its pipes, which are `None` when they are closed.
pub(super) struct Process {
    child: Child,
    /// `None` when it has ended.
    pub(super) group: Option<Pid>,
    input: Option<ChildStdin>,
    /// What is left to write of the current line.
    line: Bytes,
    pub(super) written: u64,
    /// How much it had read when it closed its standard input.
    read: u64,
    pub(super) output: Option<ChildStdout>,
    output_buffer: BytesMut,
    codec: AnyDelimiterCodec,
    error_output: Option<ChildStderr>,
    error_buffer: BytesMut,
    /// Set when it has ended, with the time until which its output is read.
    ended: Option<(ExitStatus, Instant)>,
}

impl Process {
    pub(super) fn start(command: &SenderCommand, actions: Option<&str>) -> io::Result<Self> {
        let mut child = command.spawn(actions)?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        RUNNING.store(Pid::as_raw(group), Ordering::Relaxed);
        Ok(Self {
            group,
            input: child.stdin.take(),
            line: Bytes::new(),
            written: 0,
            read: 0,
            output: child.stdout.take(),
            output_buffer: BytesMut::new(),
            codec: AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), MAX_LINE),
            error_output: child.stderr.take(),
            error_buffer: BytesMut::new(),
            child,
            ended: None,
        })
    }

    /// Whether it runs and has not closed a pipe.
    pub(super) fn takes_lines(&self) -> bool {
        self.input.is_some() && self.output.is_some() && self.ended.is_none()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.line.is_empty()
    }

    /// Begins a line; returns where it is among all bytes written.
    pub(super) fn begin(&mut self, line: Vec<u8>) -> Range<u64> {
        let bytes = self.written..self.written + line.len() as u64;
        self.line = line.into();
        bytes
    }

    /// How many bytes it has read. What it has not read when it ends is never read.
    pub(super) fn read_by_sender(&self) -> u64 {
        // If the kernel does not report it, everything may have been read.
        let unread = |input| ioctl_fionread(input).unwrap_or(0);
        self.input.as_ref().map_or(self.read, |input| self.written.saturating_sub(unread(input)))
    }

    /// Closes its standard input after the line that is being written.
    pub(super) fn close_input(&mut self) {
        if self.is_idle() {
            self.read = self.written;
            self.input = None;
        }
    }

    /// Sends SIGTERM or SIGKILL to it and whatever it has started.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It may have ended already.
            kill_process_group(group, signal).ok();
        }
    }

    /// The next line that it has written. Its last one may lack the line feed.
    pub(super) fn next_reply(&mut self) -> Option<Result<Reply, String>> {
        let line = match self.output {
            Some(_) => self.codec.decode(&mut self.output_buffer),
            None => self.codec.decode_eof(&mut self.output_buffer),
        };
        let line = line.map_err(|_| format!("it is longer than {MAX_LINE} bytes")).transpose()?;
        Some(line.and_then(|line| parse_reply(&line)))
    }

    /// Waits for the next event. Cancellation-safe.
    pub(super) async fn event(&mut self) -> ProcessEvent {
        loop {
            if let (Some((status, _)), None, None) = (self.ended, &self.output, &self.error_output)
            {
                return ProcessEvent::Ended(status);
            }
            tokio::select! {
                biased;
                is_open = read(&mut self.output, &mut self.output_buffer) => {
                    if is_open {
                        return ProcessEvent::Progress;
                    }
                    self.output = None;
                    return ProcessEvent::OutputClosed;
                }
                is_open = read(&mut self.error_output, &mut self.error_buffer) => {
                    if !is_open {
                        self.error_output = None;
                        self.error_buffer.extend_from_slice(b"\n");
                    }
                    let process = self.group.map(Pid::as_raw_pid);
                    for line in take_error_lines(&mut self.error_buffer) {
                        tracing::warn!(
                            event = "sender_output",
                            stream = "stderr",
                            process,
                            line = %line,
                            "the sender writes"
                        );
                    }
                }
                status = self.child.wait(), if self.ended.is_none() => {
                    // A process whose status cannot be read counts as ended.
                    let read_until = Instant::now() + READ_AFTER_END;
                    self.ended = Some((status.unwrap_or_default(), read_until));
                    // Nothing else ends the processes that it has started. No other group can have
                    // its number so soon.
                    self.kill();
                    return ProcessEvent::Progress;
                }
                () = sleep_until_opt(self.ended.map(|(_, read_until)| read_until)) => {
                    self.error_output = None;
                    if self.output.take().is_some() {
                        return ProcessEvent::OutputClosed;
                    }
                }
                written = write(&mut self.input, &mut self.line), if self.ended.is_none() => {
                    if let Ok(count @ 1..) = written {
                        self.written += count as u64;
                        return ProcessEvent::Progress;
                    }
                    self.read = self.read_by_sender();
                    self.input = None;
                    self.line = Bytes::new();
                    return ProcessEvent::InputClosed;
                }
            }
        }
    }

    /// Kills it and whatever it has started, for good.
    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.group = None;
        RUNNING.store(0, Ordering::Relaxed);
    }
}

/// A sender does not outlive the collector, which reads its answers.
impl Drop for Process {
    fn drop(&mut self) {
        if self.group.is_some() {
            self.kill();
        }
    }
}

/// Reads what there is; returns whether the pipe is still open.
async fn read(output: &mut Option<impl AsyncRead + Unpin>, buffer: &mut BytesMut) -> bool {
    let Some(output) = output else { return pending().await };
    buffer.reserve(READ_SIZE);
    output.read_buf(buffer).await.is_ok_and(|count| count > 0)
}

async fn write(input: &mut Option<ChildStdin>, line: &mut Bytes) -> io::Result<usize> {
    match input {
        Some(input) if !line.is_empty() => input.write_buf(line).await,
        _ => pending().await,
    }
}

/// Takes the lines that end in what was read from standard error, redacted; leaves the bounded
/// beginning of the next one.
fn take_error_lines(buffer: &mut BytesMut) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
        let line = &buffer.split_to(end + 1)[..end.min(MAX_ERROR_LINE)];
        if !line.trim_ascii().is_empty() {
            lines.push(redact(&String::from_utf8_lossy(line)));
        }
    }
    buffer.truncate(MAX_ERROR_LINE);
    lines
}
