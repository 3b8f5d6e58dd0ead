//! Lines to standard output.
//!
//! A thread writes, because a write to a full pipe blocks until the reader reads. A line counts as taken:
//! - on a pipe, when its last byte has left the kernel's buffer: `FIONREAD` is what is left there. What is in that buffer
//!   when the reader ends is lost, and not taken;
//! - in a regular file, when it is on the disk;
//! - on a terminal, socket or device, when it is written: nothing more can be known. A device that discards its input is
//!   refused.
//!
//! # Lines that are cut short
//! A line that was written in part is not taken, and goes out again whole. The part and the next collector's first line
//! must not become one, or a reader would lose both: a pipe can outlive the process that writes to it. So:
//! - A line is written to a pipe in one piece, once there is room for all of it. The kernel does not interrupt a write
//!   that need not wait, not even for `SIGKILL`, so nothing of a line is in the pipe, or all of it. The pipe is enlarged
//!   for a line that is larger, up to the megabyte that every user may have.
//! - A line that is larger still, or for which the kernel refuses to enlarge the pipe, is written in parts, and a full
//!   disk cuts any line to a file. So a line feed precedes the first line if the pipe or file is not empty at the start:
//!   an empty line does no harm.
//! - A part that the reader of a pipe has already read cannot be seen. The reader detects it by a number of fields
//!   that is not a multiple of five.

mod writer;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub use writer::StartError;

use super::{Ack, OutgoingBatch, Sink, SinkError};
use crate::queue::{BatchId, Nack};
use writer::{LineQueue, WriteProgress, Writer};

/// How long the reader gets at the end. With the last settlement this stays below the ten seconds after which container
/// runtimes kill.
const GRACE: Duration = Duration::from_secs(6);

/// Standard output, or another file in its place. Not `Debug`: lines hold addresses and tokens.
pub struct Stdout {
    /// What was sent and neither taken nor cancelled, the oldest first, without lines, and when it was sent.
    in_flight: VecDeque<(OutgoingBatch, Instant)>,
    abandoned: Vec<Ack>,
    /// How many lines were removed from the front of `in_flight` so far.
    taken: usize,
    queue: Arc<LineQueue>,
    progress: watch::Receiver<WriteProgress>,
}

impl Stdout {
    /// Starts the thread that writes to this process's standard output.
    ///
    /// # Errors
    /// Standard output is closed or discards what is written to it; the operating system refuses a pipe or a thread.
    pub fn start() -> Result<Self, StartError> {
        Self::start_on(io::stdout().as_fd().try_clone_to_owned()?)
    }

    fn start_on(output: OwnedFd) -> Result<Self, StartError> {
        let queue = Arc::new(LineQueue::new()?);
        let (sender, progress) = watch::channel(WriteProgress::default());
        let writer = Writer::new(output, Arc::clone(&queue), sender)?;
        thread::Builder::new().name("stdout".to_owned()).spawn(move || writer.run())?;
        Ok(Self { in_flight: VecDeque::new(), abandoned: Vec::new(), taken: 0, queue, progress })
    }
}

impl Sink for Stdout {
    fn send(&mut self, mut outgoing: OutgoingBatch) {
        let line = mem::take(&mut outgoing.line);
        self.in_flight.push_back((outgoing, Instant::now()));
        self.queue.lock().lines.push_back(line);
        self.queue.wake();
    }

    async fn changed(&mut self) -> Result<(), SinkError> {
        let result = |progress: &WriteProgress| progress.failure.map_or(Ok(()), Err);
        result(&self.progress.borrow())?;
        // The thread ends only after it has reported why.
        self.progress.changed().await.map_err(|_| SinkError::Closed)?;
        result(&self.progress.borrow_and_update())
    }

