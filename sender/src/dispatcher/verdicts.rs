//! What becomes of a mail once its provider has answered, or has no place for it: what is recorded,
//! who gets it next, and what the collector hears.

use std::io::Write;
use std::time::{Duration, SystemTime};

use super::{BEHIND_OTHERS, Dispatcher, UNANSWERED};
use crate::attempt::is_replayed;
use crate::doubt::Outcome;
use crate::key::Key;
use crate::knows::Knows;
use crate::lane::Refusal;
use crate::provider::{Receipt, Verdict};
use crate::queue::Queued;
use crate::shared::Shared;
use crate::standard_error::report;

/// How long a mail in doubt waits at a time for a provider that has to accept another one first: an
/// acceptance can come sooner than is known now.
const MAX_UNPROVEN: Duration = Duration::from_secs(120);

impl<W: Write> Dispatcher<'_, W> {
    /// A mail has no place with its provider, and nothing was tried.
    pub(super) fn refuse(&mut self, key: Key, lane: usize, refusal: &Refusal) {
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
                self.say_untried(key, Some((*after).min(MAX_UNPROVEN)), &reason);
            }
        }
    }

    pub(super) fn settle(
        &mut self,
        lane: usize,
        key: Option<Key>,
        verdict: &Verdict,
        withdrawn: &[Queued],
    ) {
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
                self.refuse(mail.prepared.key, lane, &Refusal::Unproven(MAX_UNPROVEN));
            } else {
                self.leave(mail.prepared.key, lane, after, reason);
            }
        }
    }

    /// Records what the thread that had the mail could not.
    pub(super) fn record(&mut self, key: Key, verdict: &Verdict) {
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

    /// A mail is in doubt, and its provider may take no other: it has asked for a pause, or is
    /// asked without a mail before the next one.
    fn overload(&mut self, key: Key, lane: usize, after: Option<Duration>, reason: &str) {
        if after.is_none() {
            return self.say_doubt(key, lane, reason);
        }
        let Shared { providers, journal, .. } = self.shared;
        let prepared = journal.prepared(key);
        if prepared
            .is_some_and(|prepared| is_replayed(&*providers[lane], &prepared, SystemTime::now()))
        {
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
    pub(super) fn leave(&mut self, key: Key, lane: usize, after: Option<Duration>, reason: &str) {
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
        let prepared = journal.prepared(key).filter(|prepared| prepared.payload(name).is_some());
        // A mail that both have refused since it came waits until it comes again.
        let is_first_move = self
            .waiting
            .get_mut(&key)
            .is_some_and(|waiting| !std::mem::replace(&mut waiting.is_moved, true));
        let is_possible =
            is_first_move && self.ends_at.is_none() && lanes[other].place_for(1).is_ok();
        match prepared {
            Some(prepared) if is_possible && journal.bind(key, name).is_ok() => {
                let known = self.waiting.get_mut(&key).map_or(0, |waiting| {
                    waiting.lane = other;
                    waiting.known
                });
                let mail = Queued {
                    prepared,
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

    /// Gives mails to their other provider; if the journal cannot have it, nobody gets them.
    pub(super) fn start_moved(&mut self, is_recorded: bool) {
        for (lane, mail) in std::mem::take(&mut self.moved) {
            let key = mail.prepared.key;
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

    /// No mail of this key was sent, because of the provider.
    pub(super) fn give_back(
        &mut self,
        key: Key,
        lane: usize,
        after: Option<Duration>,
        reason: &str,
    ) {
        // While another provider works, the collector has no reason to pause.
        if self.is_replaced(lane) {
            return self.say_untried(key, after, reason);
        }
        let waiting = self.waiting.remove(&key);
        self.batches.settle(waiting, |pending, _| pending.say_unavailable(after, reason));
    }

    /// Records that the next attempt may be by any provider,
    /// unless one may have accepted the mail before.
    pub(super) fn free(&mut self, key: Key) {
        let is_bound = self.waiting.get(&key).is_none_or(|waiting| waiting.is_bound);
        if self.shared.providers.len() == 1 || is_bound {
            return;
        }
        if let Err(error) = self.shared.journal.free(key) {
            report(&error.to_string());
        }
    }

    fn say_sent(&mut self, key: Key, lane: usize, receipt: &Receipt) {
        let name = self.shared.providers[lane].name();
        let waiting = self.waiting.remove(&key);
        self.batches.settle(waiting, |pending, id| pending.answer.accepted(id, name, receipt));
    }

    /// A mail is in doubt. Where the provider knows its key, it may just come again.
    pub(super) fn say_doubt(&mut self, key: Key, lane: usize, reason: &str) {
        let Shared { providers, journal, .. } = self.shared;
        let is_safe = journal
            .prepared(key)
            .is_some_and(|prepared| is_replayed(&*providers[lane], &prepared, SystemTime::now()));
        let doubt = journal.doubt(key);
        let waiting = self.waiting.remove(&key);
        self.batches.settle(waiting, |pending, id| {
            let outcome =
                if is_safe { Outcome::Retry(None) } else { doubt.outcome(pending.answer.knows()) };
            pending.answer.doubtful(id, &outcome, reason);
        });
    }

    /// Nothing is known against the mail of this key, which is to come again.
    pub(super) fn say_untried(&mut self, key: Key, after: Option<Duration>, reason: &str) {
        let waiting = self.waiting.remove(&key);
        self.batches.settle(waiting, |pending, id| pending.answer.untried(id, after, reason));
    }

    /// The mail of this key alone is to come again.
    fn say_retry(&mut self, key: Key, after: Option<Duration>, reason: &str) {
        let waiting = self.waiting.remove(&key);
        self.batches.settle(waiting, |pending, id| pending.answer.retry(id, after, reason));
    }

    /// Whether another provider works while this one does not.
    pub(super) fn is_replaced(&self, lane: usize) -> bool {
        self.other(lane).is_some_and(|other| self.shared.lanes[other].is_working())
    }

    /// The place of the other provider.
    pub(super) fn other(&self, lane: usize) -> Option<usize> {
        (0..self.shared.providers.len()).find(|other| *other != lane)
    }
}
