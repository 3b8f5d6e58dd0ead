//! What is decided of every token: which provider gets its mail, when it is tried again,
//! what the collector hears.

mod batches;

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use mailroom_mail::Error;

use crate::attempt::is_replayed;
use crate::doubt::{Doubt, Outcome, Step};
use crate::journal::Known;
use crate::lane::{Lane, Refusal, Sentences};
use crate::pool::{Pool, Shared};
use crate::protocol::{Batch, Item, Key, Knows, parse_line};
use crate::provider::{Receipt, Sealed, Verdict};
use crate::queue::Queued;
use crate::serve::{Event, Length, report, seconds};
use crate::writer::Writer;
use batches::Batches;

/// How often it is looked for mails that wait for their answers,
/// and said that batches are being worked on.
const BEAT: Duration = Duration::from_secs(1);

/// The same while mails that take long have the places: batches that only wait are to be known
/// soon, so that others come.
const BEAT_IN_CROWD: Duration = Duration::from_millis(200);

/// How long mails that are on their way get after the end of the input.
const ENDING: Duration = Duration::from_secs(20);

/// What is being worked on.
pub(crate) struct Desk<'a, W> {
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

/// What is to be done for a token.
enum Decision {
    /// Nothing: its mail was accepted before.
    Sent,
    /// Its mail is on its way already.
    Join,
    /// Its mail goes to a provider.
    Send(Outgoing),
    /// Its mail is in doubt, and is not sent now.
    Doubt(Outcome),
    /// There is no mail for it.
    Dead(String),
}

/// A mail on its way to a provider.
struct Outgoing {
    lane: usize,
    mail: Queued,
    /// Whether the provider may have accepted it at an earlier attempt.
    is_bound: bool,
}

/// What is said of a mail in doubt that is not sent now.
const UNANSWERED: &str = "an earlier attempt ended without an answer";

/// What is said of the end of a batch that was not read.
const TOO_LONG: &str = "a line is longer than 64 MiB, and its end is given back";

/// How long a mail waits that is given back because others have all places, and what is said of it.
const PAUSE_BEHIND_OTHERS: Duration = Duration::from_secs(1);
const BEHIND_OTHERS: &str = "all connections wait for answers about other recipients";

/// How long a mail in doubt waits at a time for a provider that has to accept another one first: an
/// acceptance can come sooner than is known now.
const LONGEST_UNPROVEN: Duration = Duration::from_secs(120);

impl<'a, W: Write> Desk<'a, W> {
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

    /// Sees to mails that wait for their answers, and says which batches are being worked on.
    fn beat(&mut self, pool: &mut Pool) -> Result<(), Error> {
        let now = Instant::now();
        if now < self.next_beat {
            return if self.is_slow_news { self.say_working(now) } else { Ok(()) };
        }
        self.next_beat = now + if self.is_crowded() { BEAT_IN_CROWD } else { BEAT };
        pool.replace_waiting(now);
        self.give_way(now)?;
        self.report_slow(now);
        self.say_working(now)
    }

    /// Whether mails that take long have the places.
    fn is_crowded(&self) -> bool {
        self.shared.lanes.iter().any(Lane::is_crowded)
    }

    /// Says which batches are being worked on, and which of them only wait.
    fn say_working(&mut self, now: Instant) -> Result<(), Error> {
        self.is_slow_news = false;
        let waiting: Vec<Key> =
            self.shared.lanes.iter().flat_map(|lane| lane.waiting_for_answers(now)).collect();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for waiting in waiting.iter().filter_map(|key| self.waiting.get(key)) {
            for (batch, _) in &waiting.tokens {
                *counts.entry(batch).or_default() += 1;
            }
        }
        let lanes: Vec<bool> = self.shared.lanes.iter().map(Lane::is_moving).collect();
        let mails = self.waiting.values().filter(|waiting| lanes[waiting.lane]);
        let named =
            mails.flat_map(|waiting| waiting.tokens.iter().map(|(batch, _)| batch.as_str()));
        let line = self.batches.working(named, &counts);
        self.write(&line)
    }

    /// Gives back mails that would keep others waiting: those that wait behind recipients about
    /// whom a server says nothing, and those to slow domains. Their collector has others, which may
    /// matter more.
    fn give_way(&mut self, now: Instant) -> Result<(), Error> {
        self.disperse(now);
        for (index, lane) in self.shared.lanes.iter().enumerate() {
            for (mail, pause) in lane.hold_back(now) {
                self.refuse(mail.sealed.key, index, &Refusal::Mute(pause));
            }
            for (mail, pause) in lane.postpone_doubtful() {
                self.refuse(mail.sealed.key, index, &Refusal::Behind(pause));
            }
            for mail in lane.give_way(now) {
                self.free(mail.sealed.key);
                self.say_untried(mail.sealed.key, Some(PAUSE_BEHIND_OTHERS), BEHIND_OTHERS);
            }
        }
        self.answer()
    }