    fn acks(&mut self) -> Vec<Ack> {
        let total = self.progress.borrow().taken.max(self.taken);
        let new = total - mem::replace(&mut self.taken, total);
        let mut acks = mem::take(&mut self.abandoned);
        acks.extend(self.in_flight.drain(..new).map(|line| ack(line, true)));
        acks
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn waiting_since(&self) -> Option<Instant> {
        let waiting = self.queue.lock().lines.len();
        let first = self.in_flight.len().checked_sub(waiting)?;
        self.in_flight.get(first).map(|(_, sent_at)| *sent_at)
    }

    fn cancel_unsent(&mut self) -> Vec<BatchId> {
        // While the queue is locked no line is begun, so exactly the last ones of `in_flight` are cancelled.
        let count = mem::take(&mut self.queue.lock().lines).len();
        let first = self.in_flight.len().checked_sub(count).expect("every waiting line was sent");
        self.in_flight.drain(first..).map(|(outgoing, _)| outgoing.batch).collect()
    }

    fn grace(&self) -> Duration {
        GRACE
    }

    /// What was not taken may still be in the pipe, where the reader finds it later.
    fn abandon(&mut self) {
        self.abandoned.extend(self.in_flight.drain(..).map(|line| ack(line, false)));
        // The thread may still report them as taken.
        self.taken = usize::MAX;
    }
}

fn ack((outgoing, sent_at): (OutgoingBatch, Instant), is_taken: bool) -> Ack {
    let ids = if is_taken { Vec::new() } else { outgoing.ids };
    let nacks = ids.into_iter().map(|id| (id, Nack::Abandoned)).collect();
    Ack { batch: outgoing.batch, nacks, after: sent_at.elapsed() }
}

impl Drop for Stdout {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::writer::LONGEST_PAUSE;
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use rustix::io::ioctl_fionread;
    use std::fs::{self, File};
    use std::io::{Read, Seek, SeekFrom, Write};
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(20);

    fn id(batch: u128) -> BatchId {
        BatchId::from(batch)
    }

    /// A sink on a pipe after these lines, of batches 1, 2 and so on.
    fn with_lines(lines: &[&[u8]]) -> (Stdout, File) {
        let (reader, writer) = io::pipe().unwrap();
        let mut sink = Stdout::start_on(writer.into()).unwrap();
        send(&mut sink, lines);
        (sink, File::from(OwnedFd::from(reader)))
    }

    fn send(sink: &mut Stdout, lines: &[&[u8]]) {
        for (line, batch) in lines.iter().zip(1..) {
            sink.send(OutgoingBatch { batch: id(batch), ids: vec![1], line: line.to_vec() });
        }
    }

