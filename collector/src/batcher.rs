//! When to look at the queue, and when a batch that is not full goes out.
//!
//! Pure policy: the caller passes the time in.

use std::time::{Duration, Instant};

/// Notifications within this time are one look: they often come in bunches.
const GATHERING: Duration = Duration::from_millis(20);

/// The pause after a look on a busy database, which leaves the processor to the writers.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// Decides when to look and when a partial batch is due.
#[derive(Debug)]
pub struct Batcher {
    limit: usize,
    timeout: Duration,
    /// Eligible tokens that the last look left because they do not fill a batch, and when the first was noticed.
    waiting: usize,
    noticed: Option<Instant>,
    /// Notifications since the last look, and when the first came.
    hints: usize,
    hinted: Option<Instant>,
    last_look: Option<Instant>,
}

impl Batcher {
    /// Batches of at most `limit` tokens, none of which waits longer than `timeout` for the others.
    pub fn new(limit: usize, timeout: Duration) -> Self {
        Self { limit, timeout, waiting: 0, noticed: None, hints: 0, hinted: None, last_look: None }
    }

    /// Something may have happened: `count` notifications came.
    ///
    /// The count is never taken for a number of tokens, because the database merges notifications; it only tells
    /// whether a pause is worth its while.
    pub fn hint(&mut self, count: usize, now: Instant) {
        self.hints = self.hints.saturating_add(count);
        self.hinted.get_or_insert(now);
    }

    /// A look left `waiting` tokens; `claimed` says whether it took a batch.
    pub fn looked(&mut self, waiting: usize, claimed: bool, now: Instant) {
        // Batches are cut from the oldest tokens, so those that are left were noticed after the ones that went.
        if waiting == 0 || claimed {
            self.noticed = None;
        }
        if waiting > 0 {
            self.noticed.get_or_insert(now);
        }
        self.waiting = waiting;
        (self.hints, self.hinted, self.last_look) = (0, None, Some(now));
    }

    /// Whether the tokens that wait go out although they do not fill a batch.
    pub fn is_due(&self, now: Instant) -> bool {
        self.timeout.is_zero() || self.due_at().is_some_and(|due| due <= now)
    }

    /// When to look next; `None` if nothing but a notification or the poll gives a reason.
    pub fn next_look(&self) -> Option<Instant> {
        [self.due_at(), self.hinted_look()].into_iter().flatten().min()
    }

    fn due_at(&self) -> Option<Instant> {
        self.noticed.map(|noticed| noticed + self.timeout)
    }

    fn hinted_look(&self) -> Option<Instant> {
        let soon = self.hinted? + GATHERING;
        let full_batch_expected = self.waiting.saturating_add(self.hints) >= self.limit;
        match self.last_look {
            Some(last) if !full_batch_expected => Some(soon.max(last + BUSY_PAUSE)),
            _ => Some(soon),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn nothing_is_due_while_nothing_waits() {
        let now = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT);
        assert_eq!(batcher.next_look(), None);
        batcher.looked(0, false, now);
        assert_eq!(batcher.next_look(), None);
        assert!(!batcher.is_due(now + milliseconds(3_600_000)));
    }

    #[test]
    fn tokens_wait_no_longer_than_the_timeout_since_the_first_was_noticed() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT);
        batcher.looked(1, false, start);
        batcher.looked(3, false, start + milliseconds(4_000));
        assert_eq!(batcher.next_look(), Some(start + TIMEOUT));
        assert!(!batcher.is_due(start + milliseconds(4_999)));
        assert!(batcher.is_due(start + TIMEOUT));
    }

    #[test]
    fn what_a_claimed_batch_leaves_was_noticed_with_it() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT);
        batcher.looked(9, false, start);
        batcher.looked(2, true, start + milliseconds(3_000));
        assert!(!batcher.is_due(start + TIMEOUT));
        assert!(batcher.is_due(start + milliseconds(8_000)));
    }

    #[test]
    fn tokens_that_are_no_longer_eligible_do_not_wait() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT);
        batcher.looked(1, false, start);
        batcher.looked(0, false, start + milliseconds(100));
        assert_eq!(batcher.next_look(), None);
    }

    #[test]
    fn hints_within_a_moment_are_one_look() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT);
        batcher.hint(1, start);
        batcher.hint(1, start + milliseconds(15));
        assert_eq!(batcher.next_look(), Some(start + GATHERING));
    }

    #[test]
    fn on_a_busy_database_looks_are_a_pause_apart() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT);
        batcher.looked(2, false, start);
        batcher.hint(1, start + milliseconds(1));
        assert_eq!(batcher.next_look(), Some(start + BUSY_PAUSE));
        batcher.hint(7, start + milliseconds(30));
        assert_eq!(batcher.next_look(), Some(start + milliseconds(1) + GATHERING));
    }

    #[test]
    fn a_timeout_of_zero_sends_what_there_is() {
        let now = Instant::now();
        let mut batcher = Batcher::new(10, Duration::ZERO);
        assert!(batcher.is_due(now));
        batcher.looked(0, true, now);
        assert_eq!(batcher.next_look(), None);
    }
}
