//! Counts of what became of tokens, logged once an hour.

use std::time::{Duration, Instant};

use super::Nack;

const PAUSE: Duration = Duration::from_secs(3_600);

/// How many tokens had which outcome since the last line. The caller passes the time in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Activity {
    sent: usize,
    /// Refused for now, or failed.
    retried: usize,
    /// Not sent, for a reason that does not concern the token.
    returned: usize,
    /// Nobody knows whether they were sent.
    in_doubt: usize,
    dead: usize,
    /// Before they were sent.
    pub(super) expired: usize,
    logged: Instant,
}

impl Activity {
    pub(super) fn since(now: Instant) -> Self {
        Self { sent: 0, retried: 0, returned: 0, in_doubt: 0, dead: 0, expired: 0, logged: now }
    }

    /// Counts the tokens of a settled batch. [`dead`](Self::dead) counts dead letters.
    pub(super) fn settled(&mut self, tokens: usize, nacks: &[(i64, Nack)]) {
        self.sent += tokens.saturating_sub(nacks.len());
        for (_, nack) in nacks {
            match nack {
                Nack::Refused { .. } | Nack::Failed { .. } => self.retried += 1,
                Nack::Unanswered | Nack::Unavailable { .. } | Nack::Untried { .. } => {
                    self.returned += 1;
                }
                Nack::InDoubt { .. } => self.in_doubt += 1,
                Nack::Dead { .. } | Nack::UnknownAddress { .. } => {}
            }
        }
    }

    /// Tokens became dead letters. So many of them were settled as refused or failed,
    /// but are not retried.
    pub(super) fn dead(&mut self, tokens: usize, refused: usize) {
        self.dead += tokens;
        self.retried = self.retried.saturating_sub(refused);
    }

    pub(super) fn log(&mut self, now: Instant) {
        if now.duration_since(self.logged) >= PAUSE {
            let Self { sent, retried, returned, in_doubt, dead, expired, .. } =
                std::mem::replace(self, Self::since(now));
            tracing::info!(
                event = "activity",
                sent,
                retried,
                returned,
                in_doubt,
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
            (1, Nack::Refused { after: None, reason: reason() }),
            (2, Nack::Failed { reason: reason() }),
            (3, Nack::Unanswered),
            (4, Nack::Unavailable { after: None, reason: reason() }),
            (5, Nack::Dead { reason: reason() }),
            (6, Nack::InDoubt { reason: reason() }),
            (7, Nack::Untried { after: None, reason: reason() }),
        ];
        activity.settled(10, &nacks);
        // Number 5, and number 2, whose last attempt that was.
        activity.dead(2, 1);
        let expected = Activity {
            sent: 3,
            retried: 1,
            returned: 3,
            in_doubt: 1,
            dead: 2,
            ..Activity::since(start)
        };
        activity.log(start + Duration::from_secs(3_599));
        assert_eq!(activity, expected);
        activity.log(start + PAUSE);
        assert_eq!(activity, Activity::since(start + PAUSE));
    }
}
