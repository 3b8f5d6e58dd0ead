//! When to look at the queue, when to sleep, and when a batch that is not full goes out.
//!
//! Pure policy: the caller passes the time in.

use std::time::{Duration, Instant};

use crate::queue::Prospect;

/// Notifications within this time are one look: they often come in bunches.
const GATHERING: Duration = Duration::from_millis(20);

/// The pause after a look on a busy database, which leaves the processor to the writers. Pauses begin with
/// [`GATHERING`] and double while the database stays busy.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// So many looks in a row may bring nothing, as where another collector is quicker, before they become rarer.
const FRUITLESS_LOOKS: u32 = 3;

/// The first pause after a look that only put tokens off, which doubles up to the longest: somebody has their account locked,
/// which is soon over, or row-level security hides it, which is not.
const PUT_OFF_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PUT_OFF_PAUSE: Duration = Duration::from_secs(8);

/// Decides when to look and when a partial batch is due.
#[derive(Debug)]
pub struct Batcher {
    limit: usize,
    timeout: Duration,
    /// Whether anything is announced only while the collector sleeps.
    sleeps: bool,
    /// Eligible tokens that the last look left because they do not fill a batch, and when the first was noticed.
    waiting: usize,
    noticed: Option<Instant>,
    /// Notifications since the last look, and when the first came.
    hints: usize,
    hinted: Option<Instant>,
    last_look: Option<Instant>,
    /// When to look because nobody announces anything, or because there is something.
    again: Option<Instant>,
    /// Until when a sleeper was told that nothing falls due.
    quiet_until: Option<Instant>,
    /// How often in a row the database was found to be busy.
    strain: u32,
    fruitless: u32,
    /// How often in a row a look only put tokens off.
    put_off: u32,
}

impl Batcher {
    /// Batches of at most `limit` tokens, none of which waits longer than `timeout` for the others. `sleeps` says whether
    /// what becomes due is announced only while the collector sleeps.
    pub fn new(limit: usize, timeout: Duration, sleeps: bool) -> Self {
        Self {
            limit,
            timeout,
            sleeps,
            waiting: 0,
            noticed: None,
            hints: 0,
            hinted: None,
            last_look: None,
            again: None,
            quiet_until: None,
            strain: 0,
            fruitless: 0,
            put_off: 0,
        }
    }

    /// Something may have happened: `count` notifications came.
    ///
    /// The count is never taken for a number of tokens, because the database merges notifications; it only tells
    /// whether a pause is worth its while.
    pub fn hint(&mut self, count: usize, now: Instant) {
        self.hints = self.hints.saturating_add(count);
        self.hinted.get_or_insert(now);
    }

    /// A look took `batches`, left `waiting` tokens and put `put_off` off for a moment.
    pub fn looked(&mut self, waiting: usize, batches: usize, put_off: usize, now: Instant) {
        // Batches are cut from the oldest tokens, so those that are left were noticed after the ones that went.
        if batches > 0 {
            self.noticed = None;
        }
        self.note_waiting(waiting, now);
        (self.hints, self.hinted, self.last_look) = (0, None, Some(now));
        (self.again, self.quiet_until) = (None, None);
        self.fruitless = if batches == 0 { self.fruitless.saturating_add(1) } else { 0 };
        if batches + waiting > 0 {
            self.put_off = 0;
        } else if put_off > 0 {
            self.put_off = self.put_off.saturating_add(1);
        }
        let is_busy = batches > 1 || self.fruitless >= FRUITLESS_LOOKS;
        self.strain = if is_busy { self.strain.saturating_add(1) } else { 0 };
        if batches > 1 && self.sleeps {
            // There will be more, and to sleep now would only make the writers announce it.
            self.again = Some(now + self.pause());
        }
    }

    /// Nobody announces what becomes due.
    pub fn refused(&mut self, now: Instant) {
        self.strain = self.strain.saturating_add(1);
        self.quiet_until = None;
        self.again = Some(now + self.pause());
    }

    /// All that becomes due from now on is announced, and this is what there was before.
    pub fn prospected(&mut self, prospect: Prospect, now: Instant) {
        // What is put off is due again within the first pause.
        if prospect.due == 0 && prospect.next.is_none_or(|next| next > PUT_OFF_PAUSE) {
            self.put_off = 0;
        }
        let last = self.last_look.unwrap_or(now);
        let put_off_until = last + self.put_off_pause();
        self.quiet_until = prospect.next.map(|next| (now + next).max(put_off_until));
        if prospect.due >= self.limit || prospect.due > 0 && self.timeout.is_zero() {
            self.again = Some(now.max(last + self.pause()).max(put_off_until));
        } else {
            self.note_waiting(prospect.due, now);
        }
    }

    /// Whether nothing is to be done before something happens or some time has passed.
    pub fn is_idle(&self) -> bool {
        self.hinted.is_none() && self.again.is_none()
    }

