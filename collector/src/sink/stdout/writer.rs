//! The thread that writes lines.

use std::collections::VecDeque;
use std::mem::take;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fdatasync;
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::PIPE_BUF;
use tokio::sync::watch;

use super::output::{Kind, Output, Room};

/// The pauses between two looks at what the reader has left in a pipe.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(25);

/// The most lines in a file that wait for being on the disk.
const LINES_BETWEEN_SYNCS: usize = 1_000;

/// What the two threads share.
pub(super) struct Lines {
    pub(super) waiting: Mutex<Waiting>,
    /// A byte in this pipe wakes the thread out of its wait.
    pub(super) wake: OwnedFd,
}

#[derive(Default)]
pub(super) struct Waiting {
    /// Lines of which nothing was written yet.
    pub(super) queue: VecDeque<Vec<u8>>,
    /// Whether nobody will send any more.
    pub(super) ended: bool,
}

impl Lines {
    pub(super) fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        // A full pipe holds enough bytes to wake the thread.
        rustix::io::write(&self.wake, &[0]).ok();
    }
}

/// What the thread tells.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    begun: u64,
    pub(super) taken: u64,
    pub(super) end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Closed,
    Failed(Errno),
}

impl From<Errno> for End {
    fn from(errno: Errno) -> Self {
        if errno == Errno::PIPE { Self::Closed } else { Self::Failed(errno) }
    }
}

/// The thread.
pub(super) struct Writer {
    output: Output,
    /// Whether the output ends in the middle of a line that nobody will finish.
    is_cut_short: bool,
    wake: OwnedFd,
    lines: Arc<Lines>,
    report: watch::Sender<Report>,
    current: Option<Current>,
    /// Lines begun and taken so far.
    begun: u64,
    taken: u64,
    /// Bytes written so far.
    written: u64,
    /// Where, in bytes written, the lines end that are written and not taken.
    ends: VecDeque<u64>,
}

/// The line being written.
struct Current {
    line: Vec<u8>,
    done: usize,
    /// The most to write at once.
    part: usize,
}

impl Writer {
    pub(super) fn new(
        output: Output,
        wake: OwnedFd,
        lines: Arc<Lines>,
        report: watch::Sender<Report>,
    ) -> Self {
        Self {
            is_cut_short: output.ends_within_a_line(),
            output,
            wake,
            lines,
            report,
            current: None,
            begun: 0,
            taken: 0,
            written: 0,
            ends: VecDeque::new(),
        }
    }

    pub(super) fn run(mut self) {
        let end = self.write_until_the_end().err();
        // What the reader took before it closed the pipe is taken all the same.
        self.account().ok();
        self.tell(end);
    }

