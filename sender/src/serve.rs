//! The sender's work: lines in, mails out, answers back.
//!
//! One thread reads lines, one for each connection sends, and this one decides: it alone has the journal and standard output.

use std::collections::HashMap;
use std::io::{BufRead, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::jobs::{Job, Jobs};
use crate::journal::{Journal, Known};
use crate::protocol::{Answer, Batch, Item, Key, parse_line};
use crate::provider::{Provider, Sealed, Verdict};
use crate::writer::Writer;

/// The longest line that is read, in bytes: 10,000 tokens with the longest fields that make sense.
const LONGEST_LINE: u64 = 64 << 20;

/// How often a thread without work looks at its connection.
const IDLE_PERIOD: Duration = Duration::from_secs(10);

enum Event {
    Line(Vec<u8>),
    Delivered(Key, Verdict),
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
    provider: &dyn Provider,
    journal: Journal,
) -> Result<(), Error> {
    let (events, received) = channel();
    let lines = events.clone();
    // Not waited for at the end: after an error it may still wait for a line.
    thread::spawn(move || read(input, &lines));
    let jobs = Jobs::default();
    thread::scope(|scope| {
        for _ in 0..provider.connections() {
            let (jobs, events) = (&jobs, events.clone());
            scope.spawn(move || deliver(provider, jobs, &events));
        }
        let mut desk = Desk {
            output,
            writer,
            provider,
            journal,
            jobs: &jobs,
            waiting: HashMap::new(),
            batches: HashMap::new(),
        };
        let outcome = desk.run(&received);
        desk.finish(&received);
        outcome
    })
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

fn deliver(provider: &dyn Provider, jobs: &Jobs, events: &Sender<Event>) {
    let mut connection = provider.connection();
    loop {
        match jobs.next(IDLE_PERIOD) {
            Job::Send(sealed) => {
                let verdict = connection.deliver(&sealed);
                if events.send(Event::Delivered(sealed.key, verdict)).is_err() {
                    return;
                }
            }
            Job::Nothing => connection.idle(),
            Job::End => return,
        }
    }
}

/// What is being worked on.
struct Desk<'a, W> {
    output: W,
    writer: &'a Writer,
    provider: &'a dyn Provider,
    journal: Journal,
    jobs: &'a Jobs,
    /// The tokens that wait for the mail of a key: a token can come again, in another batch, while its first mail is on its way.
    waiting: HashMap<Key, Vec<(String, i64)>>,
    batches: HashMap<String, Pending>,
}

/// A batch that is not settled.
struct Pending {
    /// How many of its tokens have no verdict.
    unsettled: usize,
    /// What has not been written yet.
    answer: Answer,
    /// What is said for the tokens that were withdrawn, once all others have verdicts: a mail that is still on its way must not be
    /// given back before it is known what became of it.
    unavailable: Option<(Option<Duration>, String)>,
}

impl<W: Write> Desk<'_, W> {
    fn run(&mut self, events: &Receiver<Event>) -> Result<(), Error> {
        let mut has_input = true;
        while has_input || !self.batches.is_empty() {
            let first = events.recv().map_err(|_| Error::failure("the threads that send have ended"))?;
            // Whatever has come meanwhile shares one wait for the disk.
            for event in [first].into_iter().chain(events.try_iter()) {
                match event {
                    Event::Line(line) => self.take(&line),
                    Event::Delivered(key, verdict) => self.settle(key, verdict),
                    Event::InputEnded(outcome) => {
                        has_input = false;
                        outcome.map_err(|reason| {
                            Error::failure(format!("standard input cannot be read: {reason}"))
                        })?;
                    }
                }
            }
            // What cannot be recorded was sent nevertheless, and said.
            if let Err(error) = self.journal.sync(seconds(SystemTime::now())) {
                report(&error.to_string());
            }
            self.answer()?;
        }
        Ok(())
    }

    /// Lets the threads end. After an error, what is on its way is waited for and recorded, so that it is not sent again.
    fn finish(&mut self, events: &Receiver<Event>) {
        for sealed in self.jobs.withdraw() {
            self.waiting.remove(&sealed.key);
        }
        self.jobs.close();
        while !self.waiting.is_empty() {
            if let Ok(Event::Delivered(key, verdict)) = events.recv() {
                self.settle(key, verdict);
            }
        }
        self.journal.sync(seconds(SystemTime::now())).ok();
    }

    /// Takes a batch: every token gets a verdict now, or a mail that waits for a connection.
    fn take(&mut self, line: &[u8]) {
        let batch = match parse_line(line) {
            Ok(batch) => batch,
            Err(error) => {
                report(&error.reason);
                if let Some(batch) = &error.batch {
                    self.pending(batch).unavailable = Some((None, error.reason));
                }
                return;
            }
        };
        let now = SystemTime::now();
        let (mut to_send, mut new) = (Vec::new(), Vec::new());
        let mut failure = None;
        for item in &batch.items {
            let verdict = match self.journal.known(item.key) {
                Some(Known::Accepted) => Ok(None),
                Some(Known::Tried(sealed)) if sealed.provider == self.provider.name() => Ok(Some(sealed)),
                _ => self.seal(item, now).map(|(sealed, expires_at)| {
                    let fixed = self.journal.fix(sealed, expires_at);
                    new.push(item.key);
                    fixed.map_err(|error| failure = Some(error)).ok()
                }),
            };
            let pending = self.pending(&batch.batch);
            match verdict {
                Ok(None) if failure.is_none() => pending.answer.sent(item.id),
                Ok(None) => {}
                Ok(Some(sealed)) => to_send.push((item.id, sealed)),
                Err(reason) => pending.answer.dead(item.id, &reason),
            }
            if failure.is_some() {
                break;
            }
        }
        if failure.is_none() && !new.is_empty() {
            failure = self.journal.sync(seconds(now)).err();
        }
        if let Some(error) = failure {
            // Nothing of this batch has been tried: what is not on the disk must not be.
            self.journal.unfix(&new);
            self.pending(&batch.batch).unavailable = Some((None, error.to_string()));
            return;
        }
        self.start(&batch, to_send);
    }

    fn start(&mut self, batch: &Batch, to_send: Vec<(i64, std::sync::Arc<Sealed>)>) {
        self.pending(&batch.batch).unsettled += to_send.len();
        for (id, sealed) in to_send {
            let waiting = self.waiting.entry(sealed.key).or_default();
            waiting.push((batch.batch.clone(), id));
            if waiting.len() == 1 {
                self.jobs.push(sealed);
            }
        }
    }

    fn seal(&self, item: &Item, now: SystemTime) -> Result<(Sealed, i64), String> {
        let mail = self.writer.write(item, now)?;
        Ok((Sealed::new(&mail, self.provider)?, item.expires_at))
    }

    fn pending(&mut self, batch: &str) -> &mut Pending {
        self.batches.entry(batch.to_owned()).or_insert_with(|| Pending {
            unsettled: 0,
            answer: Answer::to(batch),
            unavailable: None,
        })
    }

    fn settle(&mut self, key: Key, verdict: Verdict) {
        let recorded = match &verdict {
            Verdict::Sent => self.journal.accept(key),
            Verdict::Dead(_) => self.journal.give_up(key),
            Verdict::Retry { .. } | Verdict::Unavailable { .. } => Ok(()),
        };
        if let Err(error) = recorded {
            report(&error.to_string());
        }
        if let Verdict::Unavailable { after, reason } = verdict {
            let mut keys: Vec<Key> = self.jobs.withdraw().iter().map(|sealed| sealed.key).collect();
            keys.push(key);
            for key in keys {
                self.give_back(key, after, &reason);
            }
            return;
        }
        for (batch, id) in self.waiting.remove(&key).unwrap_or_default() {
            let pending = self.pending(&batch);
            pending.unsettled -= 1;
            match &verdict {
                Verdict::Retry { after, reason } => pending.answer.retry(id, *after, reason),
                Verdict::Dead(reason) => pending.answer.dead(id, reason),
                _ => pending.answer.sent(id),
            }
        }
    }

    /// No mail of this key was sent, because of the provider.
    fn give_back(&mut self, key: Key, after: Option<Duration>, reason: &str) {
        for (batch, _) in self.waiting.remove(&key).unwrap_or_default() {
            let pending = self.pending(&batch);
            pending.unsettled -= 1;
            pending.unavailable.get_or_insert_with(|| (after, reason.to_owned()));
        }
    }

    /// Writes what is known.
    fn answer(&mut self) -> Result<(), Error> {
        let mut lines = Vec::new();
        self.batches.retain(|batch, pending| {
            let is_settled = pending.unsettled == 0;
            if let Some((after, reason)) = pending.unavailable.take_if(|_| is_settled) {
                pending.answer.unavailable(after, &reason);
            }
            if !pending.answer.is_empty() {
                lines.extend(std::mem::replace(&mut pending.answer, Answer::to(batch)).to_line());
            }
            !is_settled
        });
        let written = self.output.write_all(&lines).and_then(|()| self.output.flush());
        written.map_err(|error| {
            Error::failure(format!("an answer cannot be written to standard output: {error}"))
        })
    }
}

/// Says something on standard error, which the collector logs. If that is closed, the work goes on.
fn report(sentence: &str) {
    writeln!(std::io::stderr(), "mailroom send: {sentence}").ok();
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
