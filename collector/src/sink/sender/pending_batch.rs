//! A batch that the sender may have read, with the verdicts on its tokens so far. The first verdict
//! on a token counts, and of several in one answer the most careful one, which loses no mail.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::protocol::{Answer, DeadToken, SentTokens};
use crate::queue::{BatchId, Nack, Receipt, Traceparent};
use crate::sink::Ack;

/// By how much signs of work can put off the silence of a batch: a provider may take ten minutes
/// for its last answer (RFC 5321, 4.5.3.2.6).
pub(crate) const MAX_WORK: Duration = Duration::from_secs(11 * 60);

/// `None` for a token that was sent.
type Verdict = Option<Nack>;

pub(super) struct PendingBatch {
    pub(super) batch: BatchId,
    /// The tokens of its line, with the verdicts so far.
    pub(super) verdicts: BTreeMap<i64, Option<Verdict>>,
    /// When it was passed to the sink, and when its line was begun.
    pub(super) sent_at: Instant,
    pub(super) begun_at: Instant,
    /// When a later batch was settled first.
    pub(super) overtaken_at: Option<Instant>,
    /// When its line was begun, or it last got a verdict.
    pub(super) advanced_at: Instant,
    /// When the sender last said that it works on it, and whether all that is left of it waits for
    /// answers of a provider.
    pub(super) worked_at: Option<Instant>,
    pub(super) is_slow: bool,
    /// Of its tokens that were sent.
    pub(super) receipts: BTreeMap<i64, Receipt>,
    /// Of its tokens that have one.
    pub(super) traces: Vec<(i64, Traceparent)>,
    /// Where its line is among all bytes written to this sender.
    pub(super) bytes: Range<u64>,
    /// Whether the sender had answered nothing when its line was begun. If it ends, this batch may
    /// be why.
    pub(super) is_trial: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AppliedAnswer {
    pub(super) verdicts: usize,
    /// How many of its ids are not in the batch.
    pub(super) foreign: usize,
    pub(super) repeated: usize,
    /// Whether it brings a verdict that only an available sender finds:
    /// a token was sent, or never can be.
    pub(super) proves_available: bool,
    pub(super) ack: Option<Ack>,
}

impl PendingBatch {
    /// Until when signs of work count for it.
    pub(super) fn worked_until(&self) -> Option<Instant> {
        self.worked_at.map(|worked_at| worked_at.min(self.advanced_at + MAX_WORK))
    }

    /// Since when it alone is silent; `None` unless a later batch was settled.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        Some(
            self.worked_until()
                .map_or(self.overtaken_at?, |until| until.max(self.advanced_at))
                .max(self.overtaken_at?),
        )
    }

    pub(super) fn apply(&mut self, answer: &Answer) -> AppliedAnswer {
        let (sent, is_all) = match &answer.ok {
            SentTokens::Ids(ids) => (&ids[..], false),
            SentTokens::All => (&[][..], true),
        };
        let retry = |after, reason: &String| Some(Nack::Retry { after, reason: reason.clone() });
        let untried =
            |after, reason: &String| Some(Nack::Untried { after, reason: reason.clone() });
        let in_doubt = |reason: &String| Some(Nack::InDoubt { reason: reason.clone() });
        let dead = |token: &DeadToken| {
            let reason = token.reason.clone();
            Some(if token.unknown_address {
                Nack::UnknownAddress { reason }
            } else {
                Nack::Dead { reason }
            })
        };
        // The most careful verdict first: it counts. A doubt is repeated like a refusal,
        // but not without end.
        let verdicts = (answer.in_doubt.iter().map(|token| (token.id, in_doubt(&token.reason))))
            .chain(answer.retry.iter().map(|token| (token.id, retry(token.after, &token.reason))))
            .chain(
                answer.untried.iter().map(|token| (token.id, untried(token.after, &token.reason))),
            )
            .chain(answer.dead.iter().map(|token| (token.id, dead(token))))
            .chain(answer.handed_over.iter().map(|id| (*id, Some(Nack::HandedOver))))
            .chain(sent.iter().map(|id| (*id, None)));
        let mut applied = AppliedAnswer::default();
        for (id, verdict) in verdicts {
            match self.verdicts.get_mut(&id) {
                None => applied.foreign += 1,
                Some(Some(_)) => applied.repeated += 1,
                Some(missing) => {
                    applied.proves_available |= matches!(
                        verdict,
                        None | Some(
                            Nack::HandedOver | Nack::Dead { .. } | Nack::UnknownAddress { .. }
                        )
                    );
                    *missing = Some(verdict);
                    applied.verdicts += 1;
                }
            }
        }
        let unavailable = answer.unavailable.as_ref();
        if is_all || unavailable.is_some() {
            let nack = unavailable.map(|unavailable| Nack::Unavailable {
                after: None,
                reason: unavailable.reason.clone(),
            });
            for missing in self.verdicts.values_mut().filter(|verdict| verdict.is_none()) {
                *missing = Some(nack.clone());
                applied.verdicts += 1;
                applied.proves_available |= nack.is_none();
                applied.repeated += usize::from(is_all && nack.is_some());
            }
        }
        for receipt in &answer.receipts {
            if self.verdicts.get(&receipt.id) == Some(&Some(None)) {
                self.receipts.entry(receipt.id).or_insert_with(|| receipt.clone().into());
            }
        }
        applied
    }

    /// Its verdicts, with `missing` for every token without one.
    pub(super) fn ack(self, now: Instant, missing: &Nack) -> Ack {
        let nack =
            |(id, verdict): (_, Option<_>)| Some((id, verdict.unwrap_or(Some(missing.clone()))?));
        let nacks = self.verdicts.into_iter().filter_map(nack).collect();
        let receipts = self.receipts.into_iter().collect();
        let after = now.duration_since(self.sent_at);
        Ack { batch: self.batch, nacks, receipts, traces: self.traces, after }
    }
}