    /// Returns when nobody sends any more.
    fn write_until_the_end(&mut self) -> Result<(), End> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let (next, ended) = {
                let waiting = self.lines.waiting();
                (waiting.queue.front().map(Vec::len), waiting.ended)
            };
            if ended && self.current.is_none() {
                return Ok(());
            }
            let is_cramped = match next {
                Some(length) if self.current.is_none() => self.room(length)? == Room::NotYet,
                _ => false,
            };
            // A pipe tells that it has some room, not that it has enough.
            let more = self.current.is_some() || (next.is_some() && !is_cramped);
            let writable = self.wait(more, (is_cramped || !self.ends.is_empty()).then_some(pause))?;
            if writable {
                self.write()?;
            }
            if self.account()? {
                pause = SHORTEST_PAUSE;
            } else {
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            self.tell(None);
        }
    }

    /// Waits until `more` can be written, a line was sent, or `pause` is over; notices a reader that goes away.
    fn wait(&self, more: bool, pause: Option<Duration>) -> Result<bool, End> {
        let wanted = if more { PollFlags::OUT } else { PollFlags::empty() };
        let mut files = [PollFd::new(&self.output, wanted), PollFd::new(&self.wake, PollFlags::IN)];
        let pause = pause.map(|pause| Timespec::try_from(pause).expect("a pause is short"));
        match poll(&mut files, pause.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [output, wake] = files.map(|file| file.revents());
        if wake.contains(PollFlags::IN) {
            let mut bytes = [0; 256];
            while matches!(rustix::io::read(&self.wake, &mut bytes), Ok(read) if read == bytes.len()) {}
        }
        if output.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            return Err(End::Closed);
        }
        Ok(output.contains(PollFlags::OUT))
    }

    /// Writes the next part of the current line, or begins the next one.
    ///
    /// A line is begun only when some of it can be written, so that until then it can be recalled.
    fn write(&mut self) -> Result<(), End> {
        if self.current.is_none() {
            self.begin()?;
        }
        let Some(Current { line, done, part }) = &mut self.current else { return Ok(()) };
        let rest = &line[*done..];
        match rustix::io::write(&self.output, &rest[..rest.len().min(*part)]) {
            Ok(count) => {
                *done += count;
                self.written += count as u64;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if *done == line.len() {
            self.current = None;
            self.ends.push_back(self.written);
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), End> {
        let mut waiting = self.lines.waiting();
        let Some(length) = waiting.queue.front().map(Vec::len) else { return Ok(()) };
        let part = match self.room(length)? {
            Room::Whole => usize::MAX,
            // A writable pipe takes this much without blocking, so the thread stays able to hear and to tell.
            Room::Parts => PIPE_BUF,
            Room::NotYet => return Ok(()),
        };
        let mut line = waiting.queue.pop_front().expect("under the lock nobody else takes it");
        drop(waiting);
        if take(&mut self.is_cut_short) {
            line.insert(0, b'\n');
        }
        self.current = Some(Current { line, done: 0, part });
        self.begun += 1;
        Ok(())
    }

    fn room(&self, length: usize) -> Result<Room, Errno> {
        self.output.room(length + usize::from(self.is_cut_short))
    }

    /// Counts the lines that were taken since the last time, and says whether there were any.
    fn account(&mut self) -> Result<bool, End> {
        if self.ends.is_empty() {
            return Ok(false);
        }
        let taken_bytes = match self.output.kind() {
            // Bytes of others in the same pipe make this too small, never too large.
            Kind::Pipe => self.written.saturating_sub(ioctl_fionread(&self.output)?),
            Kind::File => {
                let enough = self.ends.len() >= LINES_BETWEEN_SYNCS;
                if !enough && !self.lines.waiting().queue.is_empty() {
                    return Ok(false);
                }
                match fdatasync(&self.output) {
                    // After a failure the kernel may forget what it could not write, so asking again proves nothing.
                    Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT)) => return Err(errno.into()),
                    // Some file systems cannot synchronise; there, written is the most that can be known.
                    _ => self.written,
                }
            }
            Kind::Other => self.written,
        };
        let taken = self.ends.iter().take_while(|end| **end <= taken_bytes).count();
        self.ends.drain(..taken);
        self.taken += taken as u64;
        Ok(taken > 0)
    }

    fn tell(&self, end: Option<End>) {
        self.report.send_if_modified(|report| {
            let changed = (report.begun, report.taken) != (self.begun, self.taken) || end.is_some();
            *report = Report { begun: self.begun, taken: self.taken, end };
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::fs::File;

    #[test]
    fn a_pipe_that_does_not_tell_what_is_left_in_it_fails_and_nothing_is_taken() {
        let (wake, other_end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        // Takes every byte, and knows nothing of FIONREAD.
        let device = File::options().write(true).open("/dev/null").unwrap();
        let output = Output::taken_for(Kind::Pipe, device.into());
        let lines = Arc::new(Lines { waiting: Mutex::default(), wake: other_end });
        lines.waiting().queue.push_back(b"one\n".to_vec());
        let (report, receiver) = watch::channel(Report::default());
        Writer::new(output, wake, lines, report).run();
        let report = receiver.borrow();
        assert_eq!((report.begun, report.taken), (1, 0));
        assert!(matches!(report.end, Some(End::Failed(Errno::NOTTY))), "{report:?}");
    }
}
