//! Lines to standard output.
//!
//! A thread writes, because a full pipe may block it for as long as the reader likes, and a blocked runtime would no
//! longer read notifications. A line counts as taken:
//! - on a pipe, when the reader has taken its last byte out of the kernel's buffer, of which `FIONREAD` tells the
//!   rest. What is still in that buffer is lost if the reader dies;
//! - in a regular file, when it is on the disk;
//! - on a terminal, socket or device, when it is written: nothing more can be known there. A device that discards what
//!   is written to it is refused.
//!
//! # Lines that are cut short
//! A line that was taken in part is not taken, and goes out again whole. What must not happen is that the part and the
//! next collector's first line become one: a pipe can outlive the process that writes to it, and a reader would then
//! lose both. So:
//! - A line is written to a pipe in one piece, once there is room for all of it. The kernel does not interrupt a write
//!   that need not wait, not even for `SIGKILL`, so nothing of a line is in the pipe, or all of it. The pipe is enlarged
//!   for a line that is larger, up to the megabyte that every user may have.
//! - What is larger still, or too large where the kernel refuses that, is written in parts, and so is a line to
//!   anything else when a disk is full. At the start it is looked whether the output ends in the middle of a line; then
//!   a line feed goes before the first line. Where it cannot be looked, one goes there too: an empty line does no harm.
//! - A part that the reader of a pipe has taken already cannot be seen any more. A line whose number of fields is not a
//!   multiple of five tells the reader.

mod output;
mod writer;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::watch;

pub use output::StartError;

use super::{Parcel, Sink, SinkError, Taken};
use crate::queue::{BatchId, Exception};
use output::Output;
use writer::{End, Lines, Report, Writer};

/// At the end, how long the reader gets to take what is on its way. With the last settlement this stays below the ten
/// seconds after which container runtimes kill.
const GRACE: Duration = Duration::from_secs(6);

/// Standard output, or another file in its place.
pub struct Stdout {
    /// What was sent and neither taken nor recalled, the oldest first.
    sent: VecDeque<Sent>,
    /// What was given up.
    abandoned: Vec<Taken>,
    /// How many lines were taken away from the front of `sent` so far.
    taken: u64,
    lines: Arc<Lines>,
    report: watch::Receiver<Report>,
}

struct Sent {
    batch: BatchId,
    ids: Vec<i64>,
    at: Instant,
}

impl Stdout {
    /// Starts the thread that writes to this process's standard output.
    ///
    /// # Errors
    /// Standard output is closed or discards what is written to it; the operating system refuses a pipe or a thread.
    pub fn start() -> Result<Self, StartError> {
        Self::start_on(io::stdout().as_fd().try_clone_to_owned()?)
    }

    /// Starts the thread that writes to `output`.
    pub fn start_on(output: OwnedFd) -> Result<Self, StartError> {
        let output = Output::of(output)?;
        let (wake_reader, wake_writer) =
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(io::Error::from)?;
        let lines = Arc::new(Lines { waiting: Mutex::default(), wake: wake_writer });
        let (report, receiver) = watch::channel(Report::default());
        let writer = Writer::new(output, wake_reader, Arc::clone(&lines), report);
        thread::Builder::new().name("stdout".to_owned()).spawn(move || writer.run())?;
        Ok(Self { sent: VecDeque::new(), abandoned: Vec::new(), taken: 0, lines, report: receiver })
    }
}

/// Without the lines, which hold addresses and tokens.
impl fmt::Debug for Stdout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Stdout");
        shown.field("sent", &self.sent.len()).field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Sink for Stdout {
    fn send(&mut self, parcel: Parcel) {
        self.sent.push_back(Sent { batch: parcel.batch, ids: parcel.ids, at: Instant::now() });
        self.lines.waiting().queue.push_back(parcel.line);
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
        let total = self.report.borrow().taken.max(self.taken);
        let new =
            usize::try_from(total - self.taken).expect("no more lines are taken than were kept in memory");
        self.taken = total;
        let mut taken = mem::take(&mut self.abandoned);
        taken.extend(self.sent.drain(..new).map(|sent| Taken {
            batch: sent.batch,
            exceptions: Vec::new(),
            after: sent.at.elapsed(),
        }));
        taken
    }

    fn in_flight(&self) -> usize {
        self.sent.len()
    }

    fn waiting_since(&self) -> Option<Instant> {
        let waiting = self.lines.waiting().queue.len();
        self.sent.len().checked_sub(waiting).and_then(|first| self.sent.get(first)).map(|sent| sent.at)
    }

    fn recall(&mut self) -> Vec<BatchId> {
        // Under the lock the thread begins no line, so exactly the last ones of `sent` are taken back.
        let mut waiting = self.lines.waiting();
        let count = waiting.queue.len();
        waiting.queue.clear();
        drop(waiting);
        let first = self.sent.len().checked_sub(count).expect("every waiting line was sent");
        self.sent.drain(first..).map(|sent| sent.batch).collect()
    }

    fn grace(&self) -> Duration {
        GRACE
    }

    /// What the reader has not taken may still be in its pipe, where it can read it later.
    fn abandon(&mut self) {
        let unanswered = |ids: Vec<i64>| ids.into_iter().map(|id| (id, Exception::Unanswered)).collect();
        self.abandoned.extend(self.sent.drain(..).map(|sent| Taken {
            batch: sent.batch,
            exceptions: unanswered(sent.ids),
            after: sent.at.elapsed(),
        }));
        // The thread may still tell of them.
        self.taken = u64::MAX;
    }
}

