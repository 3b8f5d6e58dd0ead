//! The thread that writes lines.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{FileType, fdatasync, fstat, major, minor};
use rustix::io::{Errno, ioctl_fionread};
use rustix::param::page_size;
use rustix::pipe::{PIPE_BUF, fcntl_getpipe_size, fcntl_setpipe_size};
use tokio::sync::watch;
use tokio_util::bytes::{Buf as _, Bytes};

use crate::sink::SinkError;

/// The pauses between two checks of the bytes that are left in a pipe. A fast reader empties a full
/// pipe in less than the shortest pause.
const SHORTEST_PAUSE: Duration = Duration::from_micros(200);
pub(super) const MAX_PAUSE: Duration = Duration::from_millis(25);

/// The most lines in a file that wait for `fdatasync`.
const LINES_BETWEEN_SYNCS: usize = 1_000;

/// The largest pipe that is requested: what Linux lets every user have.
const MAX_PIPE: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// A closed standard output too, in whose place Rust opens the null device before `main`.
    #[error(
        "standard output is closed or discards what is written to it, and every mail would be \
         lost; connect it to what sends the mails: `mailroom collect | send-mails`"
    )]
    Discards,
    #[error("cannot start writing to standard output: {0}")]
    Refused(#[from] io::Error),
}

/// The lines that the thread has not begun, shared by both threads.
pub(super) struct LineQueue {
    waiting: Mutex<WaitingLines>,
    /// An `eventfd`, which wakes the thread.
    wake: OwnedFd,
}

#[derive(Default)]
pub(super) struct WaitingLines {
    pub(super) lines: VecDeque<Vec<u8>>,
    pub(super) is_closed: bool,
}

impl LineQueue {
    pub(super) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { waiting: Mutex::default(), wake })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, WaitingLines> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        // Fails only at the bound of the counter, and then the thread is about to wake.
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }
}

/// What the thread reports: how many lines are taken, and why no more can be. It reports, too, when
/// it begins a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteProgress {
    pub(super) taken: usize,
    pub(super) failure: Option<SinkError>,
}

/// What decides when a line is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputKind {
    Pipe,
    File,
    Other,
}

pub(super) struct Writer {
    output: OwnedFd,
    kind: OutputKind,
    /// Whether a line feed precedes the first line,
    /// because the output may end in the middle of another line.
    needs_line_feed: bool,
    queue: Arc<LineQueue>,
    progress: watch::Sender<WriteProgress>,
    /// What is left to write of the line that was begun, and the most to write at once.
    current: Bytes,
    part: usize,
    written: u64,
    /// Where, in bytes written, the lines end that are written and not taken.
    ends: VecDeque<u64>,
}

impl Writer {
    pub(super) fn new(
        output: OwnedFd,
        queue: Arc<LineQueue>,
        progress: watch::Sender<WriteProgress>,
    ) -> Result<Self, StartError> {
        let status = fstat(&output).map_err(io::Error::from)?;
        let (kind, needs_line_feed) = match FileType::from_raw_mode(status.st_mode) {
            FileType::Fifo => (OutputKind::Pipe, ioctl_fionread(&output) != Ok(0)),
            FileType::RegularFile => (OutputKind::File, status.st_size != 0),
            // `/dev/null` and `/dev/zero`.
            FileType::CharacterDevice
                if major(status.st_rdev) == 1 && matches!(minor(status.st_rdev), 3 | 5) =>
            {
                return Err(StartError::Discards);
            }
            _ => (OutputKind::Other, false),
        };
        Ok(Self {
            output,
            kind,
            needs_line_feed,
            queue,
            progress,
            current: Bytes::new(),
            part: 0,
            written: 0,
            ends: VecDeque::new(),
        })
    }

    pub(super) fn run(mut self) {
        let failure = self.write_lines().err();
        // What the reader took before it closed the pipe is taken all the same.
        self.count_taken().ok();
        self.progress.send_modify(|progress| progress.failure = failure);
    }

