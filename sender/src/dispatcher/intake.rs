//! What is decided of every token that comes: whether there is a mail for it, and which provider
//! gets that.

use std::io::Write;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use mailroom_mail::Error;

use super::{Dispatcher, UNANSWERED};
use crate::attempt::is_replayed;
use crate::clock::seconds;
use crate::doubt::{Doubt, Outcome, Step};
use crate::event::Length;
use crate::journal::Known;
use crate::key::Key;
use crate::knows::Knows;
use crate::protocol::{Batch, Item, parse_line};
use crate::provider::PreparedMail;
use crate::queue::Queued;
use crate::shared::Shared;
use crate::standard_error::report;

/// What is said of the end of a batch that was not read.
const TOO_LONG: &str = "a line is longer than 64 MiB, and its end is given back";

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

impl<W: Write> Dispatcher<'_, W> {
    /// Takes a batch: every token gets a verdict now, or a mail that waits for a connection.
    pub(super) fn take(&mut self, line: &[u8], length: Length) {
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
            self.shared.journal.forget_prepared(&new);
            for key in bound {
                self.shared.journal.unbind(key);
            }
            self.batches.open(&batch.batch, batch.knows).say_unavailable(None, &error.to_string());
            return;
        }
        self.start(&batch, to_send);
    }

    /// Prepares the mail of a token, and chooses the provider that gets it: the one that may have
    /// accepted it already, or the first one that takes mails. `first_mails` are on their way to
    /// the first.
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
        let is_for = |prepared: &PreparedMail, lane: usize| {
            prepared.payload(providers[lane].name()).is_some()
        };
        let preferred = match &lanes[..] {
            [first, second]
                if first.place_for(first_mails + 1).is_err() && second.place_for(1).is_ok() =>
            {
                1
            }
            _ => 0,
        };
        let send = |lane: usize, prepared: Arc<PreparedMail>, doubt: Doubt, is_bound: bool| {
            let is_safe = is_replayed(&*providers[lane], &prepared, now);
            let is_doubtful = !is_safe && doubt.count.max(item.doubts) > 0;
            let returnable_since = knows.untried.then(Instant::now);
            let mail = Queued {
                prepared,
                action: item.action.clone(),
                known: item.doubts,
                is_doubtful,
                returnable_since,
            };
            Decision::Send(Outgoing { lane, mail, is_bound })
        };
        match journal.known(item.key)? {
            Some(Known::Accepted) => return Ok(Decision::Sent),
            Some(Known::Tried { prepared, bound: Some(bound), doubt }) => {
                let lane = providers.iter().position(|provider| provider.name() == bound);
                let lane = lane.filter(|lane| is_for(&prepared, *lane));
                let is_safe =
                    lane.is_some_and(|lane| is_replayed(&*providers[lane], &prepared, now));
                if !is_safe
                    && let Step::Answer(outcome) = doubt.step(item.doubts, knows, seconds(now))
                {
                    return Ok(Decision::Doubt(outcome));
                }
                if let Some(lane) = lane {
                    self.report_late(&prepared, lane, item, now);
                    return Ok(send(lane, prepared, doubt, true));
                }
                // It was tried by a provider that the configuration has no more.
            }
            Some(Known::Tried { prepared, bound: None, doubt }) => {
                let mut lanes = [preferred].into_iter().chain(0..providers.len());
                if let Some(lane) = lanes.find(|lane| is_for(&prepared, *lane)) {
                    journal.bind(item.key, providers[lane].name())?;
                    bound_now.push(item.key);
                    return Ok(send(lane, prepared, doubt, false));
                }
            }
            None => {}
        }
        let other = self.other(preferred).map(|other| &*providers[other]);
        let prepared = self
            .writer
            .write(item, now)
            .and_then(|mail| PreparedMail::new(&mail, &*providers[preferred], other));
        match prepared {
            Ok(prepared) => {
                let prepared = journal.record_prepared(prepared, item.expires_at)?;
                new.push(item.key);
                Ok(send(preferred, prepared, journal.doubt(item.key), false))
            }
            Err(reason) => Ok(Decision::Dead(reason)),
        }
    }

    /// Says that a mail may go out twice: its provider does not know any more what it did with an
    /// earlier attempt. The alternative would be to lose it.
    fn report_late(&self, prepared: &PreparedMail, lane: usize, item: &Item, now: SystemTime) {
        let provider = &self.shared.providers[lane];
        let age = seconds(now).saturating_sub(prepared.prepared_at);
        let Some(window) = provider.key_window().map(|window| window.as_secs()) else { return };
        if u64::try_from(age).is_ok_and(|age| age >= window) {
            let name = provider.name();
            let age = age / 3600;
            let window = window / 3600;
            let id = item.id;
            let trace = item.traceparent.map(|traceparent| format!(" (traceparent {traceparent})"));
            let trace = trace.unwrap_or_default();
            report(&format!(
                "token {id}{trace} is tried again {age} hours after its first attempt, and {name} \
                 keeps keys for {window} hours: if an earlier attempt was accepted without an \
                 answer, its mail goes out twice"
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
}
