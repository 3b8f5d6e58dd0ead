//! Which batches a sender owes answers for, and what it has said so far.
//!
//! Pure policy: the caller passes the times in and writes the log lines.
//!
//! # What counts
//! - The first verdict on a token counts; what is said of it later changes nothing. Within one answer that says several
//!   things of a token, `retry` beats `dead` and `dead` beats `ok`: of the possible mistakes this one loses no mail.
//! - `unavailable` settles every token of the batch of which nothing else was said: it comes back. Together with `"all"` it wins.
//! - `"all"` means every token of the batch of which nothing else was said, in this answer or before.
//! - A batch is settled once every token of it has a verdict.
//! - Silence: a sender works as long as answers bring verdicts. It is hung when it owes answers and has given none for
//!   the timeout.
//! - Overtaken: a batch that still lacks verdicts when a later one was settled a timeout ago is forgotten.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::answer::{Answer, Sent, Unavailable};
use crate::queue::{BatchId, Exception};
use crate::sink::Taken;

/// How many batches are remembered after they left the ledger, to tell what a late answer is about.
const REMEMBERED: usize = 1_000;

/// Batches by the order in which their lines were begun.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    owed: BTreeMap<u64, Owed>,
    by_name: HashMap<u128, u64>,
    next: u64,
    /// All before this one have been overtaken.
    overtaken: u64,
    last_verdict: Option<Instant>,
    past: VecDeque<(u128, Past)>,
}

/// A batch of which the sender may know.
#[derive(Debug)]
pub(super) struct Owed {
    pub(super) batch: BatchId,
    pub(super) name: u128,
    /// The tokens of its line, sorted.
    ids: Vec<i64>,
    verdicts: HashMap<i64, Verdict>,
    /// When it was handed to the sink, and when its line was begun.
    sent: Instant,
    begun: Instant,
    overtaken: Option<Instant>,
    /// Where its line begins and ends among all bytes that this sender was sent.
    pub(super) bytes: (u64, u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Sent,
    Not(Exception),
}

/// Why a batch is not in the ledger any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    Settled,
    GivenUp,
    Lost,
}

/// What there is to say of an answer, apart from the verdicts that it brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Remarks {
    /// How many verdicts it brought.
    pub(super) verdicts: usize,
    /// Ids that are not in the batch.
    pub(super) foreign: usize,
    /// Ids that had a verdict already.
    pub(super) repeated: usize,
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is about a batch that the sender was sent; the second part is there if that settles it.
    Noted(Remarks, Option<Taken>),
    /// It is about a batch of which nothing is expected any more.
    Late(Past),
    /// It is about a batch that this collector does not know.
    Unknown,
}

impl Ledger {
    /// How many batches are owed an answer.
    pub(super) fn len(&self) -> usize {
        self.owed.len()
    }

    /// A line was begun. It ends at `bytes.1`.
    pub(super) fn begin(
        &mut self,
        (batch, name): (BatchId, u128),
        mut ids: Vec<i64>,
        (sent, begun): (Instant, Instant),
        bytes: (u64, u64),
    ) {
        ids.sort_unstable();
        self.by_name.insert(name, self.next);
        let verdicts = HashMap::new();
        self.owed.insert(self.next, Owed { batch, name, ids, verdicts, sent, begun, overtaken: None, bytes });
        self.next += 1;
    }

    /// The sender has said something.
    pub(super) fn note(&mut self, answer: Answer, now: Instant) -> Outcome {
        let Some(number) = self.by_name.get(&answer.batch.0).copied() else {
            let past = self.past.iter().rev().find(|(name, _)| *name == answer.batch.0);
            return past.map_or(Outcome::Unknown, |(_, past)| Outcome::Late(*past));
        };
        let Some(owed) = self.owed.get_mut(&number) else { return Outcome::Unknown };
        let remarks = owed.note(answer);
        if remarks.verdicts > 0 {
            self.last_verdict = Some(now);
        }
        let is_settled = owed.verdicts.len() == owed.ids.len();
        let taken = is_settled.then(|| {
            self.overtake(number, now);
            self.remove(number, Past::Settled).map(|owed| owed.taken(now, |_| Exception::Unanswered))
        });
        Outcome::Noted(remarks, taken.flatten())
    }

    /// When the sender is hung unless it answers before.
    pub(super) fn silent_at(&self, timeout: Duration) -> Option<Instant> {
        let oldest = self.owed.values().next()?.begun;
        Some(self.last_verdict.map_or(oldest, |last| last.max(oldest)) + timeout)
    }

    /// When the first batch is forgotten unless it is answered before.
    pub(super) fn forgotten_at(&self, timeout: Duration) -> Option<Instant> {
        // Whatever overtakes a batch overtakes all before it too, so none is due earlier than the first one.
        self.owed.values().next()?.overtaken.map(|overtaken| overtaken + timeout)
    }

    /// Takes out the batches that were forgotten by now; their tokens without a verdict are to be tried again.
    pub(super) fn give_up_forgotten(&mut self, timeout: Duration, now: Instant, reason: &str) -> Vec<Taken> {
        let mut given_up = Vec::new();
        while self.forgotten_at(timeout).is_some_and(|time| time <= now) {
            let Some(number) = self.owed.keys().next().copied() else { break };
            let retry = |_| Exception::Failed { reason: reason.to_owned() };
            given_up.extend(self.remove(number, Past::GivenUp).map(|owed| owed.taken(now, retry)));
        }
        given_up
    }

