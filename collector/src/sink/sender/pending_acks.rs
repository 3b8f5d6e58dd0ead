//! The batches that the sender may have read. The caller passes the times in. A batch is settled
//! once each of its tokens has a verdict. It is given up if it still lacks some a timeout after a
//! later one was settled. A sender counts as hung when batches are pending and the timeout has
//! passed without a new verdict and without a sign of work on any of them; such a sign counts for a
//! batch for eleven minutes after it was begun or had a verdict of its own.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use super::pending_batch::{AppliedAnswer, PendingBatch};
use super::protocol::{Answer, Work};
use crate::queue::{BatchId, Nack, Traceparent};
use crate::sink::Ack;

/// A batch with signs of work that takes longer than this is slow: it keeps no place from others.
const SLOW: Duration = Duration::from_secs(30);

/// The same of a sender that has answered nothing yet: it reads and works, and may just have got
/// the one recipient whose server is slow, so another token shows whether it sends.
const SLOW_ON_TRIAL: Duration = Duration::from_secs(1);

/// The most slow batches: what a sender can hold beyond what is claimed for its pace.
const MAX_SLOW: usize = 32;

/// How many batches are remembered after they were removed, to describe late answers.
const REMEMBERED: usize = 1_000;

/// Why an answer is for no pending batch.
const SETTLED: &str = "its batch was answered in full before";
const GIVEN_UP: &str = "its batch was not waited for any longer";
const LOST: &str = "another collector has its batch by now";
const UNKNOWN: &str = "the sender never got its batch";

pub(super) struct PendingAcks {
    timeout: Duration,
    /// In the order in which their lines were begun.
    batches: Vec<PendingBatch>,
    last_verdict: Option<Instant>,
    removed: VecDeque<(BatchId, &'static str)>,
}

impl PendingAcks {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, batches: Vec::new(), last_verdict: None, removed: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn begin(
        &mut self,
        batch: BatchId,
        ids: Vec<i64>,
        traces: Vec<(i64, Traceparent)>,
        (sent_at, begun_at): (Instant, Instant),
        bytes: Range<u64>,
        is_trial: bool,
    ) {
        let verdicts = ids.into_iter().map(|id| (id, None)).collect();
        self.batches.push(PendingBatch {
            batch,
            verdicts,
            sent_at,
            begun_at,
            overtaken_at: None,
            advanced_at: begun_at,
            worked_at: None,
            is_slow: false,
            receipts: BTreeMap::new(),
            traces,
            bytes,
            is_trial,
        });
    }

    /// The error says why it is for no pending batch.
    pub(super) fn apply(
        &mut self,
        answer: &Answer,
        now: Instant,
    ) -> Result<AppliedAnswer, &'static str> {
        let Some(index) = self.batches.iter().position(|pending| pending.batch == answer.batch)
        else {
            let removed = self.removed.iter().rev().find(|(batch, _)| *batch == answer.batch);
            return Err(removed.map_or(UNKNOWN, |(_, why)| *why));
        };
        let pending = &mut self.batches[index];
        let mut applied = pending.apply(answer);
        let is_settled = pending.verdicts.values().all(Option::is_some);
        if applied.verdicts > 0 {
            pending.advanced_at = now;
            self.last_verdict = Some(now);
        }
        if is_settled {
            for earlier in &mut self.batches[..index] {
                earlier.overtaken_at.get_or_insert(now);
            }
            let mut settled = self.remove(SETTLED, |pending| pending.batch == answer.batch);
            applied.ack = settled.pop().map(|pending| pending.ack(now, &Nack::Unanswered));
        }
        Ok(applied)
    }

    /// The sender works on these batches. Of those that are not pending it says so too late.
    pub(super) fn work(&mut self, work: &Work, now: Instant) {
        for pending in &mut self.batches {
            if work.batches.contains(&pending.batch) {
                pending.worked_at = Some(now);
            }
            pending.is_slow = work.slow.contains(&pending.batch);
        }
    }

