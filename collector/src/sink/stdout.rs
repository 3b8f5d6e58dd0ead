//! Lines to standard output.
//!
//! A thread writes, because a full pipe may block it for as long as the reader likes, and a blocked runtime would no
//! longer read notifications. A line counts as taken:
//! - on a pipe, when the reader has taken its last byte out of the kernel's buffer, of which `FIONREAD` tells the
//!   rest. What is still in that buffer is lost if the reader dies;
//! - in a regular file, when it is on the disk;
//! - on a terminal, socket or device, when it is written: nothing more can be known there.
//!
//! A line that was taken in part is not taken. When the process ends in the middle of a line, the reader sees one
//! without its line feed, and the whole line again later.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fdatasync, fstat};
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::{PIPE_BUF, PipeFlags, pipe_with};
use tokio::sync::watch;

use super::{Sink, SinkError, Taken};
use crate::queue::BatchId;

/// The pauses between two looks at what the reader has left in a pipe.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(25);

/// The most lines in a file that wait for being on the disk.
const LINES_BETWEEN_SYNCS: usize = 1_000;

/// Standard output, or another file in its place.
#[derive(Debug)]
pub struct Stdout {
    /// What was sent and neither taken nor recalled, the oldest first.
    sent: VecDeque<(BatchId, Instant)>,
    /// How many lines were taken away from the front of `sent` so far.
    taken: u64,
    lines: Arc<Lines>,
    report: watch::Receiver<Report>,
}

impl Stdout {
    /// Starts the thread that writes to this process's standard output.
    pub fn start() -> io::Result<Self> {
        Self::start_on(io::stdout().as_fd().try_clone_to_owned()?)
    }

    /// Starts the thread that writes to `output`.
    pub fn start_on(output: OwnedFd) -> io::Result<Self> {
        let kind = Kind::of(&output)?;
        let (wake_reader, wake_writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let lines = Arc::new(Lines { waiting: Mutex::default(), wake: wake_writer });
        let (report, receiver) = watch::channel(Report::default());
        let writer = Writer {
            output,
            kind,
            wake: wake_reader,
            lines: Arc::clone(&lines),
            report,
            current: None,
            begun: 0,
            taken: 0,
            written: 0,
            ends: VecDeque::new(),
        };
        thread::Builder::new().name("stdout".to_owned()).spawn(move || writer.run())?;
        Ok(Self { sent: VecDeque::new(), taken: 0, lines, report: receiver })
    }
}

impl Sink for Stdout {
    fn send(&mut self, batch: BatchId, line: Vec<u8>) {
        self.sent.push_back((batch, Instant::now()));
        self.lines.waiting().queue.push_back(line);
        self.lines.wake();
    }

    async fn changed(&mut self) -> Result<(), SinkError> {
        let over = |report: &Report| match &report.end {
            None => Ok(()),
            Some(End::Closed) => Err(SinkError::Closed),
            Some(End::Failed(errno)) => Err(SinkError::Failed((*errno).into())),
        };
        over(&self.report.borrow())?;
        // The thread ends only after it has reported why.
        self.report.changed().await.map_err(|_| SinkError::Closed)?;
        over(&self.report.borrow_and_update())
    }

    fn taken(&mut self) -> Vec<Taken> {
        let total = self.report.borrow().taken;
        let new =
            usize::try_from(total - self.taken).expect("no more lines are taken than were kept in memory");
        self.taken = total;
        self.sent.drain(..new).map(|(batch, sent)| Taken { batch, after: sent.elapsed() }).collect()
    }

    fn in_flight(&self) -> usize {
        self.sent.len()
    }

    fn waiting_since(&self) -> Option<Instant> {
        let waiting = self.lines.waiting().queue.len();
        self.sent.len().checked_sub(waiting).and_then(|first| self.sent.get(first)).map(|(_, sent)| *sent)
    }

