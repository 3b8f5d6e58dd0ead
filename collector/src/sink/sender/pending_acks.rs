//! The batches that the sender may have read, with the verdicts on their tokens so far.
//!
//! Pure policy: the caller passes the times in and writes the log lines.
//!
//! # What counts
//! - The first verdict on a token counts; later ones change nothing. If one answer has several verdicts on a token,
//!   `retry` comes before `dead` and `dead` before `ok`: of the possible mistakes this one loses no mail.
//! - `unavailable` settles every token of the batch without another verdict: it comes back. It comes before `"all"`.
//! - `"all"` means every token of the batch without another verdict, in this answer or before.
//! - A batch is settled once each of its tokens has a verdict.
//! - A sender is silent, and so taken for hung, when batches are pending and no answer has brought a verdict for the
//!   timeout.
//! - A batch is forgotten when it lacks verdicts and a later one was settled a timeout ago.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use super::protocol::{Answer, SentTokens};
use crate::queue::{BatchId, Nack};
use crate::sink::Ack;

/// How many batches are remembered after they were removed, to describe late answers.
const REMEMBERED: usize = 1_000;

/// Pending batches, at most as many as are in flight.
pub(super) struct PendingAcks {
    timeout: Duration,
    /// In the order in which their lines were begun.
    batches: Vec<PendingBatch>,
    last_verdict: Option<Instant>,
    removed: VecDeque<(BatchId, UnexpectedAnswer)>,
}

struct PendingBatch {
    batch: BatchId,
    /// The tokens of its line, sorted.
    ids: Vec<i64>,
    /// The verdicts so far; `None` for a token that was sent.
    verdicts: HashMap<i64, Option<Nack>>,
    /// When it was passed to the sink, and when its line was begun.
    sent_at: Instant,
    begun_at: Instant,
    /// When a later batch was settled first.
    overtaken_at: Option<Instant>,
    /// Where its line is among all bytes written to this sender.
    bytes: Range<u64>,
}

/// Why an answer is for no pending batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnexpectedAnswer {
    #[error("its batch was answered in full before")]
    Settled,
    #[error("its batch was not waited for any longer")]
    GivenUp,
    #[error("another collector has its batch by now")]
    Lost,
    #[error("the sender never got its batch")]
    Unknown,
}

/// What an answer for a pending batch changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AppliedAnswer {
    /// How many new verdicts it has.
    pub(super) verdicts: usize,
    /// How many of its ids are not in the batch.
    pub(super) foreign: usize,
    /// How many of its ids had a verdict already.
    pub(super) repeated: usize,
    /// Set if it settles the batch.
    pub(super) ack: Option<Ack>,
}

impl PendingAcks {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, batches: Vec::new(), last_verdict: None, removed: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    /// The line of a batch was begun.
    pub(super) fn begin(
        &mut self,
        batch: BatchId,
        mut ids: Vec<i64>,
        (sent_at, begun_at): (Instant, Instant),
        bytes: Range<u64>,
    ) {
        ids.sort_unstable();
        let (verdicts, overtaken_at) = (HashMap::new(), None);
        self.batches.push(PendingBatch { batch, ids, verdicts, sent_at, begun_at, overtaken_at, bytes });
    }

    pub(super) fn apply(&mut self, answer: &Answer, now: Instant) -> Result<AppliedAnswer, UnexpectedAnswer> {
        let Some(index) = self.batches.iter().position(|pending| pending.batch == answer.batch) else {
            let removed = self.removed.iter().rev().find(|(batch, _)| *batch == answer.batch);
            return Err(removed.map_or(UnexpectedAnswer::Unknown, |(_, why)| *why));
        };
        let pending = &mut self.batches[index];
        let mut applied = pending.apply(answer);
        let is_settled = pending.verdicts.len() == pending.ids.len();
        if applied.verdicts > 0 {
            self.last_verdict = Some(now);
        }
        if is_settled {
            for earlier in &mut self.batches[..index] {
                earlier.overtaken_at.get_or_insert(now);
            }
            let settled = self.remove(UnexpectedAnswer::Settled, |pending| pending.batch == answer.batch);
            applied.ack = settled.into_iter().next().map(|pending| pending.ack(now, &Nack::Abandoned));
        }
        Ok(applied)
    }

