//! From what time on anything can still wait.
//!
//! Pure policy over what `mailroom_prospect` answers. A row of `pending` has the time at which its transaction inserted it, by
//! a clock that was read after the transaction had its number, or the place of a lease, which is in view until then. So once
//! all transactions have ended that had a number at some moment, nothing comes any more that is older than that moment or
//! than what is in view. Long *reading* transactions, such as backups, have no number and hold nothing up.
//!
//! A clock that is set back breaks the first premise, and so can whoever writes into the table by hand. So the prospect, and
//! nothing else, begins at the very beginning now and then, and the horizon goes back to what that finds. It is never
//! forgotten otherwise, also not with the connection: a look from the beginning comes by all that was ever deleted, as long as
//! vacuum cannot clear it away.

use std::time::{Duration, Instant, SystemTime};

/// How often everything is looked through.
const LOOK_THROUGH: Duration = Duration::from_secs(60);

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
    looked_through: Option<Instant>,
}

impl Horizon {
    /// Where to begin to look; `None` for the very beginning.
    pub(super) fn since(&self) -> Option<SystemTime> {
        self.since
    }

    /// Where a prospect begins to look: now and then at the very beginning. That counts as done, whatever becomes of it, so
    /// that a look that takes too long is not taken again and again.
    pub(super) fn begin(&mut self, now: Instant) -> Option<SystemTime> {
        if self.looked_through.is_some_and(|looked| now - looked < LOOK_THROUGH) {
            return self.since;
        }
        self.looked_through = Some(now);
        None
    }

    /// A statement that began at [`since`](Self::since), or before, saw this.
    pub(super) fn saw(&mut self, view: View) {
        let Some(candidate) = self.candidate else {
            self.candidate = Some(view);
            return;
        };
        if view.at < candidate.at {
            // The clock was set back, and what is new lies before what is old.
            *self = Self { since: None, candidate: Some(view), looked_through: self.looked_through };
            return;
        }
        if self.since.is_some_and(|since| view.oldest.is_some_and(|oldest| oldest < since)) {
            self.since = view.oldest;
        }
        if view.unborn < candidate.unborn {
            // Another cluster, whose transactions are numbered from elsewhere.
            self.candidate = Some(view);
            return;
        }
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
    fn it_is_kept_while_a_prospect_looks_from_the_very_beginning_once_a_minute() {
        let start = Instant::now();
        let mut horizon = Horizon::default();
        for seconds in 0..=200 {
            let begins = horizon.begin(start + Duration::from_secs(seconds));
            assert_eq!(begins.is_none(), seconds < 2 || seconds % 60 == 0, "after {seconds} s: {begins:?}");
            let number = i64::try_from(seconds).unwrap();
            horizon.saw(view(1_000 + seconds, None, number, number));
            let known = seconds.checked_sub(1).map(|before| at(1_000 + before));
            assert_eq!(horizon.since(), known);
        }
    }

    #[test]
    fn it_goes_back_to_what_is_found_before_it() {
        let mut horizon = Horizon::default();
        for view in [view(10, None, 7, 8), view(20, None, 8, 9), view(30, Some(4), 9, 9)] {
            horizon.saw(view);
        }
        assert_eq!(horizon.since(), Some(at(4)));
        horizon.saw(view(40, None, 10, 10));
        assert_eq!(horizon.since(), Some(at(30)));
    }

    #[test]
    fn it_is_forgotten_when_the_clock_is_set_back() {
        assert_eq!(after(&[view(10, None, 7, 8), view(20, None, 8, 9), view(19, None, 9, 9)]), None);
    }

    #[test]
    fn it_goes_on_in_another_cluster_whose_transactions_have_lower_numbers() {
        let views =
            [view(10, None, 700, 800), view(20, None, 800, 900), view(30, None, 7, 8), view(40, None, 8, 9)];
        assert_eq!(after(&views), Some(at(30)));
    }

    #[test]
    fn it_does_not_pass_what_waits_or_is_leased() {
        assert_eq!(after(&[view(10, Some(3), 7, 8), view(20, Some(3), 8, 9)]), Some(at(3)));
    }
}
