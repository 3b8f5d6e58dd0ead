//! From what time on anything can still wait.
//!
//! Pure policy over what `mailroom_prospect` answers. A row of `pending` has the time at which its transaction inserted it, by
//! a clock that was read after the transaction had its number, or the place of a lease, which is in view until then. So once
//! all transactions have ended that had a number at some moment, nothing comes any more that is older than that moment or
//! than what is in view. Long *reading* transactions, such as backups, have no number and hold nothing up.
//!
//! A clock that is set back breaks the first premise, so all is looked through now and then.

use std::time::{Duration, Instant, SystemTime};

/// How often everything is looked through.
const FORGET: Duration = Duration::from_secs(60);

/// What one statement saw.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// The clock before the statement began.
    pub(super) at: SystemTime,
    /// The oldest place in the queue of all that waits or is leased.
    pub(super) oldest: Option<SystemTime>,
    /// All transactions with lower numbers have ended, and what they did was seen.
    pub(super) unfinished: i64,
    /// No transaction had this number yet.
    pub(super) unborn: i64,
}

/// The time before which nothing waits.
#[derive(Debug, Default)]
pub(super) struct Horizon {
    since: Option<SystemTime>,
    candidate: Option<View>,
    forgotten: Option<Instant>,
}

impl Horizon {
    /// Where to begin to look; `None` for the very beginning.
    pub(super) fn since(&self) -> Option<SystemTime> {
        self.since
    }

    /// A statement that began at [`since`](Self::since) saw this.
    pub(super) fn saw(&mut self, view: View) {
        let now = Instant::now();
        if self.forgotten.is_none_or(|forgotten| now - forgotten >= FORGET) {
            *self = Self { since: None, candidate: Some(view), forgotten: Some(now) };
            return;
        }
        let Some(candidate) = self.candidate else {
            self.candidate = Some(view);
            return;
        };
        if view.unfinished < candidate.unborn {
            return;
        }
        let reached = view.oldest.map_or(candidate.at, |oldest| oldest.min(candidate.at));
        self.since = self.since.max(Some(reached));
        self.candidate = Some(view);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn view(seconds: u64, oldest: Option<u64>, unfinished: i64, unborn: i64) -> View {
        View { at: at(seconds), oldest: oldest.map(at), unfinished, unborn }
    }

    fn after(views: &[View]) -> Option<SystemTime> {
        let mut horizon = Horizon::default();
        for view in views {
            horizon.saw(*view);
        }
        horizon.since()
    }

    #[test]
    fn one_view_says_nothing_because_a_transaction_may_be_open() {
        assert_eq!(after(&[view(10, None, 7, 8)]), None);
    }

    #[test]
    fn it_stays_while_a_transaction_of_the_view_is_open() {
        assert_eq!(after(&[view(10, None, 7, 8), view(20, None, 7, 9), view(30, None, 7, 12)]), None);
    }

    #[test]
    fn it_moves_to_the_earlier_view_when_all_transactions_of_that_have_ended() {
        assert_eq!(after(&[view(10, None, 7, 8), view(20, None, 8, 9)]), Some(at(10)));
        assert_eq!(after(&[view(10, None, 7, 8), view(20, None, 8, 9), view(30, None, 9, 9)]), Some(at(20)));
    }

    #[test]
    fn it_does_not_pass_what_waits_or_is_leased() {
        assert_eq!(after(&[view(10, Some(3), 7, 8), view(20, Some(3), 8, 9)]), Some(at(3)));
        assert_eq!(
            after(&[view(10, None, 8, 8), view(20, None, 9, 9), view(30, Some(3), 9, 9)]),
            Some(at(10))
        );
    }
}