    /// Whether the tokens that wait go out although they do not fill a batch.
    pub fn is_due(&self, now: Instant) -> bool {
        self.timeout.is_zero() || self.due_at().is_some_and(|due| due <= now)
    }

    /// When to look next; `None` if nothing but a notification or the poll gives a reason.
    pub fn next_look(&self) -> Option<Instant> {
        [self.due_at(), self.hinted_look(), self.again, self.quiet_until].into_iter().flatten().min()
    }

    fn note_waiting(&mut self, waiting: usize, now: Instant) {
        if waiting == 0 {
            self.noticed = None;
        } else {
            self.noticed.get_or_insert(now);
        }
        self.waiting = waiting;
    }

    fn due_at(&self) -> Option<Instant> {
        self.noticed.map(|noticed| noticed + self.timeout)
    }

    fn hinted_look(&self) -> Option<Instant> {
        let hinted = self.hinted?;
        let full_batch_expected = self.waiting.saturating_add(self.hints) >= self.limit;
        let (gathering, pause) = match (full_batch_expected, self.limit, self.strain) {
            // There is nothing to gather: a token is a batch.
            (true, 1, 0) => (Duration::ZERO, Duration::ZERO),
            (true, ..) => (GATHERING, self.pause()),
            (false, ..) => (GATHERING, BUSY_PAUSE),
        };
        let soon = hinted + gathering;
        Some(self.last_look.map_or(soon, |last| soon.max(last + pause)))
    }

    fn put_off_pause(&self) -> Duration {
        match self.put_off {
            0 => Duration::ZERO,
            times => (PUT_OFF_PAUSE * (1 << (times - 1).min(8))).min(LONGEST_PUT_OFF_PAUSE),
        }
    }

    fn pause(&self) -> Duration {
        match self.strain {
            0 => Duration::ZERO,
            // No shift of a small number by so little overflows.
            strain => (GATHERING * (1 << (strain - 1).min(8))).min(BUSY_PAUSE),
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
    fn what_can_only_be_put_off_is_looked_at_ever_more_rarely() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, milliseconds(0), true);
        let (mut now, mut looks) = (start, 0);
        let soon = Prospect { due: 0, next: Some(milliseconds(250)) };
        while now < start + Duration::from_secs(60) {
            batcher.looked(0, 0, 3, now);
            batcher.prospected(soon, now + milliseconds(1));
            // Asked again in between.
            batcher.prospected(soon, now + milliseconds(2));
            now = batcher.next_look().unwrap();
            looks += 1;
        }
        assert!(looks < 15, "{looks}");
        // Somebody else came to it; another token's pause is kept.
        batcher.looked(0, 0, 0, now);
        batcher.prospected(Prospect { due: 0, next: Some(milliseconds(600)) }, now);
        assert_eq!(batcher.next_look(), Some(now + milliseconds(600)));
        batcher.looked(0, 0, 1, now);
        batcher.prospected(soon, now);
        assert_eq!(batcher.next_look(), Some(now + milliseconds(250)));
    }