    /// When the sender is taken for hung unless an answer brings a verdict before.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        let oldest = self.batches.first()?.begun_at;
        Some(self.last_verdict.map_or(oldest, |last| last.max(oldest)) + self.timeout)
    }

    /// When the first batch is forgotten unless it is settled before.
    pub(super) fn forgotten_at(&self) -> Option<Instant> {
        // Whatever overtakes a batch overtakes all before it too, so none is due before the first one.
        Some(self.batches.first()?.overtaken_at? + self.timeout)
    }

    /// Removes the batches that are forgotten by now; their tokens without a verdict are to be tried again.
    pub(super) fn give_up_forgotten(&mut self, now: Instant, reason: &str) -> Vec<Ack> {
        let timeout = self.timeout;
        let is_forgotten =
            |pending: &PendingBatch| pending.overtaken_at.is_some_and(|time| time + timeout <= now);
        let nack = Nack::Failed { reason: reason.to_owned() };
        let forgotten = self.remove(UnexpectedAnswer::GivenUp, is_forgotten);
        forgotten.into_iter().map(|pending| pending.ack(now, &nack)).collect()
    }

    /// Removes all batches after the sender has ended and read `read` bytes: those that it may have read, with `nack` for
    /// their tokens without a verdict, and those that it has not read.
    pub(super) fn give_up_all(&mut self, read: u64, now: Instant, nack: &Nack) -> (Vec<Ack>, Vec<BatchId>) {
        let is_unread = |pending: &PendingBatch| pending.bytes.start >= read && pending.verdicts.is_empty();
        let removed = self.remove(UnexpectedAnswer::GivenUp, |_| true);
        let (unread, read): (Vec<_>, Vec<_>) = removed.into_iter().partition(is_unread);
        let acks = read.into_iter().map(|pending| pending.ack(now, nack)).collect();
        (acks, unread.into_iter().map(|pending| pending.batch).collect())
    }

    /// Removes the batches of whose line the sender has not got the end and never will.
    pub(super) fn give_up_unwritten(&mut self, written: u64) -> Vec<BatchId> {
        let is_unwritten =
            |pending: &PendingBatch| pending.bytes.end > written && pending.verdicts.is_empty();
        let unwritten = self.remove(UnexpectedAnswer::GivenUp, is_unwritten);
        unwritten.into_iter().map(|pending| pending.batch).collect()
    }

    /// Other collectors send these batches now.
    pub(super) fn drop_lost(&mut self, batches: &[BatchId]) {
        self.remove(UnexpectedAnswer::Lost, |pending| batches.contains(&pending.batch));
    }

    /// Whether a single token is pending.
    pub(super) fn is_single_token(&self) -> bool {
        matches!(&self.batches[..], [PendingBatch { ids, .. }] if ids.len() == 1)
    }

    fn remove(
        &mut self,
        why: UnexpectedAnswer,
        condition: impl Fn(&PendingBatch) -> bool,
    ) -> Vec<PendingBatch> {
        let removed: Vec<_> = self.batches.extract_if(.., |pending| condition(pending)).collect();
        self.removed.extend(removed.iter().map(|pending| (pending.batch, why)));
        let excess = self.removed.len().saturating_sub(REMEMBERED);
        self.removed.drain(..excess);
        removed
    }
}

impl PendingBatch {
    fn apply(&mut self, answer: &Answer) -> AppliedAnswer {
        let mut applied = AppliedAnswer::default();
        for token in &answer.retry {
            let nack = Nack::Retry { after: token.after, reason: token.reason.clone() };
            self.set(token.id, Some(nack), &mut applied);
        }
        for token in &answer.dead {
            self.set(token.id, Some(Nack::Dead { reason: token.reason.clone() }), &mut applied);
        }
        if let SentTokens::Ids(ids) = &answer.ok {
            for id in ids {
                self.set(*id, None, &mut applied);
            }
        }
        let is_all = answer.ok == SentTokens::All;
        if let Some(unavailable) = &answer.unavailable {
            let nack = Nack::Unavailable { after: None, reason: unavailable.reason.clone() };
            let count = self.set_others(Some(&nack));
            applied.verdicts += count;
            applied.repeated += if is_all { count } else { 0 };
        } else if is_all {
            applied.verdicts += self.set_others(None);
        }
        applied
    }

    fn set(&mut self, id: i64, verdict: Option<Nack>, applied: &mut AppliedAnswer) {
        if self.ids.binary_search(&id).is_err() {
            applied.foreign += 1;
        } else if let Entry::Vacant(vacant) = self.verdicts.entry(id) {
            vacant.insert(verdict);
            applied.verdicts += 1;
        } else {
            applied.repeated += 1;
        }
    }

    /// Sets the verdict on all tokens without one; returns how many these are.
    fn set_others(&mut self, verdict: Option<&Nack>) -> usize {
        let before = self.verdicts.len();
        for id in &self.ids {
            self.verdicts.entry(*id).or_insert_with(|| verdict.cloned());
        }
        self.verdicts.len() - before
    }