impl Drop for Stdout {
    fn drop(&mut self) {
        self.lines.waiting().ended = true;
        self.lines.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::writer::LONGEST_PAUSE;
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use rustix::io::ioctl_fionread;
    use std::fs::File;
    use std::io::{Read, Write};
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(20);

    fn on_a_pipe() -> (Stdout, File) {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        (Stdout::start_on(writer).unwrap(), File::from(reader))
    }

    fn send(sink: &mut Stdout, batch: u64, line: Vec<u8>) {
        sink.send(Parcel { batch: BatchId(batch), name: batch.into(), ids: vec![1], line });
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
        send(&mut sink, 1, b"one\n".to_vec());
        send(&mut sink, 2, b"two\n".to_vec());
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
    async fn lines_larger_than_the_pipe_and_than_any_pipe_arrive_whole() {
        for length in [300_000_u32, 3_000_000] {
            let (mut sink, mut reader) = on_a_pipe();
            let line: Vec<u8> = (0..length).map(|number| number.to_le_bytes()[1]).collect();
            send(&mut sink, 1, line.clone());
            let read = tokio::task::spawn_blocking(move || (read(&mut reader, line.len()) == line, reader));
            assert_eq!(taken(&mut sink, 1).await, [1]);
            assert!(read.await.unwrap().0);
        }
    }

    #[tokio::test]
    async fn no_part_of_a_line_is_ever_in_a_pipe_that_nobody_reads() {
        for length in [100, 4_097, 10_000, 16_385, 50_000, 90_000, 700_000] {
            let (mut sink, mut reader) = on_a_pipe();
            let line = [vec![b'x'; length - 1], vec![b'\n']].concat();
            (0..1_000_000 / length as u64 + 9).for_each(|batch| send(&mut sink, batch, line.clone()));
            let unread = |reader: &File| usize::try_from(ioctl_fionread(reader).unwrap()).unwrap();
            for _ in 0..3 {
                while unread(&reader) < length {
                    tokio::time::sleep(LONGEST_PAUSE).await;
                }
                tokio::time::sleep(8 * LONGEST_PAUSE).await;
                let bytes = unread(&reader);
                assert_eq!(bytes % length, 0, "{bytes} bytes of lines of {length}");
                let whole = read(&mut reader, bytes);
                assert!(whole.chunks(length).all(|chunk| chunk == line), "lines of {length}");
            }
        }
    }

    #[tokio::test]
    async fn lines_of_which_nothing_was_written_can_be_recalled() {
        let (mut sink, mut reader) = on_a_pipe();
        let line = vec![b'x'; 50_000];
        for batch in 1..=4 {
            send(&mut sink, batch, line.clone());
        }
        // The pipe has room for one of them.
        while sink.lines.waiting().queue.len() > 3 {
            timeout(SOON, sink.changed()).await.expect("a line is begun soon").unwrap();
        }
        assert_eq!(sink.waiting_since(), Some(sink.sent[1].at));
        assert_eq!(sink.recall(), [BatchId(2), BatchId(3), BatchId(4)]);
        assert_eq!(sink.waiting_since(), None);
        send(&mut sink, 5, b"end\n".to_vec());
        let reading = tokio::task::spawn_blocking(move || (read(&mut reader, 50_004), reader));
        assert_eq!(taken(&mut sink, 2).await, [1, 5]);
        assert!(reading.await.unwrap().0.ends_with(b"xend\n"));
    }

    #[tokio::test]
    async fn a_line_after_the_rest_of_another_begins_with_a_line_feed() {
        for (left, expected) in [
            (&b"1,a@b.test,cut sho"[..], &b"1,a@b.test,cut sho\none\ntwo\n"[..]),
            (b"1,cut\nsho", b"1,cut\nsho\none\ntwo\n"),
            (b"1,whole\n", b"1,whole\none\ntwo\n"),
            (b"", b"one\ntwo\n"),
        ] {
            let (reader, mut writer, _folder) = fifo();
            writer.write_all(left).unwrap();
            let mut sink = Stdout::start_on(writer.into()).unwrap();
            send(&mut sink, 1, b"one\n".to_vec());
            send(&mut sink, 2, b"two\n".to_vec());
            let expected = expected.to_vec();
            let reading = tokio::task::spawn_blocking(move || {
                let mut reader = reader;
                (read(&mut reader, expected.len()) == expected, reader)
            });
            assert_eq!(taken(&mut sink, 2).await, [1, 2]);
            assert!(reading.await.unwrap().0, "after {left:?}");
        }
    }

    /// A pipe with a name, open at both ends.
    fn fifo() -> (File, File, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let both = File::options().read(true).write(true).open(&path).unwrap();
        let writer = File::options().write(true).open(&path).unwrap();
        let reader = File::open(&path).unwrap();
        drop(both);
        (reader, writer, folder)
    }

    #[tokio::test]
    async fn a_file_that_ends_within_a_line_is_continued_on_a_new_one() {
        for (left, expected) in [
            ("cut sho", "cut sho\none\n"),
            ("a\ncut", "a\ncut\none\n"),
            ("whole\n", "whole\none\n"),
            ("", "one\n"),
        ] {
            for append in [true, false] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("lines");
                std::fs::write(&path, left).unwrap();
                let mut file = File::options().write(true).append(append).open(&path).unwrap();
                if !append {
                    std::io::Seek::seek(&mut file, io::SeekFrom::End(0)).unwrap();
                }
                let mut sink = Stdout::start_on(file.into()).unwrap();
                send(&mut sink, 1, b"one\n".to_vec());
                assert_eq!(taken(&mut sink, 1).await, [1]);
                assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
            }
        }
    }

    #[test]
    fn a_device_that_discards_everything_is_refused() {
        for device in ["/dev/null", "/dev/zero"] {
            let file = File::options().read(true).write(true).open(device).unwrap();
            let error = Stdout::start_on(file.into()).unwrap_err();
            assert!(matches!(error, StartError::Discards), "{device}: {error}");
        }
    }

    #[tokio::test]
    async fn what_is_given_up_was_not_answered_and_is_not_taken_later() {
        let (mut sink, mut reader) = on_a_pipe();
        send(&mut sink, 1, b"one\n".to_vec());
        send(&mut sink, 2, b"two\n".to_vec());
        read(&mut reader, 4);
        assert_eq!(taken(&mut sink, 1).await, [1]);
        sink.abandon();
        let given_up = sink.taken();
        assert_eq!(given_up.len(), 1);
        assert_eq!(given_up[0].exceptions, [(1, Exception::Unanswered)]);
        read(&mut reader, 4);
        assert!(timeout(SOON, sink.changed()).await.is_ok());
        assert_eq!((sink.taken(), sink.in_flight()), (Vec::new(), 0));
    }

    #[test]
    fn debug_output_shows_no_line() {
        let (mut sink, _reader) = on_a_pipe();
        send(&mut sink, 1, b"1,ada@example.test,ada\n".to_vec());
        let shown = format!("{sink:?}");
        assert!(!shown.contains("ada") && !shown.contains("97, 100, 97"), "{shown}");
    }

    #[tokio::test]
    async fn a_reader_that_goes_away_is_noticed_at_once_and_keeps_what_it_took() {
        let (mut sink, mut reader) = on_a_pipe();
        send(&mut sink, 1, b"one\n".to_vec());
        send(&mut sink, 2, b"two\n".to_vec());
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
            send(&mut sink, batch, b"line\n".to_vec());
        }
        assert_eq!(taken(&mut sink, 3).await, [1, 2, 3]);
        std::io::Seek::rewind(&mut file).unwrap();
        assert_eq!(read(&mut file, 22), b"before\nline\nline\nline\n");
    }

    #[tokio::test]
    async fn a_full_device_is_an_error_and_nothing_is_taken() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut sink = Stdout::start_on(full.into()).unwrap();
        send(&mut sink, 1, b"one\n".to_vec());
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
