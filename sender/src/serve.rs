//! The sender's work: lines in, mails out, answers back.
//!
//! One thread reads lines, one for each connection sends (`pool`), and one decides (`desk`): it
//! alone writes to standard output.

use std::io::{BufRead, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::desk::Desk;
use crate::error::Error;
use crate::journal::Journal;
use crate::lane::Lane;
use crate::pool::{Pool, Shared};
use crate::protocol::Key;
use crate::provider::{Provider, Verdict};
use crate::queue::Queued;
use crate::rate::Domains;
use crate::writer::Writer;

/// The longest line that is read, in bytes: 10,000 tokens with the longest fields that make sense.
const LONGEST_LINE: u64 = 64 << 20;

/// What the thread that decides hears of.
pub(crate) enum Event {
    /// A line came.
    Line(Vec<u8>),
    /// An attempt ended.
    Delivered {
        /// The provider's place.
        lane: usize,
        /// The key of the mail; `None` if the provider alone was tried.
        key: Option<Key>,
        /// What became of it.
        verdict: Verdict,
        /// The mails that waited for this provider and must not wait any longer.
        withdrawn: Vec<Queued>,
    },
    /// No line will come any more.
    InputEnded(Result<(), String>),
}

/// Works until the input ends and everything that came is answered.
///
/// # Errors
/// Input that cannot be read, answers that cannot be written.
pub(crate) fn serve(
    input: impl BufRead + Send + 'static,
    output: impl Write,
    writer: &Writer,
    providers: Vec<Box<dyn Provider>>,
    domains: Domains,
    journal: Journal,
) -> Result<(), Error> {
    let (events, received) = channel();
    let read_lines = events.clone();
    // Not waited for at the end: after an error it may still wait for a line.
    thread::spawn(move || read(input, &read_lines));
    let domains = Arc::new(domains);
    let has_other = providers.len() > 1;
    let lanes = providers.iter().map(|provider| {
        Lane::new(provider.rate(), provider.connections(), Arc::clone(&domains), has_other)
    });
    let lanes = lanes.collect();
    let shared = Arc::new(Shared { providers, lanes, journal });
    let mut pool = Pool::start(&shared, events);
    let mut desk = Desk::new(output, writer, &shared);
    let outcome = desk.run(&received, &mut pool);
    if desk.finish(&received) {
        pool.join();
    }
    outcome
}

fn read(mut input: impl BufRead, events: &Sender<Event>) {
    loop {
        let mut line = Vec::new();
        let outcome = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        let event = match outcome {
            Ok(0) => Event::InputEnded(Ok(())),
            Ok(_) if line.len() as u64 == LONGEST_LINE => {
                Event::InputEnded(Err("a line is too long".to_owned()))
            }
            // Without its line feed it may be a part of one.
            Ok(_) if line.pop() != Some(b'\n') => Event::InputEnded(Ok(())),
            Ok(_) => Event::Line(line),
            Err(error) => Event::InputEnded(Err(error.to_string())),
        };
        let is_end = matches!(event, Event::InputEnded(_));
        if events.send(event).is_err() || is_end {
            return;
        }
    }
}

/// Says something on standard error, which the collector logs. If that is closed, the work goes on.
pub(crate) fn report(sentence: &str) {
    writeln!(std::io::stderr(), "mailroom send: {sentence}").ok();
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
