//! Counts of what became of tokens, logged once an hour.

use std::time::{Duration, Instant};

use super::Nack;

/// How often the counts are logged.
const PAUSE: Duration = Duration::from_secs(3_600);

/// Counts since the last line. The caller passes the time in.
#[derive(Debug)]
pub(super) struct Activity {
    counts: Counts,
    logged: Instant,
}

/// How many tokens had which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    sent: usize,
    /// Refused for now, or failed.
    retried: usize,
    /// Not sent, for a reason that does not concern the token.
    returned: usize,
    dead: usize,
    expired: usize,
}

impl Activity {
    /// None yet.
    pub(super) fn since(now: Instant) -> Self {
        Self { counts: Counts::default(), logged: now }
    }

    /// A batch of so many tokens was settled. Dead letters are counted by [`dead`](Self::dead).
    pub(super) fn settled(&mut self, tokens: usize, nacks: &[(i64, Nack)]) {
        self.counts.sent += tokens.saturating_sub(nacks.len());
        for (_, nack) in nacks {
            match nack {
                Nack::Retry { .. } | Nack::Failed { .. } => self.counts.retried += 1,
                Nack::Abandoned | Nack::Unavailable { .. } => self.counts.returned += 1,
                Nack::Dead { .. } => {}
            }
        }
    }

    /// Tokens became dead letters. So many of them were settled as refused or failed, but are not retried.
    pub(super) fn dead(&mut self, tokens: usize, refused: usize) {
        self.counts.dead += tokens;
        self.counts.retried = self.counts.retried.saturating_sub(refused);
    }

    /// Tokens expired before they were sent.
    pub(super) fn expired(&mut self, tokens: usize) {
        self.counts.expired += tokens;
    }

    /// Logs the counts if that is due.
    pub(super) fn log(&mut self, now: Instant) {
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

    fn due(&mut self, now: Instant) -> Option<Counts> {
        let is_due = now.duration_since(self.logged) >= PAUSE;
        is_due.then(|| {
            self.logged = now;
            std::mem::take(&mut self.counts)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_and_logged_once_an_hour() {
        let start = Instant::now();
        let mut activity = Activity::since(start);
        let reason = String::new;
        let nacks = [
            (1, Nack::Retry { after: None, reason: reason() }),
            (2, Nack::Failed { reason: reason() }),
            (3, Nack::Abandoned),
            (4, Nack::Unavailable { after: None, reason: reason() }),
            (5, Nack::Dead { reason: reason() }),
        ];
        activity.settled(8, &nacks);
        // Number 5, and number 2, whose last attempt that was.
        activity.dead(2, 1);
        activity.expired(4);
        assert_eq!(activity.due(start + Duration::from_secs(3_599)), None);
        let expected = Counts { sent: 3, retried: 1, returned: 2, dead: 2, expired: 4 };
        assert_eq!(activity.due(start + PAUSE), Some(expected));
        assert_eq!(activity.due(start + PAUSE), None);
        assert_eq!(activity.due(start + 2 * PAUSE), Some(Counts::default()));
    }
}
