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

use rustix::pipe::{PipeFlags, pipe_with};
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
    /// What was sent and neither taken nor cancelled, the oldest first.
    in_flight: VecDeque<InFlightLine>,
    abandoned: Vec<Ack>,
    /// How many lines were removed from the front of `in_flight` so far.
    taken: usize,
    queue: Arc<LineQueue>,
    progress: watch::Receiver<WriteProgress>,
}

struct InFlightLine {
    batch: BatchId,
    ids: Vec<i64>,
    sent_at: Instant,
}

impl InFlightLine {
    fn ack(self, nack: Option<&Nack>) -> Ack {
        let nacks = nack.map(|nack| self.ids.into_iter().map(|id| (id, nack.clone())).collect());
        Ack { batch: self.batch, nacks: nacks.unwrap_or_default(), after: self.sent_at.elapsed() }
    }
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
        let (wake_reader, wake_writer) =
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(io::Error::from)?;
        let queue = Arc::new(LineQueue::new(wake_writer));
        let (sender, progress) = watch::channel(WriteProgress::default());
        let writer = Writer::new(output, wake_reader, Arc::clone(&queue), sender)?;
        thread::Builder::new().name("stdout".to_owned()).spawn(move || writer.run())?;
        Ok(Self { in_flight: VecDeque::new(), abandoned: Vec::new(), taken: 0, queue, progress })
    }
}

