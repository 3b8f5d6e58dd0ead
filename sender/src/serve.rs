//! The sender's work: lines in, mails out, answers back.
//!
//! One thread reads lines, one for each connection sends (`pool`), and one decides (`dispatcher`):
//! it alone writes to standard output.

use std::io::{BufRead, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use mailroom_mail::Error;

use crate::dispatcher::Dispatcher;
use crate::event::{Event, Length};
use crate::pool::Pool;
use crate::shared::Shared;
use crate::writer::Writer;

/// The longest line that is read, in bytes: 10,000 tokens with the longest fields that make sense.
const MAX_LINE: u64 = 64 << 20;

/// Works until the input ends and everything that came is answered.
///
/// # Errors
/// Input that cannot be read, answers that cannot be written.
pub(crate) fn serve(
    input: impl BufRead + Send + 'static,
    output: impl Write,
    writer: &Writer,
    shared: &Arc<Shared>,
) -> Result<(), Error> {
    let (events, received) = channel();
    let read_lines = events.clone();
    // Not waited for at the end: after an error it may still wait for a line.
    thread::spawn(move || read(input, MAX_LINE, &read_lines));
    let mut pool = Pool::start(shared, events);
    let mut dispatcher = Dispatcher::new(output, writer, shared);
    let outcome = dispatcher.run(&received, &mut pool);
    if dispatcher.finish(&received) {
        pool.join();
    }
    outcome
}

fn read(mut input: impl BufRead, longest: u64, events: &Sender<Event>) {
    loop {
        let mut line = Vec::new();
        let mut outcome = input.by_ref().take(longest).read_until(b'\n', &mut line);
        let mut length = Length::Whole;
        if outcome.is_ok() && line.len() as u64 == longest && !line.ends_with(b"\n") {
            length = Length::TooLong;
            outcome = pass_over_rest(&mut input);
            line.push(b'\n');
        }
        let event = match outcome {
            Ok(0) => Event::InputEnded(Ok(())),
            // Without its line feed it may be a part of one.
            Ok(_) if line.pop() != Some(b'\n') => Event::InputEnded(Ok(())),
            Ok(_) => Event::Line(line, length),
            Err(error) => Event::InputEnded(Err(error.to_string())),
        };
        let is_end = matches!(event, Event::InputEnded(_));
        if events.send(event).is_err() || is_end {
            return;
        }
    }
}

/// Reads up to the end of a line, and keeps nothing of it. Returns how much that was; 0 if the
/// input ends before the line does.
fn pass_over_rest(input: &mut impl BufRead) -> std::io::Result<usize> {
    let mut passed = 0;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(0);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        input.consume(used);
        passed += used;
        if end.is_some() {
            return Ok(passed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_cut_and_the_next_ones_are_read() {
        let (events, received) = channel();
        read(&b"ab\nabcdefgh\nabcd\nabcde\nc\nincomplete"[..], 5, &events);
        let mut lines = Vec::new();
        for event in received.try_iter() {
            match event {
                Event::Line(line, length) => lines.push((String::from_utf8(line).unwrap(), length)),
                Event::InputEnded(outcome) => assert_eq!(outcome, Ok(())),
                Event::Delivered { .. } => panic!("nothing is sent"),
            }
        }
        let expected = [
            ("ab", Length::Whole),
            ("abcde", Length::TooLong),
            ("abcd", Length::Whole),
            ("abcde", Length::TooLong),
            ("c", Length::Whole),
        ];
        assert_eq!(lines, expected.map(|(line, length)| (line.to_owned(), length)));
    }
}
