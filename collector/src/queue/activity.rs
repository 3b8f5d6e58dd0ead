//! What became of tokens, said once an hour.
//!
//! Pure policy: the caller passes the time in and writes the log line.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::{Batch, BatchId, Exception, Settlement};

/// How often a line is written.
const PAUSE: Duration = Duration::from_secs(3_600);

/// Counts of tokens since the last line.
#[derive(Debug)]
pub(super) struct Activity {
    counts: Counts,
    said: Instant,
    /// How many tokens the batches have that are claimed.
    claimed: HashMap<BatchId, usize>,
}

/// How many tokens had which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sent: usize,
    /// Refused for now, or failed.
    pub(super) retried: usize,
    /// Handed over to no avail and through no fault of theirs.
    pub(super) returned: usize,
    pub(super) dead: usize,
    pub(super) expired: usize,
}

impl Activity {
    /// None yet.
    pub(super) fn since(now: Instant) -> Self {
        Self { counts: Counts::default(), said: now, claimed: HashMap::new() }
    }

    /// Batches were claimed.
    pub(super) fn claimed(&mut self, batches: &[Batch]) {
        self.claimed.extend(batches.iter().map(|batch| (batch.id, batch.tokens.len())));
    }

    /// Batches are not this process's any more.
    pub(super) fn forget(&mut self, batches: &[BatchId]) {
        for batch in batches {
            self.claimed.remove(batch);
        }
    }

    /// Something became of a batch. Who is given up is told by [`given_up`](Self::given_up).
    pub(super) fn settled(&mut self, settlement: &Settlement) {
        let Some(tokens) = self.claimed.remove(&settlement.batch) else { return };
        self.counts.sent += tokens.saturating_sub(settlement.exceptions.len());
        for (_, exception) in &settlement.exceptions {
            match exception {
                Exception::Retry { .. } | Exception::Failed { .. } => self.counts.retried += 1,
                Exception::Unanswered | Exception::Unavailable { .. } => self.counts.returned += 1,
                Exception::Dead { .. } => {}
            }
        }
    }

    /// Tokens were given up. So many of them were settled as refused or failed: for them there is no other try.
    pub(super) fn given_up(&mut self, tokens: usize, refused: usize) {
        self.counts.dead += tokens;
        self.counts.retried = self.counts.retried.saturating_sub(refused);
    }

    /// Tokens expired before they were sent.
    pub(super) fn expired(&mut self, tokens: usize) {
        self.counts.expired += tokens;
    }

    /// What was done within the last hour, if that is to be said now.
    pub(super) fn due(&mut self, now: Instant) -> Option<Counts> {
        if now.duration_since(self.said) < PAUSE {
            return None;
        }
        self.said = now;
        Some(std::mem::take(&mut self.counts))
    }

    /// Writes the line if it is due.
    pub(super) fn tell(&mut self, now: Instant) {
        if let Some(Counts { sent, retried, returned, dead, expired }) = self.due(now) {
            tracing::info!(
                event = "activity",
                sent,
                retried,
                returned,
                dead,
                expired,
                "what became of tokens since the last such line"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_counted_and_said_once_an_hour() {
        let start = Instant::now();
        let mut activity = Activity::since(start);
        activity.claimed.extend([(BatchId(1), 8), (BatchId(2), 3)]);
        let reason = String::new;
        let exceptions = vec![
            (1, Exception::Retry { after: None, reason: reason() }),
            (2, Exception::Failed { reason: reason() }),
            (3, Exception::Unanswered),
            (4, Exception::Unavailable { after: None, reason: reason() }),
            (5, Exception::Dead { reason: reason() }),
        ];
        activity.settled(&Settlement { batch: BatchId(1), exceptions });
        activity.forget(&[BatchId(2)]);
        // Of a batch that somebody else has by now nothing is counted.
        activity.settled(&Settlement::sent(BatchId(2)));
        // The dead one, and the last failure that the other could have.
        activity.given_up(2, 1);
        activity.expired(4);
        assert_eq!(activity.due(start + Duration::from_secs(3_599)), None);
        let expected = Counts { sent: 3, retried: 1, returned: 2, dead: 2, expired: 4 };
        assert_eq!(activity.due(start + PAUSE), Some(expected));
        assert_eq!(activity.due(start + PAUSE), None);
        assert_eq!(activity.due(start + 2 * PAUSE), Some(Counts::default()));
        assert!(activity.claimed.is_empty());
    }
}