    /// Gives back the mails that are more than may wait where mails that take long have the places.
    fn disperse(&mut self, now: Instant) {
        for (index, lane) in self.shared.lanes.iter().enumerate() {
            for (mail, pause) in lane.disperse(now) {
                self.refuse(mail.sealed.key, index, &Refusal::Behind(pause));
            }
        }
    }

    /// Tells the operator of domains over which a server takes its time.
    fn report_slow(&self, now: Instant) {
        for (provider, lane) in self.shared.providers.iter().zip(&self.shared.lanes) {
            let Some(Sentences { begun, ended }) = lane.news(now) else { continue };
            let name = provider.name();
            if !begun.is_empty() {
                report(&format!(
                    "{name} says nothing for seconds about mails to {begun}: their servers may be \
                     away; such mails are tried again and leave places to others"
                ));
            }
            if !ended.is_empty() {
                report(&format!("{name} answers at once again about mails to {ended}"));
            }
        }
    }

    /// Does not wait any longer for what may have been accepted: that is recorded. What nobody has
    /// begun to send is given back.
    fn leave_in_doubt(&mut self) {
        for (index, lane) in self.shared.lanes.iter().enumerate() {
            for mail in lane.close() {
                self.give_back(mail.sealed.key, index, None, "the sender ends");
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

    /// Takes a batch: every token gets a verdict now, or a mail that waits for a connection.
    fn take(&mut self, line: &[u8], length: Length) {
        let mut batch = match parse_line(line) {
            Ok(batch) => batch,
            Err(error) => {
                report(&error.reason);
                if let Some(batch) = &error.batch {
                    self.batches.open(batch, Knows::default()).say_unavailable(None, &error.reason);
                }
                return;
            }
        };
        let now = SystemTime::now();
        let mut to_send: Vec<(i64, Key, Option<Outgoing>)> = Vec::new();
        let mut bound = Vec::new();
        let mut new = Vec::new();
        let mut first_mails = 0;
        let mut failure = None;
        let pending = self.batches.open(&batch.batch, batch.knows);
        if length == Length::TooLong {
            // The one that is cut is not to blame; with the rest it comes again, in a shorter line.
            batch.unreadable.pop();
            report(TOO_LONG);
            pending.say_unavailable(None, TOO_LONG);
        }
        for unreadable in &batch.unreadable {
            match unreadable.id {
                Some(id) => pending.answer.dead(id, &unreadable.reason),
                None => report(&format!("an item of a batch has no id: {}", unreadable.reason)),
            }
        }
        for item in &batch.items {
            let decision = self.decide(item, batch.knows, first_mails, now, &mut new, &mut bound);
            let answer = &mut self.batches.open(&batch.batch, batch.knows).answer;
            match decision {
                Ok(Decision::Sent) => answer.sent(item.id),
                Ok(Decision::Dead(reason)) => answer.dead(item.id, &reason),
                Ok(Decision::Doubt(outcome)) => answer.doubtful(item.id, &outcome, UNANSWERED),
                Ok(Decision::Join) => to_send.push((item.id, item.key, None)),
                Ok(Decision::Send(outgoing)) => {
                    first_mails += usize::from(outgoing.lane == 0);
                    to_send.push((item.id, item.key, Some(outgoing)));
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if failure.is_none() && !(new.is_empty() && bound.is_empty()) {
            failure = self.shared.journal.sync(seconds(now)).err();
        }
        if let Some(error) = failure {
            // Nothing of this batch has been tried: what is not on the disk must not be.
            self.shared.journal.unfix(&new);
            for key in bound {
                self.shared.journal.unbind(key);
            }
            self.batches.open(&batch.batch, batch.knows).say_unavailable(None, &error.to_string());
            return;
        }
        self.start(&batch, to_send);
    }

    /// Fixes the mail of a token, and the provider that gets it: the one that may have accepted it
    /// already, or the first one that takes mails. `first_mails` are on their way to the first.
    fn decide(
        &mut self,
        item: &Item,
        knows: Knows,
        first_mails: usize,
        now: SystemTime,
        new: &mut Vec<Key>,
        bound_now: &mut Vec<Key>,
    ) -> Result<Decision, Error> {
        if self.waiting.contains_key(&item.key) {
            return Ok(Decision::Join);
        }
        let Shared { providers, lanes, journal, .. } = self.shared;
        let is_for =
            |sealed: &Sealed, lane: usize| sealed.payload(providers[lane].name()).is_some();
        let preferred = match &lanes[..] {
            [first, second]
                if first.place_for(first_mails + 1).is_err() && second.place_for(1).is_ok() =>
            {
                1
            }
            _ => 0,
        };
        let send = |lane: usize, sealed: Arc<Sealed>, doubt: Doubt, is_bound: bool| {
            let is_safe = is_replayed(&*providers[lane], &sealed, now);
            let is_doubtful = !is_safe && doubt.count.max(item.doubts) > 0;
            let returnable_since = knows.untried.then(Instant::now);
            let mail = Queued {
                sealed,
                action: item.action.clone(),
                known: item.doubts,
                is_doubtful,
                returnable_since,
            };
            Decision::Send(Outgoing { lane, mail, is_bound })
        };
        match journal.known(item.key)? {
            Some(Known::Accepted) => return Ok(Decision::Sent),
            Some(Known::Tried { sealed, bound: Some(bound), doubt }) => {
                let lane = providers.iter().position(|provider| provider.name() == bound);
                let lane = lane.filter(|lane| is_for(&sealed, *lane));
                let is_safe = lane.is_some_and(|lane| is_replayed(&*providers[lane], &sealed, now));
                if !is_safe
                    && let Step::Answer(outcome) = doubt.step(item.doubts, knows, seconds(now))
                {
                    return Ok(Decision::Doubt(outcome));
                }
                if let Some(lane) = lane {
                    self.report_late(&sealed, lane, item.id, now);
                    return Ok(send(lane, sealed, doubt, true));
                }
                // It was tried by a provider that the configuration has no more.
            }
            Some(Known::Tried { sealed, bound: None, doubt }) => {
                let mut lanes = [preferred].into_iter().chain(0..providers.len());
                if let Some(lane) = lanes.find(|lane| is_for(&sealed, *lane)) {
                    journal.bind(item.key, providers[lane].name())?;
                    bound_now.push(item.key);
                    return Ok(send(lane, sealed, doubt, false));
                }
            }
            None => {}
        }
        let other = self.other(preferred).map(|other| &*providers[other]);
        let sealed = self
            .writer
            .write(item, now)
            .and_then(|mail| Sealed::new(&mail, &*providers[preferred], other));
        match sealed {
            Ok(sealed) => {
                let sealed = journal.fix(sealed, item.expires_at)?;
                new.push(item.key);
                Ok(send(preferred, sealed, journal.doubt(item.key), false))
            }
            Err(reason) => Ok(Decision::Dead(reason)),
        }
    }

    /// Says that a mail may go out twice: its provider does not know any more what it did with an
    /// earlier attempt. The alternative would be to lose it.
    fn report_late(&self, sealed: &Sealed, lane: usize, id: i64, now: SystemTime) {
        let provider = &self.shared.providers[lane];
        let age = seconds(now).saturating_sub(sealed.fixed_at);
        let Some(window) = provider.key_window().map(|window| window.as_secs()) else { return };
        if u64::try_from(age).is_ok_and(|age| age >= window) {
            let name = provider.name();
            let age = age / 3600;
            let window = window / 3600;
            report(&format!(
                "token {id} is tried again {age} hours after its first attempt, and {name} keeps \
                 keys for {window} hours: if an earlier attempt was accepted without an answer, \
                 its mail goes out twice"
            ));
        }
    }

    fn start(&mut self, batch: &Batch, to_send: Vec<(i64, Key, Option<Outgoing>)>) {
        self.batches.open(&batch.batch, batch.knows).unsettled += to_send.len();
        for (id, key, outgoing) in to_send {
            let waiting = self.waiting.entry(key).or_default();
            waiting.tokens.push((batch.batch.clone(), id));
            let Some(Outgoing { lane, mail, is_bound }) =
                outgoing.filter(|_| waiting.tokens.len() == 1)
            else {
                continue;
            };
            waiting.lane = lane;
            waiting.known = mail.known;
            waiting.is_bound = is_bound;
            if let Err(refusal) = self.shared.lanes[lane].push(mail) {
                self.refuse(key, lane, &refusal);
            }
        }
        // At once, so that batches end or are known to wait, and the collector sends the next ones.
        self.disperse(Instant::now());
        self.is_slow_news = self.is_crowded();
    }

    /// A mail has no place with its provider, and nothing was tried.
    fn refuse(&mut self, key: Key, lane: usize, refusal: &Refusal) {
        let name = self.shared.providers[lane].name();
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
                self.say_untried(
                    key,
                    Some(*after),
                    "the rate of the recipient's domain is reached",
                );
            }
            Refusal::Mute(after) => {
                self.free(key);
                self.say_untried(key, Some(*after), &format!("{name} is slow over its domain"));
            }
            Refusal::Behind(after) => {
                self.free(key);
                self.say_untried(key, Some(*after), BEHIND_OTHERS);
            }
            Refusal::Unproven(after) => {
                let reason =
                    format!("{UNANSWERED}, and {name} has not accepted another mail since");
                self.say_untried(key, Some((*after).min(LONGEST_UNPROVEN)), &reason);
            }
        }
    }

    /// Gives mails to their other provider; if the journal cannot have it, nobody gets them.
    fn start_moved(&mut self, is_recorded: bool) {
        for (lane, mail) in std::mem::take(&mut self.moved) {
            let key = mail.sealed.key;
            let outcome = if is_recorded {
                self.shared.lanes[lane].push(mail)
            } else {
                self.shared.journal.unbind(key);
                Err(Refusal::Failing(None))
            };
            if let Err(refusal) = outcome {
                self.refuse(key, lane, &refusal);
            }
        }
    }

    fn settle(&mut self, lane: usize, key: Option<Key>, verdict: &Verdict, withdrawn: &[Queued]) {
        let after = verdict.after();
        let reason = verdict.reason();
        if let Some(key) = key {
            self.record(key, verdict);
            match verdict {
                Verdict::Suspected { .. } | Verdict::Unavailable { .. } => {
                    self.leave(key, lane, after, reason);
                }
                Verdict::Overloaded { .. } => self.overload(key, lane, after, reason),
                Verdict::InDoubt { .. } => self.say_doubt(key, lane, reason),
                Verdict::Retry { .. } => self.say_retry(key, after, reason),
                // It is no reason for anybody's pause.
                Verdict::Postponed { .. } => {
                    if !self.moves(key, lane) {
                        self.say_untried(key, after, reason);
                    }
                }
                Verdict::Sent(receipt) => self.say_sent(key, lane, receipt),
                Verdict::Dead(refusal) => {
                    let waiting = self.waiting.remove(&key);
                    self.batches.settle(waiting, |pending, id| pending.answer.refused(id, refusal));
                }
            }
        }
        // Others may still be tried, which shows whether those in doubt may go out again.
        let is_single = matches!(verdict, Verdict::Overloaded { after: None, .. })
            && self.other(lane).is_none();
        for mail in withdrawn {
            if is_single && mail.is_doubtful {
                self.refuse(mail.sealed.key, lane, &Refusal::Unproven(LONGEST_UNPROVEN));
            } else {
                self.leave(mail.sealed.key, lane, after, reason);
            }
        }
    }

    /// Records what the thread that had the mail could not.
    fn record(&mut self, key: Key, verdict: &Verdict) {
        // What may have been accepted before stays with its provider, should it be put back.
        let is_bound = self.waiting.get(&key).is_none_or(|waiting| waiting.is_bound);
        match verdict {
            Verdict::Dead(_) if !is_bound => {
                if let Err(error) = self.shared.journal.give_up(key) {
                    report(&error.to_string());
                }
            }
            Verdict::Retry { .. } | Verdict::Postponed { .. } => self.free(key),
            _ => {}
        }
    }

    fn say_sent(&mut self, key: Key, lane: usize, receipt: &Receipt) {
        let name = self.shared.providers[lane].name();
        let waiting = self.waiting.remove(&key);
        self.batches.settle(waiting, |pending, id| pending.answer.accepted(id, name, receipt));
    }

    /// A mail is in doubt. Where the provider knows its key, it may just come again.
    fn say_doubt(&mut self, key: Key, lane: usize, reason: &str) {
        let Shared { providers, journal, .. } = self.shared;
        let is_safe = journal
            .sealed(key)
            .is_some_and(|sealed| is_replayed(&*providers[lane], &sealed, SystemTime::now()));
        let doubt = journal.doubt(key);
        let waiting = self.waiting.remove(&key);
        self.batches.settle(waiting, |pending, id| {
            let outcome =
                if is_safe { Outcome::Retry(None) } else { doubt.outcome(pending.answer.knows()) };
            pending.answer.doubtful(id, &outcome, reason);
        });
    }

    /// A mail is in doubt, and its provider may take no other: it has asked for a pause, or is
    /// asked without a mail before the next one.
    fn overload(&mut self, key: Key, lane: usize, after: Option<Duration>, reason: &str) {
        if after.is_none() {
            return self.say_doubt(key, lane, reason);
        }
        let Shared { providers, journal, .. } = self.shared;
        let sealed = journal.sealed(key);
        if sealed.is_some_and(|sealed| is_replayed(&*providers[lane], &sealed, SystemTime::now())) {
            return self.give_back(key, lane, after, reason);
        }
        if !self.is_replaced(lane) {
            let tokens =
                self.waiting.get(&key).map(|waiting| &waiting.tokens[..]).unwrap_or_default();
            for (batch, _) in tokens {
                self.batches.open(batch, Knows::default()).say_unavailable(after, reason);
            }
        }
        self.say_doubt(key, lane, reason);
    }

    /// A provider certainly has not accepted a mail, and takes none: the other one gets it, if
    /// there is one that does.
    fn leave(&mut self, key: Key, lane: usize, after: Option<Duration>, reason: &str) {
        if !self.moves(key, lane) {
            self.free(key);
            self.give_back(key, lane, after, reason);
        }
    }

    /// Gives a mail to the other provider, if there is one that takes it. Returns whether it does.
    fn moves(&mut self, key: Key, lane: usize) -> bool {
        let is_bound = self.waiting.get(&key).is_some_and(|waiting| waiting.is_bound);
        let Some(other) = self.other(lane).filter(|_| !is_bound) else { return false };
        let Shared { providers, lanes, journal, .. } = self.shared;
        let name = providers[other].name();
        let sealed = journal.sealed(key).filter(|sealed| sealed.payload(name).is_some());
        // A mail that both have refused since it came waits until it comes again.
        let is_first_move = self
            .waiting
            .get_mut(&key)
            .is_some_and(|waiting| !std::mem::replace(&mut waiting.is_moved, true));
        let is_possible =
            is_first_move && self.ends_at.is_none() && lanes[other].place_for(1).is_ok();
        match sealed {
            Some(sealed) if is_possible && journal.bind(key, name).is_ok() => {
                let known = self.waiting.get_mut(&key).map_or(0, |waiting| {
                    waiting.lane = other;
                    waiting.known
                });
                let mail = Queued {
                    sealed,
                    action: String::new(),
                    known,
                    is_doubtful: known > 0,
                    returnable_since: None,
                };
                self.moved.push((other, mail));
                true
            }
            _ => false,
        }
    }

    /// Records that the next attempt may be by any provider,
    /// unless one may have accepted the mail before.
    fn free(&mut self, key: Key) {
        let is_bound = self.waiting.get(&key).is_none_or(|waiting| waiting.is_bound);
        if self.shared.providers.len() == 1 || is_bound {
            return;
        }
        if let Err(error) = self.shared.journal.free(key) {
            report(&error.to_string());
        }
    }

    /// No mail of this key was sent, because of the provider.
    fn give_back(&mut self, key: Key, lane: usize, after: Option<Duration>, reason: &str) {
        // While another provider works, the collector has no reason to pause.
        if self.is_replaced(lane) {
            return self.say_untried(key, after, reason);
        }
        let waiting = self.waiting.remove(&key);
        self.batches.settle(waiting, |pending, _| pending.say_unavailable(after, reason));
    }

    /// Nothing is known against the mail of this key, which is to come again.
    fn say_untried(&mut self, key: Key, after: Option<Duration>, reason: &str) {
        let waiting = self.waiting.remove(&key);
        self.batches.settle(waiting, |pending, id| pending.answer.untried(id, after, reason));
    }

    /// The mail of this key alone is to come again.
    fn say_retry(&mut self, key: Key, after: Option<Duration>, reason: &str) {
        let waiting = self.waiting.remove(&key);
        self.batches.settle(waiting, |pending, id| pending.answer.retry(id, after, reason));
    }

    /// Whether another provider works while this one does not.
    fn is_replaced(&self, lane: usize) -> bool {
        self.other(lane).is_some_and(|other| self.shared.lanes[other].is_working())
    }

    /// The place of the other provider.
    fn other(&self, lane: usize) -> Option<usize> {
        (0..self.shared.providers.len()).find(|other| *other != lane)
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