impl Sink for Stdout {
    fn send(&mut self, outgoing: OutgoingBatch) {
        let OutgoingBatch { batch, ids, line, .. } = outgoing;
        self.in_flight.push_back(InFlightLine { batch, ids, sent_at: Instant::now() });
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
        acks.extend(self.in_flight.drain(..new).map(|line| line.ack(None)));
        acks
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn waiting_since(&self) -> Option<Instant> {
        let waiting = self.queue.lock().lines.len();
        let first = self.in_flight.len().checked_sub(waiting)?;
        self.in_flight.get(first).map(|line| line.sent_at)
    }

    fn cancel_unsent(&mut self) -> Vec<BatchId> {
        // While the queue is locked no line is begun, so exactly the last ones of `in_flight` are cancelled.
        let count = mem::take(&mut self.queue.lock().lines).len();
        let first = self.in_flight.len().checked_sub(count).expect("every waiting line was sent");
        self.in_flight.drain(first..).map(|line| line.batch).collect()
    }

    fn grace(&self) -> Duration {
        GRACE
    }

    /// What was not taken may still be in the pipe, where the reader finds it later.
    fn abandon(&mut self) {
        self.abandoned.extend(self.in_flight.drain(..).map(|line| line.ack(Some(&Nack::Abandoned))));
        // The thread may still report them as taken.
        self.taken = usize::MAX;
    }
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
    use std::fs::File;
    use std::io::{Read, Write};
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(20);

    fn on_a_pipe() -> (Stdout, File) {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        (Stdout::start_on(writer).unwrap(), File::from(reader))
    }

    fn id(batch: u128) -> BatchId {
        BatchId::from(batch)
    }

    fn send(sink: &mut Stdout, batch: u128, line: Vec<u8>) {
        sink.send(OutgoingBatch { batch: id(batch), ids: vec![1], line });
    }

    /// A sink on a pipe after two lines, of batches 1 and 2.
    fn with_two_lines() -> (Stdout, File) {
        let (mut sink, reader) = on_a_pipe();
        send(&mut sink, 1, b"one\n".to_vec());
        send(&mut sink, 2, b"two\n".to_vec());
        (sink, reader)
    }

    fn read(reader: &mut File, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Waits until `count` more lines are taken; returns their batches.
    async fn taken(sink: &mut Stdout, count: usize) -> Vec<BatchId> {
        let mut batches = Vec::new();
        while batches.len() < count {
            timeout(SOON, sink.changed()).await.expect("the line is taken soon").unwrap();
            batches.extend(sink.acks().iter().map(|ack| ack.batch));
        }
        batches
    }

    /// Waits until nothing more can be sent; returns the batches taken meanwhile and why.
    async fn failure(sink: &mut Stdout) -> (Vec<BatchId>, SinkError) {
        let mut batches = Vec::new();
        loop {
            let changed = timeout(SOON, sink.changed()).await.expect("the failure is noticed soon");
            batches.extend(sink.acks().iter().map(|ack| ack.batch));
            if let Err(error) = changed {
                return (batches, error);
            }
        }
    }

    #[tokio::test]
    async fn a_line_in_a_pipe_is_taken_with_its_last_byte() {
        let (mut sink, mut reader) = with_two_lines();
        assert_eq!(read(&mut reader, 4), b"one\n");
        assert_eq!(taken(&mut sink, 1).await, [id(1)]);
        assert_eq!(read(&mut reader, 3), b"two");
        tokio::time::sleep(4 * LONGEST_PAUSE).await;
        assert_eq!((sink.acks(), sink.in_flight()), (Vec::new(), 1));
        read(&mut reader, 1);
        assert_eq!(taken(&mut sink, 1).await, [id(2)]);
        assert_eq!(sink.in_flight(), 0);
    }

    #[tokio::test]
    async fn lines_larger_than_the_pipe_and_than_any_pipe_arrive_whole() {
        for length in [300_000_u32, 3_000_000] {
            let (mut sink, mut reader) = on_a_pipe();
            let line: Vec<u8> = (0..length).map(|number| number.to_le_bytes()[1]).collect();
            send(&mut sink, 1, line.clone());
            let read = tokio::task::spawn_blocking(move || (read(&mut reader, line.len()) == line, reader));
            assert_eq!(taken(&mut sink, 1).await, [id(1)]);
            assert!(read.await.unwrap().0);
        }
    }

    #[tokio::test]
    async fn no_part_of_a_line_is_in_a_pipe_that_is_not_read() {
        for length in [100, 4_097, 10_000, 16_385, 50_000, 90_000, 700_000] {
            let (mut sink, mut reader) = on_a_pipe();
            let line = [vec![b'x'; length - 1], vec![b'\n']].concat();
            (0..1_000_000 / length as u128 + 9).for_each(|batch| send(&mut sink, batch, line.clone()));
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
        let (mut sink, mut reader) = on_a_pipe();
        (1..=4).for_each(|batch| send(&mut sink, batch, vec![b'x'; 50_000]));
        // The pipe has room for one of them.
        while sink.queue.lock().lines.len() > 3 {
            timeout(SOON, sink.changed()).await.expect("a line is begun soon").unwrap();
        }
        assert_eq!(sink.waiting_since(), Some(sink.in_flight[1].sent_at));
        assert_eq!(sink.cancel_unsent(), [id(2), id(3), id(4)]);
        assert_eq!(sink.waiting_since(), None);
        send(&mut sink, 5, b"end\n".to_vec());
        let reading = tokio::task::spawn_blocking(move || (read(&mut reader, 50_004), reader));
        assert_eq!(taken(&mut sink, 2).await, [id(1), id(5)]);
        assert!(reading.await.unwrap().0.ends_with(b"xend\n"));
    }

    #[tokio::test]
    async fn a_line_feed_precedes_the_first_line_if_a_pipe_or_file_is_not_empty() {
        let folder = tempfile::tempdir().unwrap();
        let (fifo, file) = (folder.path().join("fifo"), folder.path().join("file"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for (left, expected) in [
            ("1,a@b.test,cut sho", "1,a@b.test,cut sho\none\ntwo\n"),
            ("1,cut\nsho", "1,cut\nsho\none\ntwo\n"),
            ("1,whole\n", "1,whole\n\none\ntwo\n"),
            ("", "one\ntwo\n"),
        ] {
            std::fs::write(&file, left).unwrap();
            let append = File::options().append(true).open(&file).unwrap();
            assert_continues(append, File::open(&file).unwrap(), expected).await;

            std::fs::write(&file, left).unwrap();
            let mut write = File::options().write(true).open(&file).unwrap();
            std::io::Seek::seek(&mut write, io::SeekFrom::End(0)).unwrap();
            assert_continues(write, File::open(&file).unwrap(), expected).await;

            let mut both = File::options().read(true).write(true).open(&fifo).unwrap();
            both.write_all(left.as_bytes()).unwrap();
            let write = File::options().write(true).open(&fifo).unwrap();
            assert_continues(write, both, expected).await;
        }
    }

    async fn assert_continues(output: File, mut reader: File, expected: &str) {
        let mut sink = Stdout::start_on(output.into()).unwrap();
        send(&mut sink, 1, b"one\n".to_vec());
        send(&mut sink, 2, b"two\n".to_vec());
        while ioctl_fionread(&reader).unwrap() < expected.len() as u64 {
            tokio::time::sleep(LONGEST_PAUSE).await;
        }
        assert_eq!(read(&mut reader, expected.len()), expected.as_bytes());
        assert_eq!(taken(&mut sink, 2).await, [id(1), id(2)]);
    }

    #[test]
    fn a_device_that_discards_everything_is_refused() {
        for device in ["/dev/null", "/dev/zero"] {
            let file = File::options().read(true).write(true).open(device).unwrap();
            let error = Stdout::start_on(file.into()).err().unwrap();
            assert!(matches!(error, StartError::Discards), "{device}: {error}");
        }
    }

    #[tokio::test]
    async fn an_abandoned_line_is_acknowledged_once() {
        let (mut sink, mut reader) = with_two_lines();
        read(&mut reader, 4);
        assert_eq!(taken(&mut sink, 1).await, [id(1)]);
        sink.abandon();
        let acks = sink.acks();
        assert_eq!((acks.len(), &acks[0].nacks), (1, &vec![(1, Nack::Abandoned)]));
        read(&mut reader, 4);
        assert!(timeout(SOON, sink.changed()).await.is_ok());
        assert_eq!((sink.acks(), sink.in_flight()), (Vec::new(), 0));
    }

    #[tokio::test]
    async fn a_reader_that_goes_away_is_noticed_and_what_it_took_is_taken() {
        let (mut sink, mut reader) = with_two_lines();
        read(&mut reader, 6);
        drop(reader);
        assert_eq!(failure(&mut sink).await, (vec![id(1)], SinkError::Closed));
        assert_eq!(sink.in_flight(), 1);

        let (mut idle, reader) = on_a_pipe();
        drop(reader);
        assert_eq!(failure(&mut idle).await, (Vec::new(), SinkError::Closed));
    }

    #[tokio::test]
    async fn a_full_device_is_an_error_and_nothing_is_taken() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut sink = Stdout::start_on(full.into()).unwrap();
        send(&mut sink, 1, b"one\n".to_vec());
        let (taken, error) = failure(&mut sink).await;
        assert_eq!(taken, []);
        let error = error.to_string();
        assert!(error.starts_with("standard output cannot be written: No space left"), "{error}");
    }
}
