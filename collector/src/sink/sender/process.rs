//! A running sender: its process, its pipes and its end.

use std::future::pending;
use std::io;
use std::mem::take;
use std::ops::Range;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio_util::bytes::{Bytes, BytesMut};
use tokio_util::codec::{AnyDelimiterCodec, Decoder};

use super::protocol::{Answer, AnswerError, line_codec, parse_answer};
use super::redact::redact;
use crate::config::SenderCommand;
use crate::timer::sleep_until_opt;

/// The most that is read at once.
const READ_SIZE: usize = 64 * 1024;

/// How much of a line of standard error is kept: more than what is logged of it after redaction.
const LONGEST_ERROR_LINE: usize = 2_000;

/// How long the output is read after the sender has ended: other processes may keep it open.
const READ_AFTER_END: Duration = Duration::from_secs(1);

/// What happened to a sender.
pub(super) enum ProcessEvent {
    /// A part of the line was written.
    Wrote,
    /// It closed its standard input.
    InputClosed,
    /// It may have written: see [`Process::next_answer`].
    Read,
    /// It closed its standard output.
    OutputClosed,
    /// It has ended, and its output was read to the end.
    Ended(ExitStatus),
}

/// The process group of the running sender, or 0: for an exit of this process without an orderly end.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// Kills the running sender, if there is one.
pub fn kill_running_sender() {
    if let Some(group) = Pid::from_raw(RUNNING.load(Ordering::Relaxed)) {
        kill_process_group(group, Signal::KILL).ok();
    }
}

/// A sender's process with its pipes.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
    input: Option<ChildStdin>,
    /// What is left to write of the current line.
    line: Bytes,
    pub(super) written: u64,
    /// What it had not read when it closed its standard input.
    unread: u64,
    output: Option<ChildStdout>,
    output_buffer: BytesMut,
    codec: AnyDelimiterCodec,
    error_output: Option<ChildStderr>,
    error_buffer: BytesMut,
    /// The beginning of a line of standard error.
    error_line: Vec<u8>,
    status: Option<ExitStatus>,
    /// Until when its output is read after it has ended.
    read_until: Option<Instant>,
}

impl Process {
    pub(super) fn start(command: &SenderCommand) -> io::Result<Self> {
        let mut child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        RUNNING.store(Pid::as_raw(group), Ordering::Relaxed);
        Ok(Self {
            group,
            input: child.stdin.take(),
            line: Bytes::new(),
            written: 0,
            unread: 0,
            output: child.stdout.take(),
            output_buffer: BytesMut::new(),
            codec: line_codec(),
            error_output: child.stderr.take(),
            error_buffer: BytesMut::new(),
            error_line: Vec::new(),
            child,
            status: None,
            read_until: None,
        })
    }

    /// The process id, for the log.
    pub(super) fn id(&self) -> Option<i32> {
        self.group.map(Pid::as_raw_pid)
    }

    /// Whether another line can be begun.
    pub(super) fn is_idle(&self) -> bool {
        self.line.is_empty() && self.takes_lines()
    }

    /// Whether it runs and has not closed its standard input.
    pub(super) fn takes_lines(&self) -> bool {
        self.input.is_some() && self.status.is_none()
    }

    /// Begins a line; returns where it is among all bytes written.
    pub(super) fn begin(&mut self, line: Vec<u8>) -> Range<u64> {
        let bytes = self.written..self.written + line.len() as u64;
        self.line = line.into();
        bytes
    }

    /// How many bytes it has read. What it has not read when it ends is never read.
    pub(super) fn read_by_sender(&self) -> u64 {
        self.written.saturating_sub(self.unread_by_sender())
    }

    fn unread_by_sender(&self) -> u64 {
        // If the kernel does not report it, everything may have been read.
        self.input.as_ref().map_or(self.unread, |input| ioctl_fionread(input).unwrap_or(0))
    }