    fn read(reader: &mut File, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Waits until `count` more lines are taken, or no more can be; returns their batches and why no more can be.
    async fn taken(sink: &mut Stdout, count: usize) -> (Vec<BatchId>, Option<SinkError>) {
        let mut batches = Vec::new();
        let mut error = None;
        while batches.len() < count && error.is_none() {
            error = timeout(SOON, sink.changed()).await.expect("the line is taken soon").err();
            batches.extend(sink.acks().iter().map(|ack| ack.batch));
        }
        (batches, error)
    }

    #[tokio::test]
    async fn a_line_in_a_pipe_is_taken_with_its_last_byte_and_an_abandoned_one_is_acknowledged_once() {
        let (mut sink, mut reader) = with_lines(&[b"one\n", b"two\n"]);
        assert_eq!(read(&mut reader, 7), b"one\ntwo");
        assert_eq!(taken(&mut sink, 1).await, (vec![id(1)], None));
        tokio::time::sleep(4 * LONGEST_PAUSE).await;
        assert_eq!((sink.acks(), sink.in_flight()), (Vec::new(), 1));
        sink.abandon();
        let nacks: Vec<_> = sink.acks().into_iter().map(|ack| (ack.batch, ack.nacks)).collect();
        assert_eq!(nacks, [(id(2), vec![(1, Nack::Abandoned)])]);
        read(&mut reader, 1);
        assert!(timeout(SOON, sink.changed()).await.is_ok());
        assert_eq!((sink.acks(), sink.in_flight()), (Vec::new(), 0));
    }

    #[tokio::test]
    async fn lines_larger_than_the_pipe_and_than_any_pipe_arrive_whole() {
        for length in [300_000_u32, 3_000_000] {
            let line: Vec<u8> = (0..length).map(|number| number.to_le_bytes()[1]).collect();
            let (mut sink, mut reader) = with_lines(&[&line]);
            let read = tokio::task::spawn_blocking(move || (read(&mut reader, line.len()) == line, reader));
            assert_eq!(taken(&mut sink, 1).await, (vec![id(1)], None));
            assert!(read.await.unwrap().0);
        }
    }

    #[tokio::test]
    async fn no_part_of_a_line_is_in_a_pipe_that_is_not_read() {
        for length in [100, 4_097, 10_000, 16_385, 50_000, 90_000, 700_000] {
            let line = [vec![b'x'; length - 1], vec![b'\n']].concat();
            let (_sink, mut reader) = with_lines(&vec![&line[..]; 1_000_000 / length + 9]);
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
    async fn lines_that_are_not_begun_can_be_cancelled() {
        let (mut sink, mut reader) = with_lines(&[&b"x".repeat(50_000)[..]; 4]);
        // The pipe has room for one of them.
        while sink.queue.lock().lines.len() > 3 {
            timeout(SOON, sink.changed()).await.expect("a line is begun soon").unwrap();
        }
        assert_eq!(sink.waiting_since(), Some(sink.in_flight[1].1));
        assert_eq!(sink.cancel_unsent(), [id(2), id(3), id(4)]);
        assert_eq!(sink.waiting_since(), None);
        sink.send(OutgoingBatch { batch: id(5), ids: vec![1], line: b"end\n".to_vec() });
        let reading = tokio::task::spawn_blocking(move || (read(&mut reader, 50_004), reader));
        assert_eq!(taken(&mut sink, 2).await, (vec![id(1), id(5)], None));
        assert!(reading.await.unwrap().0.ends_with(b"xend\n"));
    }

    #[tokio::test]
    async fn a_line_feed_precedes_the_first_line_if_a_pipe_or_file_is_not_empty() {
        let folder = tempfile::tempdir().unwrap();
        let (fifo, file) = (folder.path().join("fifo"), folder.path().join("file"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for (left, added) in
            [("1,cut\nsho", "\none\ntwo\n"), ("1,whole\n", "\none\ntwo\n"), ("", "one\ntwo\n")]
        {
            let mut both = File::options().read(true).write(true).open(&fifo).unwrap();
            both.write_all(left.as_bytes()).unwrap();
            for (path, is_append) in [(&file, true), (&file, false), (&fifo, false)] {
                if path == &file {
                    fs::write(&file, left).unwrap();
                }
                let mut output = File::options().write(true).append(is_append).open(path).unwrap();
                output.seek(SeekFrom::End(0)).ok();
                let mut sink = Stdout::start_on(output.into()).unwrap();
                send(&mut sink, &[b"one\n", b"two\n"]);
                let expected = format!("{left}{added}");
                let mut reader =
                    if path == &file { File::open(path).unwrap() } else { both.try_clone().unwrap() };
                while ioctl_fionread(&reader).unwrap() < expected.len() as u64 {
                    tokio::time::sleep(LONGEST_PAUSE).await;
                }
                assert_eq!(read(&mut reader, expected.len()), expected.as_bytes());
                assert_eq!(taken(&mut sink, 2).await, (vec![id(1), id(2)], None));
            }
        }
    }

    #[tokio::test]
    async fn outputs_that_discard_everything_go_away_or_are_full_are_noticed() {
        let open = |device| File::options().read(true).write(true).open(device).unwrap();
        for device in ["/dev/null", "/dev/zero"] {
            assert!(matches!(Stdout::start_on(open(device).into()), Err(StartError::Discards)), "{device}");
        }
        let mut full = Stdout::start_on(open("/dev/full").into()).unwrap();
        send(&mut full, &[b"one\n"]);
        let (batches, error) = taken(&mut full, 1).await;
        let error = error.unwrap().to_string();
        assert!(error.starts_with("standard output cannot be written: No space left"), "{error}");
        assert_eq!(batches, []);

        // What it took is taken, also if nothing more is written.
        for (lines, expected) in [(&[b"one\n".as_slice(), b"two\n"][..], vec![id(1)]), (&[], vec![])] {
            let (mut sink, mut reader) = with_lines(lines);
            read(&mut reader, lines.concat().len().saturating_sub(2));
            drop(reader);
            assert_eq!(taken(&mut sink, 2).await, (expected, Some(SinkError::Closed)));
        }
    }
}
