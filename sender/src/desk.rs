//! What is decided of every token: which provider gets its mail, when it is tried again, what the collector hears.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, SystemTime};

use crate::error::Error;
use crate::journal::{Journal, Known};
use crate::lane::{Lane, Refusal};
use crate::protocol::{Answer, Batch, Item, Key, parse_line};
use crate::provider::{Provider, Sealed, Verdict};
use crate::serve::{Event, report, seconds};
use crate::writer::Writer;

/// What is being worked on.
pub(crate) struct Desk<'a, W> {
    output: W,
    writer: &'a Writer,
    /// The first one, and then the fallback.
    providers: &'a [Box<dyn Provider>],
    /// Their queues.
    lanes: &'a [Lane],
    journal: Journal,
    waiting: HashMap<Key, Waiting>,
    batches: HashMap<String, Pending>,
    /// Mails that go to another provider than before, once the journal has it.
    moved: Vec<(usize, Arc<Sealed>)>,
    is_ending: bool,
}

/// The tokens that wait for the mail of a key: a token can come again, in another batch, while its first mail is on its way.
#[derive(Default)]
struct Waiting {
    tokens: Vec<(String, i64)>,
    /// Whether its provider may have accepted it at an earlier attempt, which no refusal of a later one disproves.
    is_bound: bool,
    is_moved: bool,
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

/// What is to be done for a token.
enum Step {
    /// Nothing: its mail was accepted before.
    Sent,
    /// Its mail goes to a provider.
    Send(Outgoing),
    /// There is no mail for it.
    Dead(String),
}

/// A mail on its way to a provider.
struct Outgoing {
    lane: usize,
    sealed: Arc<Sealed>,
    /// Whether the provider may have accepted it at an earlier attempt.
    is_bound: bool,
}

impl<'a, W: Write> Desk<'a, W> {
    pub(crate) fn new(
        output: W,
        writer: &'a Writer,
        providers: &'a [Box<dyn Provider>],
        lanes: &'a [Lane],
        journal: Journal,
    ) -> Self {
        let (waiting, batches) = (HashMap::new(), HashMap::new());
        let (moved, is_ending) = (Vec::new(), false);
        Self { output, writer, providers, lanes, journal, waiting, batches, moved, is_ending }
    }

    pub(crate) fn run(&mut self, events: &Receiver<Event>) -> Result<(), Error> {
        let mut has_input = true;
        while has_input || !self.batches.is_empty() {
            let first = events.recv().map_err(|_| Error::failure("the threads that send have ended"))?;
            // Whatever has come meanwhile shares one wait for the disk.
            for event in [first].into_iter().chain(events.try_iter()) {
                match event {
                    Event::Line(line) => self.take(&line),
                    Event::Delivered { lane, key, verdict, withdrawn } => {
                        self.settle(lane, key, &verdict, &withdrawn);
                    }
                    Event::InputEnded(outcome) => {
                        has_input = false;
                        outcome.map_err(|reason| {
                            Error::failure(format!("standard input cannot be read: {reason}"))
                        })?;
                    }
                }
            }
            // What cannot be recorded was sent nevertheless, and said.
            let synced = self.journal.sync(seconds(SystemTime::now()));
            if let Err(error) = &synced {
                report(&error.to_string());
            }
            self.start_moved(synced.is_ok());
            self.answer()?;
        }
        Ok(())
    }