    fn recall(&mut self) -> Vec<BatchId> {
        // Under the lock the thread begins no line, so exactly the last ones of `sent` are taken back.
        let mut waiting = self.lines.waiting();
        let count = waiting.queue.len();
        waiting.queue.clear();
        drop(waiting);
        let first = self.sent.len().checked_sub(count).expect("every waiting line was sent");
        self.sent.drain(first..).map(|(batch, _)| batch).collect()
    }
}

impl Drop for Stdout {
    fn drop(&mut self) {
        self.lines.waiting().ended = true;
        self.lines.wake();
    }
}

/// What the two threads share.
#[derive(Debug)]
struct Lines {
    waiting: Mutex<Waiting>,
    /// A byte in this pipe wakes the thread out of its wait.
    wake: OwnedFd,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Lines of which nothing was written yet.
    queue: VecDeque<Vec<u8>>,
    /// Whether nobody will send any more.
    ended: bool,
}

impl Lines {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // A full pipe holds enough bytes to wake the thread.
        rustix::io::write(&self.wake, &[0]).ok();
    }
}

/// What the thread tells.
#[derive(Clone, Debug, Default)]
struct Report {
    begun: u64,
    taken: u64,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Closed,
    Failed(Errno),
}

impl From<Errno> for End {
    fn from(errno: Errno) -> Self {
        if errno == Errno::PIPE { Self::Closed } else { Self::Failed(errno) }
    }
}

/// What decides when a line is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pipe,
    File,
    Other,
}

impl Kind {
    fn of(output: &OwnedFd) -> io::Result<Self> {
        Ok(match FileType::from_raw_mode(fstat(output)?.st_mode) {
            FileType::Fifo => Self::Pipe,
            FileType::RegularFile => Self::File,
            _ => Self::Other,
        })
    }
}

/// The thread.
struct Writer {
    output: OwnedFd,
    kind: Kind,
    wake: OwnedFd,
    lines: Arc<Lines>,
    report: watch::Sender<Report>,
    /// The line being written and how much of it is.
    current: Option<(Vec<u8>, usize)>,
    /// Lines begun and taken so far.
    begun: u64,
    taken: u64,
    /// Bytes written so far.
    written: u64,
    /// Where, in bytes written, the lines end that are written and not taken.
    ends: VecDeque<u64>,
}

impl Writer {
    fn run(mut self) {
        let end = self.write_until_the_end().err();
        // What the reader took before it closed the pipe is taken all the same.
        self.account().ok();
        self.tell(end);
    }