    /// The sender is gone after it has read `read` bytes. Takes out all batches: those of which it can have read
    /// something, with `exception` for their tokens without a verdict, and those of which it cannot.
    pub(super) fn give_up_all(
        &mut self,
        read: u64,
        now: Instant,
        exception: &Exception,
    ) -> (Vec<Taken>, Vec<BatchId>) {
        let (mut taken, mut unread) = (Vec::new(), Vec::new());
        while let Some(number) = self.owed.keys().next().copied() {
            let Some(owed) = self.remove(number, Past::GivenUp) else { break };
            if owed.bytes.0 >= read && owed.verdicts.is_empty() {
                unread.push(owed.batch);
            } else {
                taken.push(owed.taken(now, |_| exception.clone()));
            }
        }
        (taken, unread)
    }

    /// Takes out the batches of which the sender has not got the end of the line and never will.
    pub(super) fn give_up_unwritten(&mut self, written: u64) -> Vec<BatchId> {
        let is_unwritten = |owed: &Owed| owed.bytes.1 > written && owed.verdicts.is_empty();
        let numbers: Vec<_> =
            self.owed.iter().filter(|(_, owed)| is_unwritten(owed)).map(|(number, _)| *number).collect();
        numbers
            .iter()
            .filter_map(|number| self.remove(*number, Past::GivenUp))
            .map(|owed| owed.batch)
            .collect()
    }

    /// Somebody else sends these batches now.
    pub(super) fn forget(&mut self, batches: &[BatchId]) {
        let is_lost = |owed: &Owed| batches.contains(&owed.batch);
        let numbers: Vec<_> =
            self.owed.iter().filter(|(_, owed)| is_lost(owed)).map(|(number, _)| *number).collect();
        for number in numbers {
            self.remove(number, Past::Lost);
        }
    }

    /// The only token that is on its way, if it is a single one.
    pub(super) fn only_token(&self) -> Option<i64> {
        let mut owed = self.owed.values();
        match (owed.next(), owed.next()) {
            (Some(Owed { ids, .. }), None) if ids.len() == 1 => ids.first().copied(),
            _ => None,
        }
    }

    fn overtake(&mut self, number: u64, now: Instant) {
        if number > self.overtaken {
            for (_, owed) in self.owed.range_mut(self.overtaken..number) {
                owed.overtaken = Some(now);
            }
            self.overtaken = number;
        }
    }

    fn remove(&mut self, number: u64, past: Past) -> Option<Owed> {
        let owed = self.owed.remove(&number)?;
        self.by_name.remove(&owed.name);
        if self.past.len() == REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back((owed.name, past));
        Some(owed)
    }
}

impl Owed {
    fn note(&mut self, answer: Answer) -> Remarks {
        let mut remarks = Remarks::default();
        let retry = answer.retry.into_iter();
        let retry = retry.map(|(id, after, reason)| (id, Verdict::Not(Exception::Retry { after, reason })));
        let dead = answer.dead.into_iter();
        let dead = dead.map(|(id, reason)| (id, Verdict::Not(Exception::Dead { reason })));
        for (id, verdict) in retry.chain(dead) {
            self.judge(id, verdict, &mut remarks);
        }
        let is_all = answer.ok == Sent::All;
        if let Sent::Ids(ids) = answer.ok {
            for id in ids {
                self.judge(id, Verdict::Sent, &mut remarks);
            }
        }
        if let Some(Unavailable { reason, .. }) = answer.unavailable {
            let unavailable = Exception::Unavailable { after: None, reason };
            let count = self.judge_rest(&Verdict::Not(unavailable));
            remarks.verdicts += count;
            remarks.repeated += if is_all { count } else { 0 };
        } else if is_all {
            remarks.verdicts += self.judge_rest(&Verdict::Sent);
        }
        remarks
    }

    /// Judges all tokens that have no verdict, and answers how many these are.
    fn judge_rest(&mut self, verdict: &Verdict) -> usize {
        let before = self.verdicts.len();
        for id in &self.ids {
            self.verdicts.entry(*id).or_insert_with(|| verdict.clone());
        }
        self.verdicts.len() - before
    }

    fn judge(&mut self, id: i64, verdict: Verdict, remarks: &mut Remarks) {
        if self.ids.binary_search(&id).is_err() {
            remarks.foreign += 1;
        } else if let Entry::Vacant(vacant) = self.verdicts.entry(id) {
            vacant.insert(verdict);
            remarks.verdicts += 1;
        } else {
            remarks.repeated += 1;
        }
    }

    /// What the queue is told, with `unanswered` for every token without a verdict.
    fn taken(mut self, now: Instant, unanswered: impl Fn(i64) -> Exception) -> Taken {
        let mut exceptions = Vec::new();
        for id in self.ids {
            match self.verdicts.remove(&id) {
                Some(Verdict::Sent) => {}
                Some(Verdict::Not(exception)) => exceptions.push((id, exception)),
                None => exceptions.push((id, unanswered(id))),
            }
        }
        Taken { batch: self.batch, exceptions, after: now.duration_since(self.sent) }
    }
}

#[cfg(test)]
mod tests;