    /// Lets the threads end. After an error, what is on its way is waited for and recorded, so that it is not sent again.
    pub(crate) fn finish(&mut self, events: &Receiver<Event>) {
        self.is_ending = true;
        for sealed in
            self.lanes.iter().flat_map(Lane::close).chain(self.moved.drain(..).map(|(_, mail)| mail))
        {
            self.waiting.remove(&sealed.key);
        }
        while !self.waiting.is_empty() {
            if let Ok(Event::Delivered { lane, key, verdict, withdrawn }) = events.recv() {
                self.settle(lane, key, &verdict, &withdrawn);
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
        let mut to_send: Vec<(i64, Outgoing)> = Vec::new();
        let (mut new, mut bound) = (Vec::new(), Vec::new());
        let (mut first_mails, mut failure) = (0, None);
        for item in &batch.items {
            match self.decide(item, first_mails, now, &mut new, &mut bound) {
                Ok(Step::Sent) => self.pending(&batch.batch).answer.sent(item.id),
                Ok(Step::Dead(reason)) => self.pending(&batch.batch).answer.dead(item.id, &reason),
                Ok(Step::Send(outgoing)) => {
                    first_mails += usize::from(outgoing.lane == 0);
                    to_send.push((item.id, outgoing));
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if failure.is_none() && !(new.is_empty() && bound.is_empty()) {
            failure = self.journal.sync(seconds(now)).err();
        }
        if let Some(error) = failure {
            // Nothing of this batch has been tried: what is not on the disk must not be.
            self.journal.unfix(&new);
            for key in bound {
                self.journal.unbind(key);
            }
            self.pending(&batch.batch).unavailable = Some((None, error.to_string()));
            return;
        }
        self.start(&batch, to_send);
    }

    /// Fixes the mail of a token, and the provider that gets it: the one that may have accepted it already, or the first one that
    /// takes mails. `first_mails` are on their way to the first.
    fn decide(
        &mut self,
        item: &Item,
        first_mails: usize,
        now: SystemTime,
        new: &mut Vec<Key>,
        bound_now: &mut Vec<Key>,
    ) -> Result<Step, Error> {
        let is_for = |sealed: &Sealed, lane: usize| sealed.payload(self.providers[lane].name()).is_some();
        let preferred = match &self.lanes {
            [first, second] if first.place_for(first_mails + 1).is_err() && second.place_for(1).is_ok() => 1,
            _ => 0,
        };
        match self.journal.known(item.key)? {
            Some(Known::Accepted) => return Ok(Step::Sent),
            Some(Known::Tried { sealed, bound: Some(bound) }) => {
                let lane = self.providers.iter().position(|provider| provider.name() == bound);
                if let Some(lane) = lane.filter(|lane| is_for(&sealed, *lane)) {
                    self.report_late(&sealed, lane, item.id, now);
                    return Ok(Step::Send(Outgoing { lane, sealed, is_bound: true }));
                }
                // It was tried by a provider that the configuration has no more.
            }
            Some(Known::Tried { sealed, bound: None }) => {
                let mut lanes = [preferred].into_iter().chain(0..self.providers.len());
                if let Some(lane) = lanes.find(|lane| is_for(&sealed, *lane)) {
                    self.journal.bind(item.key, self.providers[lane].name())?;
                    bound_now.push(item.key);
                    return Ok(Step::Send(Outgoing { lane, sealed, is_bound: false }));
                }
            }
            None => {}
        }
        let other = self.other(preferred).map(|other| &*self.providers[other]);
        let sealed = self
            .writer
            .write(item, now)
            .and_then(|mail| Sealed::new(&mail, &*self.providers[preferred], other));
        match sealed {
            Ok(sealed) => {
                let sealed = self.journal.fix(sealed, item.expires_at)?;
                new.push(item.key);
                Ok(Step::Send(Outgoing { lane: preferred, sealed, is_bound: false }))
            }
            Err(reason) => Ok(Step::Dead(reason)),
        }
    }

    /// Says that a mail may go out twice: its provider does not know any more what it did with an earlier attempt. The alternative
    /// would be to lose it.
    fn report_late(&self, sealed: &Sealed, lane: usize, id: i64, now: SystemTime) {
        let (provider, age) = (&self.providers[lane], seconds(now).saturating_sub(sealed.fixed_at));
        let Some(window) = provider.key_window().map(|window| window.as_secs()) else { return };
        if u64::try_from(age).is_ok_and(|age| age >= window) {
            let (name, age, window) = (provider.name(), age / 3600, window / 3600);
            report(&format!(
                "token {id} is tried again {age} hours after its first attempt, and {name} keeps keys for {window} hours: \
                 if an earlier attempt was accepted without an answer, its mail goes out twice"
            ));
        }
    }

    fn start(&mut self, batch: &Batch, to_send: Vec<(i64, Outgoing)>) {
        self.pending(&batch.batch).unsettled += to_send.len();
        for (id, Outgoing { lane, sealed, is_bound }) in to_send {
            let waiting = self.waiting.entry(sealed.key).or_default();
            waiting.tokens.push((batch.batch.clone(), id));
            if waiting.tokens.len() > 1 {
                continue;
            }
            waiting.is_bound = is_bound;
            if let Err(refusal) = self.lanes[lane].push(&sealed) {
                self.refuse(sealed.key, lane, &refusal);
            }
        }
    }

    /// A mail has no place with its provider, and nothing was tried.
    fn refuse(&mut self, key: Key, lane: usize, refusal: &Refusal) {
        let name = self.providers[lane].name();
        match refusal {
            Refusal::Failing(after) => {
                self.leave(key, lane, *after, &format!("{name} is not tried again yet"));
            }
            Refusal::Rate(after) => {
                self.free(key);
                self.give_back(key, lane, Some(*after), &format!("the rate of {name} is reached"));
            }
            Refusal::DomainRate(after) => {
                self.free(key);
                self.say_retry(key, Some(*after), "the rate of the recipient's domain is reached");
            }
        }
    }

    /// Gives mails to their other provider; if the journal cannot have it, nobody gets them.
    fn start_moved(&mut self, is_recorded: bool) {
        for (lane, sealed) in std::mem::take(&mut self.moved) {
            let outcome = if is_recorded {
                self.lanes[lane].push(&sealed)
            } else {
                self.journal.unbind(sealed.key);
                Err(Refusal::Failing(None))
            };
            if let Err(refusal) = outcome {
                self.refuse(sealed.key, lane, &refusal);
            }
        }
    }

    fn settle(&mut self, lane: usize, key: Key, verdict: &Verdict, withdrawn: &[Arc<Sealed>]) {
        // What may have been accepted before stays with its provider, should it be put back.
        let is_bound = self.waiting.get(&key).is_some_and(|waiting| waiting.is_bound);
        let recorded = match verdict {
            Verdict::Sent(_) => self.journal.accept(key),
            Verdict::Dead(_) if !is_bound => self.journal.give_up(key),
            _ => Ok(()),
        };
        if let Err(error) = recorded {
            report(&error.to_string());
        }
        if matches!(verdict, Verdict::Retry { .. }) {
            self.free(key);
        }
        let (after, reason) = (verdict.after(), verdict.reason());
        match verdict {
            Verdict::Unavailable { .. } => self.leave(key, lane, after, reason),
            Verdict::Overloaded { .. } => self.give_back(key, lane, after, reason),
            _ => {
                for (batch, id) in self.waiting.remove(&key).unwrap_or_default().tokens {
                    let pending = self.pending(&batch);
                    pending.unsettled -= 1;
                    match verdict {
                        Verdict::Sent(_) => pending.answer.sent(id),
                        Verdict::Dead(refusal) => pending.answer.dead(id, &refusal.reason),
                        _ => pending.answer.retry(id, after, reason),
                    }
                }
            }
        }
        for sealed in withdrawn {
            self.leave(sealed.key, lane, after, reason);
        }
    }

    /// A provider certainly has not accepted a mail, and takes none: the other one gets it, if there is one that does.
    fn leave(&mut self, key: Key, lane: usize, after: Option<Duration>, reason: &str) {
        let is_bound = self.waiting.get(&key).is_some_and(|waiting| waiting.is_bound);
        let Some(other) = self.other(lane).filter(|_| !is_bound) else {
            return self.give_back(key, lane, after, reason);
        };
        let name = self.providers[other].name();
        let sealed = self.journal.sealed(key).filter(|sealed| sealed.payload(name).is_some());
        // A mail that both have refused since it came waits until it comes again.
        let is_first_move =
            self.waiting.get_mut(&key).is_some_and(|waiting| !std::mem::replace(&mut waiting.is_moved, true));
        let is_possible = is_first_move && !self.is_ending && self.lanes[other].place_for(1).is_ok();
        match sealed {
            Some(sealed) if is_possible && self.journal.bind(key, name).is_ok() => {
                self.moved.push((other, sealed));
            }
            _ => {
                self.free(key);
                self.give_back(key, lane, after, reason);
            }
        }
    }

    /// Records that the next attempt may be by any provider, unless one may have accepted the mail before.
    fn free(&mut self, key: Key) {
        let is_bound = self.waiting.get(&key).is_none_or(|waiting| waiting.is_bound);
        if self.providers.len() == 1 || is_bound {
            return;
        }
        if let Err(error) = self.journal.free(key) {
            report(&error.to_string());
        }
    }

    /// No mail of this key was sent, because of the provider.
    fn give_back(&mut self, key: Key, lane: usize, after: Option<Duration>, reason: &str) {
        // While another provider works, the collector has no reason to pause.
        if self.other(lane).is_some_and(|other| self.lanes[other].is_working()) {
            return self.say_retry(key, after, reason);
        }
        for (batch, _) in self.waiting.remove(&key).unwrap_or_default().tokens {
            let pending = self.pending(&batch);
            pending.unsettled -= 1;
            pending.unavailable.get_or_insert_with(|| (after, reason.to_owned()));
        }
    }

    /// The mail of this key alone is to come again.
    fn say_retry(&mut self, key: Key, after: Option<Duration>, reason: &str) {
        for (batch, id) in self.waiting.remove(&key).unwrap_or_default().tokens {
            let pending = self.pending(&batch);
            pending.unsettled -= 1;
            pending.answer.retry(id, after, reason);
        }
    }

    /// The place of the other provider.
    fn other(&self, lane: usize) -> Option<usize> {
        (0..self.providers.len()).find(|other| *other != lane)
    }

    fn pending(&mut self, batch: &str) -> &mut Pending {
        self.batches.entry(batch.to_owned()).or_insert_with(|| Pending {
            unsettled: 0,
            answer: Answer::to(batch),
            unavailable: None,
        })
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
