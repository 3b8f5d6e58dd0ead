//! What is being worked on: batches come in, mails go to providers, and verdicts go out.
//!
//! `intake` decides of every token that comes, `verdicts` of every mail whose attempt has ended or
//! that has no place, and `beat` looks every second for mails that keep others waiting. `batches`
//! has what is answered.

mod batches;
mod beat;
mod intake;
mod verdicts;

use std::collections::HashMap;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use mailroom_mail::Error;

use crate::clock::seconds;
use crate::event::Event;
use crate::key::Key;
use crate::lane::Lane;
use crate::pool::Pool;
use crate::queue::Queued;
use crate::shared::Shared;
use crate::standard_error::report;
use crate::writer::Writer;
use batches::Batches;

/// How often it is looked for mails that wait for their answers,
/// and said that batches are being worked on.
const BEAT: Duration = Duration::from_secs(1);

/// How long mails that are on their way get after the end of the input.
const ENDING: Duration = Duration::from_secs(20);

/// What is being worked on.
pub(crate) struct Dispatcher<'a, W> {
    output: W,
    writer: &'a Writer,
    shared: &'a Shared,
    waiting: HashMap<Key, Waiting>,
    batches: Batches,
    /// Mails that go to another provider than before, once the journal has it.
    moved: Vec<(usize, Queued)>,
    next_beat: Instant,
    /// Whether it is to be said at once which batches only wait.
    is_slow_news: bool,
    /// Until when mails on their way are waited for.
    ends_at: Option<Instant>,
}

/// The tokens that wait for the mail of a key: a token can come again, in another batch, while its
/// first mail is on its way.
#[derive(Default)]
struct Waiting {
    tokens: Vec<(String, i64)>,
    /// The place of its provider.
    lane: usize,
    /// How many of its attempts the database counts as in doubt.
    known: u32,
    /// Whether its provider may have accepted it at an earlier attempt,
    /// which no refusal of a later one disproves.
    is_bound: bool,
    is_moved: bool,
}

/// What is said of a mail in doubt that is not sent now.
const UNANSWERED: &str = "an earlier attempt ended without an answer";

/// What is said of a mail that is given back because others have all places.
const BEHIND_OTHERS: &str = "all connections wait for answers about other recipients";

impl<'a, W: Write> Dispatcher<'a, W> {
    pub(crate) fn new(output: W, writer: &'a Writer, shared: &'a Shared) -> Self {
        Self {
            output,
            writer,
            shared,
            waiting: HashMap::new(),
            batches: Batches::default(),
            moved: Vec::new(),
            next_beat: Instant::now() + BEAT,
            is_slow_news: false,
            ends_at: None,
        }
    }

    pub(crate) fn run(&mut self, events: &Receiver<Event>, pool: &mut Pool) -> Result<(), Error> {
        while self.ends_at.is_none() || !self.batches.is_empty() {
            let first = match events.recv_timeout(self.patience()) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::failure("the threads that send have ended"));
                }
            };
            // Whatever has come meanwhile shares one wait for the disk.
            for event in first.into_iter().chain(events.try_iter()) {
                match event {
                    Event::Line(line, length) => self.take(&line, length),
                    Event::Delivered { lane, key, verdict, withdrawn } => {
                        self.settle(lane, key, &verdict, &withdrawn);
                    }
                    Event::InputEnded(outcome) => {
                        self.ends_at = Some(Instant::now() + ENDING);
                        outcome.map_err(|reason| {
                            Error::failure(format!("standard input cannot be read: {reason}"))
                        })?;
                    }
                }
            }
            if self.ends_at.is_some_and(|ends_at| ends_at <= Instant::now()) {
                self.leave_in_doubt();
            }
            // What cannot be recorded was sent nevertheless, and said.
            let synced = self.shared.journal.sync(seconds(SystemTime::now()));
            if let Err(error) = &synced {
                report(&error.to_string());
            }
            self.start_moved(synced.is_ok());
            self.answer()?;
            self.beat(pool)?;
        }
        Ok(())
    }

    /// How long nothing is to be done without an event.
    fn patience(&self) -> Duration {
        if self.batches.is_empty() {
            return Duration::from_secs(3_600);
        }
        self.next_beat.saturating_duration_since(Instant::now())
    }

    /// Does not wait any longer for what may have been accepted: that is recorded. What nobody has
    /// begun to send is given back.
    fn leave_in_doubt(&mut self) {
        for (index, lane) in self.shared.lanes.iter().enumerate() {
            for mail in lane.close() {
                self.give_back(mail.prepared.key, index, None, "the sender ends");
            }
            for key in lane.in_doubt() {
                self.say_doubt(key, index, "no answer to the content before the sender ended");
            }
        }
    }

    /// Lets the threads end. After an error, what is on its way is waited for, so that it is
    /// recorded and not sent again. Returns whether nothing is on its way any more.
    pub(crate) fn finish(&mut self, events: &Receiver<Event>) -> bool {
        self.shared.lanes.iter().for_each(|lane| drop(lane.close()));
        let ends_at = *self.ends_at.get_or_insert_with(|| Instant::now() + ENDING);
        let is_idle = || self.shared.lanes.iter().all(Lane::is_idle);
        while !is_idle() {
            let left = ends_at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if let Ok(Event::Delivered { lane: _, key: Some(key), verdict, .. }) =
                events.recv_timeout(left.min(BEAT))
            {
                self.record(key, &verdict);
            }
        }
        while let Ok(event) = events.try_recv() {
            if let Event::Delivered { key: Some(key), verdict, .. } = event {
                self.record(key, &verdict);
            }
        }
        self.shared.journal.sync(seconds(SystemTime::now())).ok();
        is_idle()
    }

    /// Writes the verdicts that are known.
    fn answer(&mut self) -> Result<(), Error> {
        let lines = self.batches.answers();
        self.write(&lines)
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), Error> {
        if lines.is_empty() {
            return Ok(());
        }
        let written = self.output.write_all(lines).and_then(|()| self.output.flush());
        written.map_err(|error| {
            Error::failure(format!("an answer cannot be written to standard output: {error}"))
        })
    }
}
