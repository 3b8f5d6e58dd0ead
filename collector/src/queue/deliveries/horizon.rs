//! From what time on anything can still wait.
//!
//! Pure policy over what `prospect.sql` answers. A row of `pending` has the time at which its transaction inserted it, by a clock
//! that was read after the transaction had its number, or the place of a lease, which is in view until then. A number that is
//! taken after the clock was read is above those of all transactions that had one by then. Once they have all ended, nothing
//! comes any more that is older than that time or than what is in view. Long *reading* transactions, such as backups, have no
//! number and hold nothing up.
//!
//! The end of a snapshot is no such number: it is the one after the highest transaction that has ended, and those above it that
//! are open are as invisible as those that nobody has begun.
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
    /// No transaction with this number or a higher one had ended.
    pub(super) unended: i64,
    /// The number that the statement took after it had read the clock, if it did.
    pub(super) number: Option<i64>,
}

/// All transactions that had a number at this time have a lower one.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    at: SystemTime,
    number: i64,
}

/// The time before which nothing waits.
#[derive(Debug, Default)]
pub(super) struct Horizon {
    since: Option<SystemTime>,
    /// The clock of the last view.
    clock: Option<SystemTime>,
    candidate: Option<Candidate>,
    /// The last number that was taken.
    numbered: i64,
    looked_through: Option<Instant>,
}

impl Horizon {
    /// Where to begin to look; `None` for the very beginning.
    pub(super) fn since(&self) -> Option<SystemTime> {
        self.since
    }

    /// The last number that was taken. Unless a transaction with a higher one has ended, another would tell nothing new.
    pub(super) fn numbered(&self) -> i64 {
        self.numbered
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
        if self.clock.replace(view.at).is_some_and(|clock| view.at < clock) {
            // The clock was set back, and what is new lies before what is old.
            (self.since, self.candidate) = (None, None);
        }
        if self.since.is_some_and(|since| view.oldest.is_some_and(|oldest| oldest < since)) {
            self.since = view.oldest;
        }
        if view.unended <= self.numbered {
            // Another cluster, whose transactions are numbered from elsewhere: here, the one that took the number has ended.
            (self.numbered, self.candidate) = (0, None);
        }
        if let Some(candidate) = self.candidate
            && view.unfinished >= candidate.number
        {
            let reached = view.oldest.map_or(candidate.at, |oldest| oldest.min(candidate.at));
            self.since = self.since.max(Some(reached));
            self.candidate = None;
        }
        if let Some(number) = view.number {
            self.numbered = number;
            // An earlier one is reached earlier.
            self.candidate = self.candidate.or(Some(Candidate { at: view.at, number }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// With a number of its own.
    fn view(seconds: u64, oldest: Option<u64>, unfinished: i64, number: i64) -> View {
        View { number: Some(number), ..unnumbered(seconds, oldest, unfinished, number) }
    }

    fn unnumbered(seconds: u64, oldest: Option<u64>, unfinished: i64, unended: i64) -> View {
        View { at: at(seconds), oldest: oldest.map(at), unfinished, unended, number: None }
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
        assert_eq!(after(&[view(10, None, 8, 8)]), None);
    }

    #[test]
    fn it_stays_while_a_transaction_from_before_the_number_is_open() {
        assert_eq!(after(&[view(10, None, 7, 8), view(20, None, 7, 9), view(30, None, 7, 12)]), None);
    }

    /// Number 7 is open, and no higher one has ended: no snapshot has it.
    #[test]
    fn it_stays_while_the_transaction_with_the_highest_number_is_open() {
        let open = View { unended: 7, ..view(10, None, 7, 8) };
        assert_eq!(after(&[open, view(20, None, 7, 9)]), None);
        assert_eq!(after(&[open, view(20, None, 7, 9), view(30, None, 10, 10)]), Some(at(10)));
    }

    #[test]
    fn it_moves_to_the_earlier_view_when_all_transactions_from_before_its_number_have_ended() {
        assert_eq!(after(&[view(10, None, 7, 8), view(20, None, 9, 9)]), Some(at(10)));
        assert_eq!(
            after(&[view(10, None, 7, 8), view(20, None, 9, 9), view(30, None, 10, 10)]),
            Some(at(20))
        );
        assert_eq!(after(&[view(10, None, 7, 8), unnumbered(20, None, 9, 9)]), Some(at(10)));
    }

    #[test]
    fn it_stays_where_no_number_is_taken_because_nothing_has_happened() {
        let idle = [view(10, None, 8, 8), unnumbered(20, None, 9, 9), unnumbered(30, None, 9, 9)];
        assert_eq!(after(&idle), Some(at(10)));
        let mut horizon = Horizon::default();
        horizon.saw(idle[0]);
        assert_eq!(horizon.numbered(), 8);
    }

    #[test]
    fn it_is_kept_while_a_prospect_looks_from_the_very_beginning_once_a_minute() {
        let start = Instant::now();
        let mut horizon = Horizon::default();
        for seconds in 0..=200 {
            let begins = horizon.begin(start + Duration::from_secs(seconds));
            assert_eq!(begins.is_none(), seconds < 2 || seconds % 60 == 0, "after {seconds} s: {begins:?}");
            let number = i64::try_from(seconds + 1).unwrap();
            horizon.saw(view(1_000 + seconds, None, number, number));
            let known = seconds.checked_sub(1).map(|before| at(1_000 + before));
            assert_eq!(horizon.since(), known);
        }
    }

    #[test]
    fn it_goes_back_to_what_is_found_before_it() {
        let mut horizon = Horizon::default();
        for view in [view(10, None, 7, 8), view(20, None, 8, 9), view(30, Some(4), 9, 10)] {
            horizon.saw(view);
        }
        assert_eq!(horizon.since(), Some(at(4)));
        horizon.saw(view(40, None, 11, 11));
        assert_eq!(horizon.since(), Some(at(30)));
    }

    #[test]
    fn it_is_forgotten_when_the_clock_is_set_back() {
        assert_eq!(after(&[view(10, None, 7, 8), view(20, None, 8, 9), view(19, None, 10, 10)]), None);
        let idle = [view(10, None, 8, 8), unnumbered(20, None, 9, 9), unnumbered(19, None, 9, 9)];
        assert_eq!(after(&idle), None);
    }

    #[test]
    fn it_goes_on_in_another_cluster_whose_transactions_have_lower_numbers() {
        let views =
            [view(10, None, 700, 800), view(20, None, 800, 900), view(30, None, 7, 8), view(40, None, 9, 9)];
        assert_eq!(after(&views[..3]), Some(at(10)));
        assert_eq!(after(&views), Some(at(30)));
    }

    #[test]
    fn it_does_not_pass_what_waits_or_is_leased() {
        assert_eq!(after(&[view(10, Some(3), 7, 8), view(20, Some(3), 9, 9)]), Some(at(3)));
    }
}