    /// When the sender is taken for hung unless an answer brings a verdict before, or a sign of
    /// work on a pending batch.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        let oldest = self.batches.first()?.begun_at;
        let worked = self.batches.iter().filter_map(PendingBatch::worked_until).max();
        Some(self.last_verdict.max(worked).map_or(oldest, |last| last.max(oldest)) + self.timeout)
    }

    /// When the first batch is forgotten unless it is settled before.
    pub(super) fn forgotten_at(&self) -> Option<Instant> {
        // Whatever overtakes a batch overtakes all before it, too.
        let forgotten = self.batches.iter().map_while(PendingBatch::silent_since);
        forgotten.min().map(|since| since + self.timeout)
    }

    /// How many batches take long although the sender works on them.
    pub(super) fn slow(&self, now: Instant, has_answered: bool) -> usize {
        let limit = if has_answered { SLOW } else { SLOW_ON_TRIAL };
        let is_slow = |pending: &&PendingBatch| {
            pending.is_slow || pending.worked_at.is_some() && pending.advanced_at + limit <= now
        };
        self.batches.iter().filter(is_slow).count().min(MAX_SLOW)
    }

    /// Removes the batches that are forgotten by now,
    /// with `nack` for their tokens without a verdict.
    pub(super) fn give_up_forgotten(&mut self, now: Instant, nack: &Nack) -> Vec<Ack> {
        let timeout = self.timeout;
        let forgotten = self.remove(GIVEN_UP, |pending| {
            pending.silent_since().is_some_and(|since| since + timeout <= now)
        });
        forgotten.into_iter().map(|pending| pending.ack(now, nack)).collect()
    }

    /// Removes all batches, with `nack` for their tokens without a verdict; of those that were a
    /// trial with `of_trial`.
    pub(super) fn give_up_all(&mut self, now: Instant, nack: &Nack, of_trial: &Nack) -> Vec<Ack> {
        let all = self.remove(GIVEN_UP, |_| true);
        let ack = |pending: PendingBatch| {
            let nack = if pending.is_trial { of_trial } else { nack };
            pending.ack(now, nack)
        };
        all.into_iter().map(ack).collect()
    }

    /// Removes the batches whose line the sender has not read and never will, by where that is
    /// among all bytes written.
    pub(super) fn take_unread(&mut self, is_unread: impl Fn(&Range<u64>) -> bool) -> Vec<BatchId> {
        let is_unanswered = |pending: &PendingBatch| pending.verdicts.values().all(Option::is_none);
        let unread =
            self.remove(GIVEN_UP, |pending| is_unread(&pending.bytes) && is_unanswered(pending));
        unread.into_iter().map(|pending| pending.batch).collect()
    }

    pub(super) fn drop_lost(&mut self, batches: &[BatchId]) {
        self.remove(LOST, |pending| batches.contains(&pending.batch));
    }

    fn remove(
        &mut self,
        why: &'static str,
        condition: impl Fn(&PendingBatch) -> bool,
    ) -> Vec<PendingBatch> {
        let removed: Vec<_> = self.batches.extract_if(.., |pending| condition(pending)).collect();
        self.removed.extend(removed.iter().map(|pending| (pending.batch, why)));
        let excess = self.removed.len().saturating_sub(REMEMBERED);
        self.removed.drain(..excess);
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::sender::protocol::answer;

    const TIMEOUT: Duration = Duration::from_secs(30);

    /// Batches 1, 2, … with three tokens each (10, 11, 12;
    /// 20, …) and lines of 100 bytes, begun at `start`.
    fn pending_acks(batches: u32, start: Instant) -> PendingAcks {
        let mut pending = PendingAcks::new(TIMEOUT);
        for (batch, number) in (1..).zip(1..=batches) {
            let (first, end) = (i64::from(number * 10), u64::from(number * 100));
            pending.begin(
                BatchId::from(batch),
                vec![first + 2, first, first + 1],
                Vec::new(),
                (start, start),
                end - 100..end,
                false,
            );
        }
        pending
    }

    fn work(batches: &[BatchId]) -> Work {
        Work { batches: batches.to_vec(), slow: Vec::new() }
    }

    fn all(batch: u128) -> Answer {
        answer(batch, r#","ok":"all""#)
    }

    #[test]
    fn the_most_careful_verdict_of_an_answer_counts() {
        let reason = || "no reason given".to_owned();
        let mixed = r#","ok":[11,12],"retry":[{"id":10},{"id":11}],"dead":[{"id":11},{"id":12}]"#;
        let doubtful = concat!(
            r#","ok":[11,12],"retry":[{"id":11}],"in_doubt":[{"id":11}],"#,
            r#""dead":[{"id":12,"unknown_address":true}]"#
        );
        let held_back = concat!(
            r#","untried":[{"id":11,"after_ms":60000},{"id":12}],"retry":[{"id":12}],"#,
            r#""dead":[{"id":11}]"#
        );
        let doubt = Nack::InDoubt { reason: reason() };
        let untried = Nack::Untried { after: Some(Duration::from_secs(60)), reason: reason() };
        let unknown = Nack::UnknownAddress { reason: reason() };
        let dead = Nack::Dead { reason: reason() };
        let retry = Nack::Retry { after: None, reason: reason() };
        let unavailable = |id| (id, Nack::Unavailable { after: None, reason: reason() });
        for (rest, counts, nacks) in [
            (mixed, [2, 0, 4], vec![(11, retry.clone()), (12, dead)]),
            (doubtful, [2, 0, 3], vec![(11, doubt), (12, unknown)]),
            (held_back, [2, 0, 2], vec![(11, untried), (12, retry)]),
            (r#","ok":[20,-1,11],"unavailable":{}"#, [2, 2, 0], vec![unavailable(12)]),
            (r#","ok":"all","unavailable":{}"#, [2, 0, 2], [11, 12].map(unavailable).into()),
        ] {
            let now = Instant::now();
            let mut pending = pending_acks(1, now);
            pending.apply(&answer(1, r#","ok":[10]"#), now).unwrap();
            let applied = pending.apply(&answer(1, rest), now + Duration::from_secs(2)).unwrap();
            assert_eq!([applied.verdicts, applied.foreign, applied.repeated], counts, "{rest}");
            assert_eq!(
                applied.ack,
                Some(Ack {
                    batch: BatchId::from(1),
                    nacks,
                    receipts: Vec::new(),
                    traces: Vec::new(),
                    after: Duration::from_secs(2)
                })
            );
            assert_eq!((pending.len(), pending.silent_at()), (0, None));
        }
    }

    #[test]
    fn a_sender_is_silent_when_no_answer_brought_a_verdict_for_the_timeout() {
        let start = Instant::now();
        let (mut pending, seconds) = (pending_acks(3, start), Duration::from_secs);
        assert_eq!(pending.silent_at(), Some(start + TIMEOUT));
        // The second one has no new verdict, the third one no batch.
        for (batch, time) in [(2, 20), (2, 40), (9, 40)] {
            pending.apply(&answer(batch, r#","ok":[20]"#), start + seconds(time)).ok();
            assert_eq!(pending.silent_at(), Some(start + seconds(20) + TIMEOUT));
        }
        // Time without a pending batch does not count.
        (1..=3).for_each(|batch| _ = pending.apply(&all(batch), start + seconds(45)).unwrap());
        let later = start + seconds(1_000);
        pending.begin(BatchId::from(4), vec![40], Vec::new(), (later, later), 300..400, false);
        assert_eq!(pending.silent_at(), Some(later + TIMEOUT));
    }

    #[test]
    fn signs_of_work_put_off_the_silence_of_a_batch_by_eleven_minutes_at_most() {
        let start = Instant::now();
        let (mut pending, at) =
            (pending_acks(2, start), |seconds| start + Duration::from_secs(seconds));
        let [first, second] = [1, 2].map(BatchId::from);
        // One that it never got, or that was settled, is of no use.
        pending.work(&work(&[BatchId::from(9)]), at(20));
        assert_eq!(pending.silent_at(), Some(at(30)));
        pending.work(&work(&[first]), at(20));
        assert_eq!(pending.silent_at(), Some(at(50)));
        assert_eq!([29, 30].map(|seconds| pending.slow(at(seconds), true)), [0, 1]);
        // Another token shows whether a new sender sends.
        assert_eq!([0, 1].map(|seconds| pending.slow(at(seconds), false)), [0, 1]);
        pending.work(&work(&[first]), at(659));
        assert_eq!(pending.silent_at(), Some(at(689)));
        pending.work(&work(&[first]), at(1_000));
        assert_eq!(pending.silent_at(), Some(at(660 + 30)));
        // A verdict of its own begins a new time, and another batch has a time of its own.
        pending.apply(&answer(1, r#","ok":[10]"#), at(1_000)).unwrap();
        assert_eq!((pending.silent_at(), pending.slow(at(1_029), true)), (Some(at(1_030)), 0));
        pending.work(&work(&[first, second]), at(1_010));
        assert_eq!(pending.silent_at(), Some(at(1_040)));
        // Batches before the one that is settled are forgotten
        // unless there are signs of work on them.
        pending.apply(&all(2), at(1_020)).unwrap();
        assert_eq!(pending.forgotten_at(), Some(at(1_050)));
        pending.work(&work(&[first]), at(1_040));
        assert_eq!(pending.forgotten_at(), Some(at(1_070)));
        let nack = Nack::Failed { reason: "forgotten".to_owned() };
        assert_eq!(pending.give_up_forgotten(at(1_069), &nack).len(), 0);
        pending.work(&work(&[first]), at(9_000));
        assert_eq!(pending.forgotten_at(), Some(at(1_000 + 660 + 30)));
        assert_eq!(pending.give_up_forgotten(at(1_690), &nack).len(), 1);
    }

    #[test]
    fn a_batch_of_which_nothing_waits_for_its_turn_keeps_no_place_from_others() {
        let now = Instant::now();
        let mut pending = pending_acks(3, now);
        let [first, second] = [1, 2].map(BatchId::from);
        let said = |slow: &[BatchId]| Work { batches: vec![second], slow: slow.to_vec() };
        assert_eq!(pending.slow(now, true), 0);
        pending.work(&said(&[first, BatchId::from(9)]), now);
        assert_eq!(pending.slow(now, true), 1);
        // That is no sign of work.
        assert_eq!(pending.batches[0].worked_at, None);
        pending.work(&said(&[first, second]), now);
        assert_eq!(pending.slow(now, true), 2);
        // What the sender says later counts.
        pending.work(&said(&[second]), now);
        pending.apply(&all(2), now).unwrap();
        assert_eq!(pending.slow(now, true), 0);
    }

    #[test]
    fn receipts_are_kept_of_tokens_that_were_sent_the_first_of_each() {
        let now = Instant::now();
        let mut pending = pending_acks(1, now);
        let said = |id: i64, answer: &str| {
            format!(r#"{{"id":{id},"provider":"SMTP","answer":"{answer}"}}"#)
        };
        let receipts =
            [said(10, "250 a"), said(10, "250 b"), said(11, "250 c"), said(77, "250 d")].join(",");
        let rest = format!(r#","ok":[10],"in_doubt":[{{"id":11}}],"receipts":[{receipts}]"#);
        assert_eq!(pending.apply(&answer(1, &rest), now).unwrap().ack, None);
        let rest = format!(r#","ok":"all","receipts":[{}]"#, said(12, "250 e"));
        let ack = pending.apply(&answer(1, &rest), now).unwrap().ack.unwrap();
        let answers: Vec<_> =
            ack.receipts.iter().map(|(id, receipt)| (*id, receipt.answer.as_str())).collect();
        assert_eq!(answers, [(10, "250 a"), (12, "250 e")]);
        assert_eq!(ack.receipts[0].1.provider, "smtp");
        assert_eq!(ack.nacks, [(11, Nack::InDoubt { reason: "no reason given".to_owned() })]);
    }

    #[test]
    fn a_bounded_number_of_removed_batches_is_remembered() {
        let (now, count) = (Instant::now(), u32::try_from(REMEMBERED).unwrap() + 1);
        let mut pending = pending_acks(count, now);
        (1..=count.into()).for_each(|batch| _ = pending.apply(&all(batch), now).unwrap());
        assert_eq!(
            [1, 2].map(|batch| pending.apply(&all(batch), now)),
            [Err(UNKNOWN), Err(SETTLED)]
        );
    }
}