    /// Returns when nobody sends any more.
    fn write_until_the_end(&mut self) -> Result<(), End> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let (more, ended) = {
                let waiting = self.lines.waiting();
                (!waiting.queue.is_empty(), waiting.ended)
            };
            if ended && self.current.is_none() {
                return Ok(());
            }
            let writable =
                self.wait(self.current.is_some() || more, (!self.ends.is_empty()).then_some(pause))?;
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
            self.current = self.lines.waiting().queue.pop_front().map(|line| (line, 0));
            self.begun += u64::from(self.current.is_some());
        }
        let Some((line, done)) = &mut self.current else { return Ok(()) };
        let rest = &line[*done..];
        // A writable pipe takes this much without blocking, so the thread stays able to hear and to tell.
        let part = if self.kind == Kind::Pipe { &rest[..rest.len().min(PIPE_BUF)] } else { rest };
        match rustix::io::write(&self.output, part) {
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

    /// Counts the lines that were taken since the last time, and says whether there were any.
    fn account(&mut self) -> Result<bool, End> {
        if self.ends.is_empty() {
            return Ok(false);
        }
        let taken_bytes = match self.kind {
            Kind::Pipe => match ioctl_fionread(&self.output) {
                // Bytes of others in the same pipe make this too small, never too large.
                Ok(unread) => self.written.saturating_sub(unread),
                Err(_) => self.written,
            },
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
    use std::fs::File;
    use std::io::{Read, Write};
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(20);

    fn on_a_pipe() -> (Stdout, File) {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        (Stdout::start_on(writer).unwrap(), File::from(reader))
    }

    fn read(reader: &mut File, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Waits until `count` more lines are taken; returns the numbers of their batches.
    async fn taken(sink: &mut Stdout, count: usize) -> Vec<u64> {
        let mut batches = Vec::new();
        while batches.len() < count {
            timeout(SOON, sink.changed()).await.expect("the line is taken soon").unwrap();
            batches.extend(sink.taken().iter().map(|taken| taken.batch.0));
        }
        batches
    }

    #[tokio::test]
    async fn a_line_in_a_pipe_is_taken_with_its_last_byte() {
        let (mut sink, mut reader) = on_a_pipe();
        sink.send(BatchId(1), b"one\n".to_vec());
        sink.send(BatchId(2), b"two\n".to_vec());
        assert_eq!(read(&mut reader, 4), b"one\n");
        assert_eq!(taken(&mut sink, 1).await, [1]);
        assert_eq!(read(&mut reader, 3), b"two");
        tokio::time::sleep(4 * LONGEST_PAUSE).await;
        assert_eq!(sink.taken(), []);
        assert_eq!(sink.in_flight(), 1);
        read(&mut reader, 1);
        assert_eq!(taken(&mut sink, 1).await, [2]);
        assert_eq!(sink.in_flight(), 0);
    }

    #[tokio::test]
    async fn a_line_larger_than_the_pipe_arrives_whole() {
        let (mut sink, mut reader) = on_a_pipe();
        let line: Vec<u8> = (0..300_000_u32).map(|number| number.to_le_bytes()[1]).collect();
        sink.send(BatchId(1), line.clone());
        let read = tokio::task::spawn_blocking(move || (read(&mut reader, line.len()) == line, reader));
        assert_eq!(taken(&mut sink, 1).await, [1]);
        assert!(read.await.unwrap().0);
    }

    #[tokio::test]
    async fn lines_of_which_nothing_was_written_can_be_recalled() {
        let (mut sink, mut reader) = on_a_pipe();
        let line = vec![b'x'; 50_000];
        for batch in 1..=4 {
            sink.send(BatchId(batch), line.clone());
        }
        // The pipe holds the first line and a part of the second.
        while sink.lines.waiting().queue.len() > 2 {
            timeout(SOON, sink.changed()).await.expect("two lines are begun soon").unwrap();
        }
        assert_eq!(sink.waiting_since(), Some(sink.sent[2].1));
        assert_eq!(sink.recall(), [BatchId(3), BatchId(4)]);
        assert_eq!(sink.waiting_since(), None);
        sink.send(BatchId(5), b"end\n".to_vec());
        let reading = tokio::task::spawn_blocking(move || (read(&mut reader, 100_004), reader));
        assert_eq!(taken(&mut sink, 3).await, [1, 2, 5]);
        assert!(reading.await.unwrap().0.ends_with(b"xend\n"));
    }

    #[tokio::test]
    async fn a_reader_that_goes_away_is_noticed_at_once_and_keeps_what_it_took() {
        let (mut sink, mut reader) = on_a_pipe();
        sink.send(BatchId(1), b"one\n".to_vec());
        sink.send(BatchId(2), b"two\n".to_vec());
        read(&mut reader, 6);
        drop(reader);
        let mut batches = Vec::new();
        loop {
            let changed = timeout(SOON, sink.changed()).await.expect("the end is noticed soon");
            batches.extend(sink.taken().iter().map(|taken| taken.batch.0));
            if let Err(error) = changed {
                assert!(matches!(error, SinkError::Closed), "{error}");
                break;
            }
        }
        assert_eq!(batches, [1]);
        assert_eq!(sink.in_flight(), 1);
    }

    #[tokio::test]
    async fn an_idle_sink_notices_a_reader_that_goes_away() {
        let (mut sink, reader) = on_a_pipe();
        drop(reader);
        let error = timeout(SOON, sink.changed()).await.expect("the end is noticed soon").unwrap_err();
        assert!(matches!(error, SinkError::Closed), "{error}");
    }

    #[tokio::test]
    async fn lines_in_a_file_are_taken_when_written() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before\n").unwrap();
        let mut sink = Stdout::start_on(file.try_clone().unwrap().into()).unwrap();
        for batch in 1..=3 {
            sink.send(BatchId(batch), b"line\n".to_vec());
        }
        assert_eq!(taken(&mut sink, 3).await, [1, 2, 3]);
        std::io::Seek::rewind(&mut file).unwrap();
        assert_eq!(read(&mut file, 22), b"before\nline\nline\nline\n");
    }

    #[tokio::test]
    async fn a_full_device_is_an_error_and_nothing_is_taken() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut sink = Stdout::start_on(full.into()).unwrap();
        sink.send(BatchId(1), b"one\n".to_vec());
        let error = timeout(SOON, async {
            loop {
                if let Err(error) = sink.changed().await {
                    break error;
                }
            }
        });
        let error = error.await.expect("the error is told soon").to_string();
        assert!(error.starts_with("standard output cannot be written: No space left"), "{error}");
        assert_eq!(sink.taken(), []);
    }
}