    /// Returns when the queue is closed.
    fn write_lines(&mut self) -> Result<(), SinkError> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let (next, is_closed) = {
                let waiting = self.queue.lock();
                (waiting.lines.front().map(Vec::len), waiting.is_closed)
            };
            if is_closed && self.current.is_empty() {
                return Ok(());
            }
            let is_full = match next {
                Some(length) if self.current.is_empty() => self.part(length)?.is_none(),
                _ => false,
            };
            // `poll` returns when a pipe has some room, not when it has enough.
            let has_more = !self.current.is_empty() || (next.is_some() && !is_full);
            if self.wait(has_more, (is_full || !self.ends.is_empty()).then_some(pause))? {
                self.write()?;
            }
            let any_taken = self.count_taken()?;
            pause = if any_taken { SHORTEST_PAUSE } else { (pause * 2).min(MAX_PAUSE) };
        }
    }

    /// Waits until the output can take more (if there is more), a line was sent, or `pause` is
    /// over; returns whether it can.
    fn wait(&self, has_more: bool, pause: Option<Duration>) -> Result<bool, SinkError> {
        let events = if has_more { PollFlags::OUT } else { PollFlags::empty() };
        let mut files =
            [PollFd::new(&self.output, events), PollFd::new(&self.queue.wake, PollFlags::IN)];
        let pause = pause.map(|pause| Timespec::try_from(pause).expect("a pause is short"));
        match poll(&mut files, pause.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [output, wake] = files.map(|file| file.revents());
        if wake.contains(PollFlags::IN) {
            rustix::io::read(&self.queue.wake, &mut [0; 8]).ok();
        }
        if output.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            return Err(SinkError::Closed);
        }
        Ok(output.contains(PollFlags::OUT))
    }

    /// Writes the next part of the current line, or begins the next one.
    ///
    /// A line is begun only when some of it can be written; until then it can be cancelled.
    fn write(&mut self) -> Result<(), SinkError> {
        if self.current.is_empty() && !self.begin()? {
            return Ok(());
        }
        match rustix::io::write(&self.output, &self.current[..self.current.len().min(self.part)]) {
            Ok(count) => {
                self.current.advance(count);
                self.written += count as u64;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if self.current.is_empty() {
            self.ends.push_back(self.written);
        }
        Ok(())
    }

    /// Begins the next line, if there is one and room for it.
    fn begin(&mut self) -> Result<bool, SinkError> {
        let mut waiting = self.queue.lock();
        let Some(length) = waiting.lines.front().map(Vec::len) else { return Ok(false) };
        let Some(part) = self.part(length)? else { return Ok(false) };
        let mut line =
            waiting.lines.pop_front().expect("the queue is locked since its front was seen");
        drop(waiting);
        if mem::take(&mut self.needs_line_feed) {
            line.insert(0, b'\n');
        }
        self.current = line.into();
        self.part = part;
        self.progress.send_modify(|_| ());
        Ok(true)
    }

    /// How much of a line of `length` bytes can be written at once: all of it, if the pipe is or
    /// can be made large enough; `None` until the reader has read more.
    fn part(&self, length: usize) -> Result<Option<usize>, Errno> {
        let length = length + usize::from(self.needs_line_feed);
        // A writable pipe always takes this much in one piece.
        if self.kind != OutputKind::Pipe || length <= PIPE_BUF {
            return Ok(Some(usize::MAX));
        }
        let page = page_size();
        let needed = length.div_ceil(page);
        let mut pages = fcntl_getpipe_size(&self.output)? / page;
        if needed > pages && needed * page <= MAX_PIPE {
            // If the kernel refuses, it stays as large as it is.
            fcntl_setpipe_size(&self.output, needed * page).ok();
            pages = fcntl_getpipe_size(&self.output)? / page;
        }
        if needed > pages {
            // This much does not block, so the thread can go on checking and reporting.
            return Ok(Some(PIPE_BUF));
        }
        let unread = usize::try_from(ioctl_fionread(&self.output)?).unwrap_or(usize::MAX);
        // A write begins a new page where it does not fit into the last one, so two pages in a row
        // hold more than one page of bytes, except that the first may have been read in part.
        let used = if unread == 0 { 0 } else { 2 * (unread / page) + 2 };
        Ok((used + needed <= pages).then_some(usize::MAX))
    }

    /// Counts the lines that were taken since the last call; returns whether there were any.
    fn count_taken(&mut self) -> Result<bool, SinkError> {
        if self.ends.is_empty() {
            return Ok(false);
        }
        let taken_bytes = match self.kind {
            // Bytes of other writers in the same pipe make this too small, never too large.
            OutputKind::Pipe => self.written.saturating_sub(ioctl_fionread(&self.output)?),
            OutputKind::File => {
                if self.ends.len() < LINES_BETWEEN_SYNCS && !self.queue.lock().lines.is_empty() {
                    return Ok(false);
                }
                self.synced_bytes(fdatasync(&self.output))?
            }
            OutputKind::Other => self.written,
        };
        let taken = self.ends.iter().take_while(|end| **end <= taken_bytes).count();
        self.ends.drain(..taken);
        self.progress.send_if_modified(|progress| {
            progress.taken += taken;
            taken > 0
        });
        Ok(taken > 0)
    }

    /// How many bytes are in the file for good after `fdatasync`.
    fn synced_bytes(&mut self, outcome: Result<(), Errno>) -> Result<u64, SinkError> {
        match outcome {
            Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT)) => {
                // The kernel reports once what it could not write, and drops it. So none of these
                // lines may ever be counted.
                self.ends.clear();
                Err(errno.into())
            }
            // Some file systems cannot synchronise; there, written is the most that can be known.
            _ => Ok(self.written),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux reports a failed write-back once per descriptor.
    #[test]
    fn after_a_failed_fdatasync_a_second_one_that_succeeds_takes_no_line() {
        for (failure, taken) in
            [(Some(Errno::IO), 0), (Some(Errno::NOSPC), 0), (Some(Errno::DQUOT), 0), (None, 1)]
        {
            let queue = Arc::new(LineQueue::new().unwrap());
            queue.lock().lines.push_back(b"one\n".to_vec());
            let (progress, receiver) = watch::channel(WriteProgress::default());
            let mut writer =
                Writer::new(tempfile::tempfile().unwrap().into(), queue, progress).unwrap();
            writer.write().unwrap();
            assert_eq!((writer.written, writer.ends.len()), (4, 1));
            if let Some(errno) = failure {
                assert_eq!(writer.synced_bytes(Err(errno)), Err(SinkError::Failed(errno)));
            }
            writer.queue.lock().is_closed = true;
            // Synchronises the real file, and that succeeds.
            writer.run();
            assert_eq!(receiver.borrow().taken, taken, "{failure:?}");
        }
    }
}