    /// Closes its standard input after the line that is being written.
    pub(super) fn close_input(&mut self) {
        if self.line.is_empty() {
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

    /// The next answer that it has written. Its last one may lack the line feed.
    pub(super) fn next_answer(&mut self) -> Option<Result<Answer, AnswerError>> {
        let line = match self.output {
            Some(_) => self.codec.decode(&mut self.output_buffer),
            None => self.codec.decode_eof(&mut self.output_buffer),
        };
        let line = line.map_err(|_| AnswerError::TooLong).transpose()?;
        Some(line.and_then(|line| parse_answer(&line)))
    }

    /// Waits for the next event. Cancellation-safe.
    pub(super) async fn event(&mut self) -> ProcessEvent {
        loop {
            if let Some(event) = self.next_event().await {
                return event;
            }
        }
    }

    /// The next event; `None` if it was only logged.
    async fn next_event(&mut self) -> Option<ProcessEvent> {
        if let (Some(status), None, None) = (self.status, &self.output, &self.error_output) {
            return Some(ProcessEvent::Ended(status));
        }
        let event = tokio::select! {
            biased;
            is_open = read(&mut self.output, &mut self.output_buffer) => {
                if is_open {
                    ProcessEvent::Read
                } else {
                    self.output = None;
                    ProcessEvent::OutputClosed
                }
            }
            is_open = read(&mut self.error_output, &mut self.error_buffer) => {
                let read = self.error_buffer.split();
                let lines = error_lines(&mut self.error_line, if is_open { &read } else { b"\n" });
                for line in lines {
                    let process = self.id();
                    tracing::warn!(event = "sender_output", stream = "stderr", process, line = %line, "the sender writes");
                }
                if !is_open {
                    self.error_output = None;
                }
                return None;
            }
            status = self.child.wait(), if self.status.is_none() => {
                // A process whose status cannot be read counts as ended.
                self.status = Some(status.unwrap_or_default());
                self.read_until = Some(Instant::now() + READ_AFTER_END);
                // Nothing else ends the processes that it has started. No other group can have its number so soon.
                self.signal(Signal::KILL);
                self.group = None;
                RUNNING.store(0, Ordering::Relaxed);
                ProcessEvent::Read
            }
            () = sleep_until_opt(self.read_until) => {
                self.error_output = None;
                self.output.take()?;
                ProcessEvent::OutputClosed
            }
            written = write(&mut self.input, &mut self.line), if self.status.is_none() => {
                if let Ok(count @ 1..) = written {
                    self.written += count as u64;
                    ProcessEvent::Wrote
                } else {
                    self.unread = self.unread_by_sender();
                    (self.input, self.line) = (None, Bytes::new());
                    ProcessEvent::InputClosed
                }
            }
        };
        Some(event)
    }
}

/// A sender does not outlive the collector, which reads its answers.
impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.signal(Signal::KILL);
            RUNNING.store(0, Ordering::Relaxed);
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

/// The lines that end in what was read from standard error, redacted; `begun` is the beginning of the next one.
fn error_lines(begun: &mut Vec<u8>, read: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    for part in read.split_inclusive(|byte| *byte == b'\n') {
        begun.extend(part.iter().take(LONGEST_ERROR_LINE - begun.len()));
        if part.ends_with(b"\n") {
            let line = take(begun);
            if !line.trim_ascii().is_empty() {
                lines.push(redact(&String::from_utf8_lossy(&line)));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let mut begun = Vec::new();
        let lines =
            pieces.iter().chain([&&b"\n"[..]]).flat_map(|piece| error_lines(&mut begun, piece)).collect();
        assert!(begun.capacity() < 10_000);
        lines
    }

    #[test]
    fn lines_of_standard_error_are_bounded_and_redacted_and_empty_ones_left_out() {
        let pieces: [&[u8]; 5] = [b"one\ntw", b"o\n\n \r\n", b"", b"b\xffd \x1b[2J\nlast", b" words"];
        assert_eq!(lines(&pieces), ["one", "two", "b\u{fffd}d [2J", "last words"]);
        assert_eq!(lines(&[b"to ada@example.test: ", &[b'A'; 86]]), ["to [address] [secret]"]);
        let long = lines(&[&b"ab ".repeat(5_000), &b"ab ".repeat(5_000), b"\nnext\n"]);
        assert!(long.len() == 2 && long[0].len() <= 500 && long[0].ends_with('…'), "{long:?}");
    }
}
