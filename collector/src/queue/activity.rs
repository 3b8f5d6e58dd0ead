//! Counts of what became of tokens, logged once an hour and served as metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Nack;
use crate::metrics::Metrics;

const PAUSE: Duration = Duration::from_secs(3_600);

/// How many tokens had which outcome since the last line. The caller passes the time in.
#[derive(Debug)]
pub(super) struct Activity {
    sent: usize,
    /// Refused for now, or failed.
    retried: usize,
    /// Not sent, for a reason that does not concern the token.
    returned: usize,
    /// Nobody knows whether they were sent.
    in_doubt: usize,
    /// Stored by a broker, for somebody else to send them.
    handed_over: usize,
    dead: usize,
    /// Before they were sent.
    pub(super) expired: usize,
    /// Claimed and certainly given to no provider, so that they take nothing from a budget; since
    /// the database was told last.
    unspent: usize,
    /// When the first of these was claimed: what was claimed in another month takes nothing from
    /// the budget of this one.
    unspent_since: Option<Instant>,
    logged: Instant,
    /// The same for ever, and more.
    pub(super) metrics: Arc<Metrics>,
}

impl Activity {
    pub(super) fn since(now: Instant) -> Self {
        Self {
            sent: 0,
            retried: 0,
            returned: 0,
            in_doubt: 0,
            handed_over: 0,
            dead: 0,
            expired: 0,
            unspent: 0,
            unspent_since: None,
            logged: now,
            metrics: Arc::default(),
        }
    }

    /// Counts tokens that were given to no provider.
    pub(super) fn unspent(&mut self, tokens: usize, claimed_at: Instant) {
        if tokens > 0 {
            self.unspent += tokens;
            let since = self.unspent_since.map_or(claimed_at, |since| since.min(claimed_at));
            self.unspent_since = Some(since);
        }
    }

    /// How many tokens were given to no provider since the last call, and how long ago the first of
    /// them was claimed at most.
    pub(super) fn take_unspent(&mut self, now: Instant) -> Option<(usize, Duration)> {
        let since = self.unspent_since.take()?;
        Some((std::mem::take(&mut self.unspent), now.duration_since(since)))
    }

    /// Counts the tokens of a settled batch, which was claimed then at the earliest.
    /// [`dead`](Self::dead) counts dead letters.
    pub(super) fn settled(&mut self, tokens: usize, nacks: &[(i64, Nack)], claimed_at: Instant) {
        self.metrics.settled(tokens, nacks);
        self.sent += tokens.saturating_sub(nacks.len());
        for (_, nack) in nacks {
            match nack {
                Nack::Retry { .. } | Nack::Failed { .. } => self.retried += 1,
                Nack::Unavailable { .. } | Nack::Untried { .. } => {
                    self.returned += 1;
                    self.unspent(1, claimed_at);
                }
                // It may have been sent.
                Nack::Unanswered => self.returned += 1,
                Nack::InDoubt { .. } => self.in_doubt += 1,
                Nack::HandedOver => self.handed_over += 1,
                Nack::Dead { .. } | Nack::UnknownAddress { .. } => {}
            }
        }
    }

    /// Tokens became dead letters. So many of them were settled as refused or failed,
    /// but are not retried.
    pub(super) fn dead(&mut self, tokens: usize, refused: usize) {
        self.metrics.dead(tokens);
        self.dead += tokens;
        self.retried = self.retried.saturating_sub(refused);
    }

    pub(super) fn log(&mut self, now: Instant) {
        if now.duration_since(self.logged) >= PAUSE {
            let metrics = Arc::clone(&self.metrics);
            let (unspent, unspent_since) = (self.unspent, self.unspent_since);
            let next = Self { unspent, unspent_since, metrics, ..Self::since(now) };
            let Self { sent, retried, returned, in_doubt, handed_over, dead, expired, .. } =
                std::mem::replace(self, next);
            tracing::info!(
                event = "activity",
                sent,
                retried,
                returned,
                in_doubt,
                handed_over,
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
    fn outcomes_are_counted_and_logged_once_an_hour() {
        let start = Instant::now();
        let mut activity = Activity::since(start);
        let reason = String::new;
        let nacks = [
            (1, Nack::Retry { after: None, reason: reason() }),
            (2, Nack::Failed { reason: reason() }),
            (3, Nack::Unanswered),
            (4, Nack::Unavailable { after: None, reason: reason() }),
            (5, Nack::Dead { reason: reason() }),
            (6, Nack::InDoubt { reason: reason() }),
            (7, Nack::Untried { after: None, reason: reason() }),
            (8, Nack::HandedOver),
        ];
        activity.settled(11, &nacks, start);
        // Number 5, and number 2, whose last attempt that was.
        activity.dead(2, 1);
        let counts = |activity: &Activity| {
            let Activity {
                sent,
                retried,
                returned,
                in_doubt,
                handed_over,
                dead,
                expired,
                logged,
                ..
            } = *activity;
            ([sent, retried, returned, in_doubt, handed_over, dead, expired], logged)
        };
        activity.log(start + Duration::from_secs(3_599));
        assert_eq!(counts(&activity), ([3, 1, 3, 1, 1, 2, 0], start));
        activity.log(start + PAUSE);
        assert_eq!(counts(&activity), ([0; 7], start + PAUSE));
    }
}