    /// Its verdicts, with `missing` for every token without one.
    fn ack(mut self, now: Instant, missing: &Nack) -> Ack {
        let nack = |id| {
            let verdict = self.verdicts.remove(&id).unwrap_or_else(|| Some(missing.clone()));
            verdict.map(|nack| (id, nack))
        };
        let nacks = self.ids.into_iter().filter_map(nack).collect();
        Ack { batch: self.batch, nacks, after: now.duration_since(self.sent_at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::sender::protocol::parse_answer;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn id(batch: u64) -> BatchId {
        BatchId::from(u128::from(batch))
    }

    /// Batches 1, 2, … with three tokens each (10, 11, 12; 20, …) and lines of 100 bytes, begun at `start`.
    fn pending_acks(batches: u64, start: Instant) -> PendingAcks {
        let mut pending = PendingAcks::new(TIMEOUT);
        for batch in 1..=batches {
            let first = i64::try_from(batch * 10).unwrap();
            let ids = vec![first + 2, first, first + 1];
            pending.begin(id(batch), ids, (start, start), (batch - 1) * 100..batch * 100);
        }
        pending
    }

    fn answer(batch: u64, rest: &str) -> Answer {
        parse_answer(format!("{{\"batch\":\"{}\"{rest}}}", id(batch)).as_bytes()).unwrap()
    }

    /// An answer that settles the whole batch.
    fn all(batch: u64) -> Answer {
        answer(batch, r#","ok":"all""#)
    }

    fn kind(nack: &Nack) -> &'static str {
        match nack {
            Nack::Abandoned => "abandoned",
            Nack::Unavailable { .. } => "unavailable",
            Nack::Failed { .. } => "failed",
            Nack::Retry { .. } => "retry",
            Nack::Dead { .. } => "dead",
        }
    }

    fn kinds(nacks: &[(i64, Nack)]) -> Vec<(i64, &'static str)> {
        nacks.iter().map(|(id, nack)| (*id, kind(nack))).collect()
    }

    #[test]
    fn verdicts_add_up_and_the_most_careful_one_of_an_answer_counts() {
        // Answers for batch 1, each with its new verdicts, foreign and repeated ids; at the end the nacks.
        type Case<'a> = (&'a [(&'a str, [usize; 3])], &'a [(i64, &'a str)]);
        const ALL_UNAVAILABLE: [(i64, &str); 3] =
            [(10, "unavailable"), (11, "unavailable"), (12, "unavailable")];
        let mixed = r#","ok":[11,12],"retry":[{"id":10},{"id":11}],"dead":[{"id":11},{"id":12}]"#;
        let cases: [Case<'_>; 8] = [
            (&[(r#","ok":"all""#, [3, 0, 0])], &[]),
            (&[(r#","ok":[11]"#, [1, 0, 0]), ("", [0; 3]), (r#","ok":[11,10,20,-1,12]"#, [2, 2, 1])], &[]),
            (&[(r#","ok":[11,10]"#, [2, 0, 0]), (r#","retry":[{"id":12}]"#, [1, 0, 0])], &[(12, "retry")]),
            (
                &[(r#","dead":[{"id":10}]"#, [1, 0, 0]), (r#","ok":"all","retry":[{"id":12}]"#, [2, 0, 0])],
                &[(10, "dead"), (12, "retry")],
            ),
            (&[(r#","ok":[10]"#, [1, 0, 0]), (mixed, [2, 0, 4])], &[(11, "retry"), (12, "dead")]),
            (
                &[(r#","ok":[10]"#, [1, 0, 0]), (r#","retry":[{"id":11}],"unavailable":{}"#, [2, 0, 0])],
                &[(11, "retry"), (12, "unavailable")],
            ),
            (&[(r#","unavailable":{}"#, [3, 0, 0])], &ALL_UNAVAILABLE),
            (&[(r#","ok":"all","unavailable":{}"#, [3, 0, 3])], &ALL_UNAVAILABLE),
        ];
        let now = Instant::now();
        for (answers, nacks) in cases {
            let mut pending = pending_acks(1, now);
            let mut ack = None;
            for (rest, counts) in answers {
                assert_eq!(ack, None);
                let applied = pending.apply(&answer(1, rest), now + seconds(2)).unwrap();
                assert_eq!([applied.verdicts, applied.foreign, applied.repeated], *counts, "{rest}");
                ack = applied.ack;
            }
            let ack = ack.expect("the last answer settles the batch");
            assert_eq!((ack.batch, ack.after, &kinds(&ack.nacks)[..]), (id(1), seconds(2), nacks));
            assert_eq!(pending.apply(&all(1), now), Err(UnexpectedAnswer::Settled));
            assert_eq!(pending.apply(&all(2), now), Err(UnexpectedAnswer::Unknown));
            assert_eq!((pending.len(), pending.silent_at()), (0, None));
        }
    }

    #[test]
    fn a_nack_has_the_pause_and_the_reason_of_the_answer() {
        let now = Instant::now();
        let rest = r#","retry":[{"id":10,"after_ms":7000,"reason":"later"}],"dead":[{"id":11,"reason":"gone"}],
            "unavailable":{"reason":"421"}"#;
        let ack = pending_acks(1, now).apply(&answer(1, rest), now).unwrap().ack.unwrap();
        let [later, gone, down] = ["later", "gone", "421"].map(str::to_owned);
        let nacks = [
            (10, Nack::Retry { after: Some(seconds(7)), reason: later }),
            (11, Nack::Dead { reason: gone }),
            (12, Nack::Unavailable { after: None, reason: down }),
        ];
        assert_eq!(ack.nacks, nacks);
    }

    #[test]
    fn a_sender_is_silent_when_no_answer_brought_a_verdict_for_the_timeout() {
        let start = Instant::now();
        let mut pending = pending_acks(3, start);
        assert_eq!(pending.silent_at(), Some(start + TIMEOUT));
        pending.apply(&answer(2, r#","ok":[20]"#), start + seconds(20)).unwrap();
        assert_eq!(pending.silent_at(), Some(start + seconds(50)));
        // Answers without a new verdict do not count.
        pending.apply(&answer(2, r#","ok":[20]"#), start + seconds(40)).unwrap();
        pending.apply(&all(9), start + seconds(40)).unwrap_err();
        assert_eq!(pending.silent_at(), Some(start + seconds(50)));
        // Nor does the time without a pending batch.
        (1..=3).for_each(|batch| _ = pending.apply(&all(batch), start + seconds(45)).unwrap());
        let later = start + seconds(1_000);
        pending.begin(id(4), vec![40], (later, later), 300..400);
        assert_eq!(pending.silent_at(), Some(later + TIMEOUT));
    }

    #[test]
    fn a_batch_is_forgotten_when_a_later_one_was_settled_a_timeout_ago() {
        let start = Instant::now();
        let mut pending = pending_acks(4, start);
        pending.apply(&answer(4, r#","ok":[40]"#), start + seconds(1)).unwrap();
        assert_eq!(pending.forgotten_at(), None);
        pending.apply(&all(3), start + seconds(5)).unwrap();
        pending.apply(&answer(1, r#","ok":[11]"#), start + seconds(6)).unwrap();
        pending.apply(&all(4), start + seconds(9)).unwrap();
        assert_eq!(pending.forgotten_at(), Some(start + seconds(35)));
        assert_eq!(pending.give_up_forgotten(start + seconds(34), "forgotten"), []);
        let acks = pending.give_up_forgotten(start + seconds(35), "forgotten");
        let failed = |id| (id, Nack::Failed { reason: "forgotten".to_owned() });
        let nacks: Vec<_> = acks.iter().map(|ack| ack.nacks.clone()).collect();
        assert_eq!(nacks, [vec![failed(10), failed(12)], [20, 21, 22].map(failed).into()]);
        assert_eq!((pending.len(), pending.apply(&all(2), start)), (0, Err(UnexpectedAnswer::GivenUp)));
    }

    #[test]
    fn batches_are_removed_by_what_was_read_written_and_lost() {
        let now = Instant::now();
        let mut pending = pending_acks(4, now);
        pending.apply(&answer(1, r#","ok":[10]"#), now).unwrap();
        let (acks, unread) = pending.give_up_all(201, now, &Nack::Abandoned);
        let nacks: Vec<_> = acks.into_iter().flat_map(|ack| ack.nacks).collect();
        assert_eq!(nacks, [11, 12, 20, 21, 22, 30, 31, 32].map(|id| (id, Nack::Abandoned)));
        assert_eq!((unread, pending.len()), (vec![id(4)], 0));

        let mut pending = pending_acks(3, now);
        assert_eq!(pending.give_up_unwritten(299), [id(3)]);
        assert_eq!((pending.give_up_unwritten(299), pending.len()), (vec![], 2));

        pending.drop_lost(&[id(1), id(7)]);
        assert_eq!(pending.apply(&all(1), now), Err(UnexpectedAnswer::Lost));
        assert_eq!((pending.len(), pending.is_single_token()), (1, false));
    }

    #[test]
    fn a_bounded_number_of_removed_batches_is_remembered() {
        let now = Instant::now();
        let mut pending = pending_acks(REMEMBERED as u64 + 1, now);
        (1..=REMEMBERED as u64 + 1).for_each(|batch| _ = pending.apply(&all(batch), now).unwrap());
        assert_eq!(pending.apply(&all(1), now), Err(UnexpectedAnswer::Unknown));
        assert_eq!(pending.apply(&all(2), now), Err(UnexpectedAnswer::Settled));
        assert_eq!(pending.removed.len(), REMEMBERED);
    }
}
