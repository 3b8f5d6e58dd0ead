//! The sender of this process: a thread that has a pipe for its lines and one for its answers.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _, pipe};
use std::sync::mpsc as threads;
use std::thread;

use tokio::sync::{mpsc, oneshot};

use crate::answers::{Answer, read};

pub(super) type Started<E> =
    (threads::Sender<String>, mpsc::UnboundedReceiver<Answer>, oneshot::Receiver<Result<(), E>>);

/// Starts the sender, and threads that write its lines and read its answers.
pub(super) fn start<E: Send + 'static>(
    send: impl FnOnce(BufReader<PipeReader>, PipeWriter) -> Result<(), E> + Send + 'static,
) -> std::io::Result<Started<E>> {
    let (input, mut write) = pipe()?;
    let (read_answers, output) = pipe()?;
    let (end, ended) = oneshot::channel();
    thread::spawn(move || end.send(send(BufReader::new(input), output)).ok());
    let (lines, to_write) = threads::channel::<String>();
    thread::spawn(move || {
        while let Ok(line) = to_write.recv() {
            if write.write_all(line.as_bytes()).is_err() {
                return;
            }
        }
    });
    let (answered, answers) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in BufReader::new(read_answers).split(b'\n').map_while(Result::ok) {
            if answered.send(read(&line)).is_err() {
                return;
            }
        }
    });
    Ok((lines, answers, ended))
}
