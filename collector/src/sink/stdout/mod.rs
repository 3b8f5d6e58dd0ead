//! Lines to standard output.
//!
//! A thread writes, because a write to a full pipe blocks until the reader reads.
//! A line counts as taken:
//! - on a pipe, when its last byte has left the kernel's buffer: `FIONREAD` is what is left there.
//!   What is in that buffer when the reader ends is lost, and not taken;
//! - in a regular file, when it is on the disk;
//! - on a terminal, socket or device, when it is written, since nothing more can be known. A device
//!   that discards its input is refused.
//!
//! # Lines that are cut short
//! A pipe can outlive the process that writes to it. A part of a line and the next collector's
//! first line must not become one, or a reader would lose both. So:
//! - A line is written to a pipe in one piece, once there is room for all of it. The kernel does
//!   not interrupt a write that need not wait, not even for `SIGKILL`. The pipe is enlarged for a
//!   line that is larger, up to a megabyte.
//! - A line that is larger still is written in parts, and a full disk cuts any line to a file. So a
//!   line feed precedes the first line if the pipe or file is not empty at the start.

mod writer;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub(crate) use writer::StartError;

use super::{Ack, Sink, SinkError};
use crate::line::Line;
use crate::queue::{BatchId, Nack};
use writer::{LineQueue, WriteProgress, Writer};

/// How long the reader gets at the end. With the last settlement it is below the ten seconds after
/// which containers are killed.
const GRACE: Duration = Duration::from_secs(6);

/// Standard output, or another file in its place. Not `Debug`: lines hold addresses and tokens.
pub(crate) struct Stdout {
    /// What was sent and neither taken nor cancelled, the oldest first, without bytes,
    /// and when it was sent.
    in_flight: VecDeque<(Line, Instant)>,
    abandoned: Vec<Ack>,
    unsent: Vec<BatchId>,
    /// How many lines were removed from the front of `in_flight` so far.
    taken: usize,
    queue: Arc<LineQueue>,
    progress: watch::Receiver<WriteProgress>,
}

impl Stdout {
    /// Starts the thread that writes to this process's standard output.
    pub(crate) fn start() -> Result<Self, StartError> {
        Self::start_on(io::stdout().as_fd().try_clone_to_owned()?)
    }

    fn start_on(output: OwnedFd) -> Result<Self, StartError> {
        let queue = Arc::new(LineQueue::new()?);
        let (sender, progress) = watch::channel(WriteProgress::default());
        let writer = Writer::new(output, Arc::clone(&queue), sender)?;
        thread::Builder::new().name("stdout".to_owned()).spawn(move || writer.run())?;
        Ok(Self {
            in_flight: VecDeque::new(),
            abandoned: Vec::new(),
            unsent: Vec::new(),
            taken: 0,
            queue,
            progress,
        })
    }
}

impl Sink for Stdout {
    fn send(&mut self, mut line: Line) {
        let bytes = mem::take(&mut line.bytes);
        self.in_flight.push_back((line, Instant::now()));
        let mut waiting = self.queue.lock();
        // The thread does not sleep while lines wait, or only until there is room for one.
        let is_first = waiting.lines.is_empty();
        waiting.lines.push_back(bytes);
        drop(waiting);
        if is_first {
            self.queue.wake();
        }
    }

    async fn changed(&mut self) -> Result<(), SinkError> {
        let result = |progress: &WriteProgress| progress.failure.map_or(Ok(()), Err);
        result(&self.progress.borrow())?;
        // The thread ends only after it has reported why.
        self.progress.changed().await.map_err(|_| SinkError::Closed)?;
        result(&self.progress.borrow_and_update())
    }

    fn ended(&mut self) -> (Vec<Ack>, Vec<BatchId>) {
        let total = self.progress.borrow().taken.max(self.taken);
        let new = total - mem::replace(&mut self.taken, total);
        let mut acks = mem::take(&mut self.abandoned);
        acks.extend(self.in_flight.drain(..new).map(|line| ack(line, true)));
        (acks, mem::take(&mut self.unsent))
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn waiting_since(&self) -> Option<Instant> {
        let waiting = self.queue.lock().lines.len();
        let first = self.in_flight.len().checked_sub(waiting)?;
        self.in_flight.get(first).map(|(_, sent_at)| *sent_at)
    }

    fn cancel_unsent(&mut self) {
        // While the queue is locked no line is begun,
        // so exactly the last ones of `in_flight` are cancelled.
        let count = mem::take(&mut self.queue.lock().lines).len();
        let first = self.in_flight.len().checked_sub(count).expect("every waiting line was sent");
        self.unsent.extend(self.in_flight.drain(first..).map(|(line, _)| line.batch));
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

fn ack((line, sent_at): (Line, Instant), is_taken: bool) -> Ack {
    let ids = if is_taken { Vec::new() } else { line.ids };
    let nacks = ids.into_iter().map(|id| (id, Nack::Unanswered)).collect();
    Ack {
        batch: line.batch,
        nacks,
        receipts: Vec::new(),
        traces: line.traces,
        after: sent_at.elapsed(),
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
    use super::writer::MAX_PAUSE;
    use super::*;
    use rustix::io::ioctl_fionread;
    use std::fs::File;
    use std::io::Read;

    fn with_lines(lines: &[&[u8]]) -> (Stdout, File) {
        let (reader, writer) = io::pipe().unwrap();
        let mut sink = Stdout::start_on(writer.into()).unwrap();
        for (line, batch) in lines.iter().zip(1..) {
            let (batch, bytes) = (BatchId::from(batch), line.to_vec());
            sink.send(Line {
                batch,
                ids: vec![1],
                bytes,
                rejected: Vec::new(),
                traces: Vec::new(),
            });
        }
        (sink, File::from(OwnedFd::from(reader)))
    }

    #[test]
    fn no_part_of_a_line_is_in_a_pipe_that_is_not_read() {
        for length in [100, 4_097, 10_000, 16_385, 50_000, 90_000, 700_000] {
            let line = [vec![b'x'; length - 1], vec![b'\n']].concat();
            let (_sink, mut reader) = with_lines(&vec![&line[..]; 1_000_000 / length + 9]);
            let unread = |reader: &File| usize::try_from(ioctl_fionread(reader).unwrap()).unwrap();
            for _ in 0..3 {
                while unread(&reader) < length {
                    thread::sleep(MAX_PAUSE);
                }
                thread::sleep(8 * MAX_PAUSE);
                let bytes = unread(&reader);
                assert_eq!(bytes % length, 0, "{bytes} bytes of lines of {length}");
                let mut whole = vec![0; bytes];
                reader.read_exact(&mut whole).unwrap();
                assert!(whole.chunks(length).all(|chunk| chunk == line), "lines of {length}");
            }
        }
    }
}
