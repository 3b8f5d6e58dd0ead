//! A running sender: bytes in, lines out, and its end.

use std::fmt;
use std::future::pending;
use std::io;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use super::command::SenderCommand;
use super::errors::Errors;
use super::lines::{Lines, TooLong};
use crate::alarm::reached;

/// How much is read at once.
const PIECE: usize = 64 * 1024;
const ERROR_PIECE: usize = 4 * 1024;

/// How long a sender that has ended may keep others from closing what it wrote to.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What happened to a sender.
#[derive(Debug)]
pub(super) enum Event {
    /// Some of the line was written.
    Wrote,
    /// It takes no more lines.
    InputClosed,
    /// It has said something: see [`Process::next_line`].
    Read,
    /// It says nothing more.
    OutputClosed,
    /// It has ended, and everything that it said was read.
    Ended(ExitStatus),
}

/// The process group of the sender that is running, or 0: for those who end this process without ending anything in order.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// Kills the sender that is running, if there is one.
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
    output: Option<ChildStdout>,
    piece: Vec<u8>,
    lines: Lines,
    error_output: Option<ChildStderr>,
    error_piece: Vec<u8>,
    errors: Errors,
    /// The line being written and how much of it is.
    current: Option<(Vec<u8>, usize)>,
    written: u64,
    /// What it had not read when it closed its input.
    unread: u64,
    status: Option<ExitStatus>,
    /// Until when its output is read after it has ended.
    read_until: Option<Instant>,
}

impl Process {
    pub(super) fn start(command: &SenderCommand) -> io::Result<Self> {
        let mut child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        RUNNING.store(group.map_or(0, |group| group.as_raw_nonzero().get()), Ordering::Relaxed);
        Ok(Self {
            input: child.stdin.take(),
            output: child.stdout.take(),
            error_output: child.stderr.take(),
            child,
            group,
            piece: vec![0; PIECE],
            lines: Lines::default(),
            error_piece: vec![0; ERROR_PIECE],
            errors: Errors::default(),
            current: None,
            written: 0,
            unread: 0,
            status: None,
            read_until: None,
        })
    }

    /// The process's number, for the log.
    pub(super) fn id(&self) -> Option<i32> {
        self.group.map(|group| group.as_raw_nonzero().get())
    }

    /// Whether another line can be begun.
    pub(super) fn is_idle(&self) -> bool {
        self.current.is_none() && self.takes_lines()
    }

    /// Whether it still takes lines.
    pub(super) fn takes_lines(&self) -> bool {
        self.input.is_some() && self.status.is_none()
    }

    /// Begins a line; answers where it begins and ends among all bytes.
    pub(super) fn begin(&mut self, line: Vec<u8>) -> (u64, u64) {
        let bytes = (self.written, self.written + line.len() as u64);
        self.current = Some((line, 0));
        bytes
    }

    /// How many bytes were written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// How many bytes it has read. What it has not read when it ends, nobody ever will.
    pub(super) fn read_by_sender(&self) -> u64 {
        self.written.saturating_sub(self.unread_by_sender())
    }

    fn unread_by_sender(&self) -> u64 {
        // Where the pipe does not tell, everything may have been read.
        self.input.as_ref().map_or(self.unread, |input| ioctl_fionread(input).unwrap_or(0))
    }

    /// Ends its input after the line that is being written.
    pub(super) fn close_input(&mut self) {
        if self.current.is_none() {
            self.input = None;
        }
    }

    /// Asks it, and whatever it has started, to end.
    pub(super) fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Ends it and whatever it has started.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    fn signal(&mut self, signal: Signal) {
        if let Some(group) = self.group {
            // It may have ended already.
            kill_process_group(group, signal).ok();
        }
    }

    /// The next line that it has written.
    pub(super) fn next_line(&mut self) -> Option<Result<&[u8], TooLong>> {
        self.lines.next_line()
    }

    /// What it wrote behind its last line feed, once it says nothing more.
    pub(super) fn last_words(&mut self) -> Option<Vec<u8>> {
        self.lines.rest()
    }

    /// Waits for what happens next. Can be dropped at any point.
    pub(super) async fn event(&mut self) -> Event {
        loop {
            if let Some(event) = self.next_event().await {
                return event;
            }
        }
    }

    /// What happens next; nothing if it was logged.
    async fn next_event(&mut self) -> Option<Event> {
        if let (Some(status), None, None) = (self.status, &self.output, &self.error_output) {
            return Some(Event::Ended(status));
        }
        let event = tokio::select! {
            biased;
            read = read(&mut self.output, &mut self.piece) => match read {
                Ok(count) if count > 0 => {
                    self.lines.push(&self.piece[..count]);
                    Event::Read
                }
                _ => {
                    self.output = None;
                    Event::OutputClosed
                }
            },
            read = read(&mut self.error_output, &mut self.error_piece) => {
                let process = self.group.map(|group| group.as_raw_nonzero().get());
                let log = |line: &str| log_error_output(process, line);
                match read {
                    Ok(count) if count > 0 => self.errors.push(&self.error_piece[..count], log),
                    _ => {
                        self.errors.end(log);
                        self.error_output = None;
                    }
                }
                return None;
            }
            status = self.child.wait(), if self.status.is_none() => {
                // A process whose end cannot be learnt is as good as gone.
                self.status = Some(status.unwrap_or_default());
                self.read_until = Some(Instant::now() + LAST_WORDS);
                // What it has started, nobody would end any more. No other group can have its number so soon.
                self.kill();
                self.group = None;
                RUNNING.store(0, Ordering::Relaxed);
                Event::Read
            }
            () = reached(self.read_until) => {
                self.error_output = None;
                self.output.take()?;
                Event::OutputClosed
            }
            written = write(&mut self.input, self.current.as_ref()), if self.status.is_none() => {
                if let Ok(count) = written {
                    self.wrote(count);
                    Event::Wrote
                } else {
                    self.unread = self.unread_by_sender();
                    (self.input, self.current) = (None, None);
                    Event::InputClosed
                }
            }
        };
        Some(event)
    }

    fn wrote(&mut self, count: usize) {
        self.written += count as u64;
        if let Some((line, done)) = &mut self.current {
            *done += count;
            if *done == line.len() {
                self.current = None;
            }
        }
    }
}

/// A sender does not outlive the one who reads its answers.
impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.kill();
            RUNNING.store(0, Ordering::Relaxed);
        }
    }
}

/// Without the lines, which hold addresses and tokens.
impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Process");
        shown.field("id", &self.id()).field("written", &self.written).finish_non_exhaustive()
    }
}

fn log_error_output(process: Option<i32>, line: &str) {
    tracing::warn!(event = "sender_output", stream = "stderr", process, line = %line, "the sender writes");
}

async fn read(output: &mut Option<impl AsyncRead + Unpin>, piece: &mut [u8]) -> io::Result<usize> {
    match output {
        Some(output) => output.read(piece).await,
        None => pending().await,
    }
}

async fn write(input: &mut Option<ChildStdin>, current: Option<&(Vec<u8>, usize)>) -> io::Result<usize> {
    match (input, current) {
        (Some(input), Some((line, done))) => match input.write(&line[*done..]).await {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            written => written,
        },
        _ => pending().await,
    }
}