    #[test]
    fn nothing_is_due_while_nothing_waits() {
        let now = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT, true);
        assert_eq!(batcher.next_look(), None);
        batcher.looked(0, 0, 0, now);
        assert_eq!(batcher.next_look(), None);
        assert!(!batcher.is_due(now + milliseconds(3_600_000)));
    }

    #[test]
    fn tokens_wait_no_longer_than_the_timeout_since_the_first_was_noticed() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT, true);
        batcher.looked(1, 0, 0, start);
        batcher.looked(3, 0, 0, start + milliseconds(4_000));
        assert_eq!(batcher.next_look(), Some(start + TIMEOUT));
        assert!(!batcher.is_due(start + milliseconds(4_999)));
        assert!(batcher.is_due(start + TIMEOUT));
    }

    #[test]
    fn what_a_claimed_batch_leaves_was_noticed_with_it() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT, true);
        batcher.looked(9, 0, 0, start);
        batcher.looked(2, 1, 0, start + milliseconds(3_000));
        assert!(!batcher.is_due(start + TIMEOUT));
        assert!(batcher.is_due(start + milliseconds(8_000)));
    }

    #[test]
    fn tokens_that_are_no_longer_eligible_do_not_wait() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT, true);
        batcher.looked(1, 0, 0, start);
        batcher.looked(0, 0, 0, start + milliseconds(100));
        assert_eq!(batcher.next_look(), None);
    }

    #[test]
    fn hints_within_a_moment_are_one_look() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT, true);
        batcher.hint(1, start);
        batcher.hint(1, start + milliseconds(15));
        assert_eq!(batcher.next_look(), Some(start + GATHERING));
    }

    #[test]
    fn on_a_busy_database_looks_are_a_pause_apart() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT, true);
        batcher.looked(2, 0, 0, start);
        batcher.hint(1, start + milliseconds(1));
        assert_eq!(batcher.next_look(), Some(start + BUSY_PAUSE));
        batcher.hint(7, start + milliseconds(30));
        assert_eq!(batcher.next_look(), Some(start + milliseconds(1) + GATHERING));
    }

    #[test]
    fn a_timeout_of_zero_sends_what_there_is() {
        let now = Instant::now();
        let mut batcher = Batcher::new(10, Duration::ZERO, true);
        assert!(batcher.is_due(now));
        batcher.looked(0, 1, 0, now);
        assert_eq!(batcher.next_look(), None);
    }

    fn sleeping(due: usize, next: Option<u64>) -> Prospect {
        Prospect { due, next: next.map(milliseconds) }
    }

    #[test]
    fn a_token_that_is_a_batch_is_looked_for_at_once() {
        let start = Instant::now();
        let mut batcher = Batcher::new(1, TIMEOUT, true);
        batcher.looked(0, 1, 0, start);
        batcher.hint(1, start + milliseconds(1));
        assert_eq!(batcher.next_look(), Some(start + milliseconds(1)));
    }

    #[test]
    fn backlogs_make_looks_rarer_until_one_batch_or_less_is_found() {
        let mut now = Instant::now();
        let mut batcher = Batcher::new(1, TIMEOUT, true);
        for pause in [20, 40, 80, 160, 200, 200] {
            batcher.looked(0, 7, 0, now);
            assert!(!batcher.is_idle());
            assert_eq!(batcher.next_look(), Some(now + milliseconds(pause)));
            now += milliseconds(pause);
        }
        batcher.looked(0, 1, 0, now);
        assert!(batcher.is_idle());
        batcher.looked(0, 2, 0, now);
        assert_eq!(batcher.next_look(), Some(now + GATHERING));
    }

    #[test]
    fn whoever_cannot_sleep_looks_after_pauses() {
        let now = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT, true);
        for pause in [20, 40, 80, 160, 200] {
            batcher.refused(now);
            assert_eq!(batcher.next_look(), Some(now + milliseconds(pause)));
        }
        batcher.looked(0, 0, 0, now);
        assert!(batcher.is_idle());
        assert_eq!(batcher.next_look(), None);
    }

    #[test]
    fn a_storm_of_hints_about_nothing_makes_looks_rarer() {
        let mut now = Instant::now();
        let mut batcher = Batcher::new(1, TIMEOUT, true);
        let mut looks = 0;
        let end = now + milliseconds(10_000);
        while now < end {
            batcher.hint(1, now);
            now = batcher.next_look().unwrap().max(now + milliseconds(1));
            batcher.looked(0, 0, 0, now);
            looks += 1;
        }
        assert!(looks < 60, "{looks}");
    }

    #[test]
    fn a_sleeper_looks_when_something_falls_due() {
        let now = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT, true);
        batcher.prospected(sleeping(0, Some(700)), now);
        assert!(batcher.is_idle());
        assert_eq!(batcher.next_look(), Some(now + milliseconds(700)));
        batcher.looked(0, 0, 0, now + milliseconds(700));
        assert_eq!(batcher.next_look(), None);
    }

    #[test]
    fn a_sleeper_waits_for_a_batch_to_fill_unless_it_is_full() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT, true);
        batcher.looked(2, 0, 0, start);
        batcher.prospected(sleeping(9, Some(9_000)), start + milliseconds(100));
        assert!(batcher.is_idle());
        assert_eq!(batcher.next_look(), Some(start + TIMEOUT));
        batcher.prospected(sleeping(10, None), start + milliseconds(200));
        assert!(!batcher.is_idle());
        assert_eq!(batcher.next_look(), Some(start + milliseconds(200)));
        let mut batcher = Batcher::new(10, Duration::ZERO, true);
        batcher.prospected(sleeping(1, None), start);
        assert_eq!(batcher.next_look(), Some(start));
    }

    #[test]
    fn tokens_in_the_hands_of_another_collector_are_looked_for_after_pauses() {
        let mut now = Instant::now();
        let mut batcher = Batcher::new(1, TIMEOUT, true);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            batcher.looked(0, 0, 0, now);
            batcher.prospected(sleeping(1, None), now);
            let look = batcher.next_look().unwrap();
            pauses.push(look.duration_since(now).as_millis());
            now = look;
        }
        assert_eq!(pauses, [0, 0, 20, 40, 80, 160, 200, 200]);
    }

    #[test]
    fn what_others_took_does_not_wait() {
        let now = Instant::now();
        let mut batcher = Batcher::new(10, TIMEOUT, true);
        batcher.looked(2, 0, 0, now);
        batcher.prospected(sleeping(0, None), now);
        assert_eq!(batcher.next_look(), None);
    }

    #[test]
    fn whoever_is_told_of_everything_or_of_nothing_does_not_look_by_itself() {
        let mut batcher = Batcher::new(10, TIMEOUT, false);
        batcher.looked(0, 7, 0, Instant::now());
        assert_eq!(batcher.next_look(), None);
    }
}
