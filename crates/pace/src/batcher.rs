//! When to poll the queue, when the collector is idle, and when a partial batch goes out. The
//! caller passes the time in.

use std::time::{Duration, Instant};

use super::Adaptive;

/// Notifications within this time are one poll: they often come several at a time.
const GATHERING: Duration = Duration::from_millis(20);

/// The longest pause between polls of a busy database, which leaves the processor to the writers.
/// Pauses begin with [`GATHERING`] and double while the database stays busy.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// Empty polls in a row that are tolerated before backing off.
const EMPTY_POLLS: u32 = 3;

/// The first pause after a poll that only deferred tokens, which doubles up to the longest.
const DEFERRED_PAUSE: Duration = Duration::from_millis(250);
const MAX_DEFERRED_PAUSE: Duration = Duration::from_secs(8);

/// Decides on polls and partial batches.
#[derive(Default)]
pub struct Batcher {
    limit: usize,
    timeout: Duration,
    /// Whether writers notify only while the collector is idle.
    is_idle_lock_enabled: bool,
    /// Eligible tokens that the last poll left because they do not fill a batch,
    /// and when the first was noticed.
    waiting: usize,
    noticed_at: Option<Instant>,
    /// Wake-ups since the last poll, and when the first came.
    wakeups: usize,
    woken_at: Option<Instant>,
    last_poll: Option<Instant>,
    /// When to poll because writers do not notify, or because there is something to claim.
    poll_again: Option<Instant>,
    /// When the next token falls due, as the last peek has found.
    next_due: Option<Instant>,
    /// How often in a row the database was found to be busy, a poll claimed nothing,
    /// or it only deferred tokens.
    busy_polls: u32,
    empty_polls: u32,
    deferring_polls: u32,
}

impl Batcher {
    /// Batches of at most `limit` tokens, none of which waits longer than `timeout` for the others.
    pub fn new(limit: usize, timeout: Duration, is_idle_lock_enabled: bool) -> Self {
        Self { limit, timeout, is_idle_lock_enabled, ..Self::default() }
    }

    /// Takes over the limit and timeout for `in_flight` batches in flight.
    pub fn adapt(&mut self, adaptive: &Adaptive, in_flight: usize) {
        (self.limit, self.timeout) = adaptive.limits(in_flight, self.waiting);
    }

    /// Notes `count` wake-ups. The count only decides whether to pause. It is never taken for a
    /// number of tokens, because the server merges notifications.
    pub fn woken(&mut self, count: usize, now: Instant) {
        self.wakeups = self.wakeups.saturating_add(count);
        self.woken_at.get_or_insert(now);
    }

    /// A poll claimed `batches`, left `waiting` tokens and deferred `deferred`.
    pub fn polled(&mut self, waiting: usize, batches: usize, deferred: usize, now: Instant) {
        // Batches are cut from the oldest tokens, so those that are left were noticed after the
        // ones that went.
        if batches > 0 {
            self.noticed_at = None;
        }
        self.note_waiting(waiting, now);
        self.wakeups = 0;
        self.woken_at = None;
        self.last_poll = Some(now);
        self.poll_again = None;
        self.next_due = None;
        self.empty_polls = if batches == 0 { self.empty_polls.saturating_add(1) } else { 0 };
        if batches + waiting > 0 {
            self.deferring_polls = 0;
        } else if deferred > 0 {
            self.deferring_polls = self.deferring_polls.saturating_add(1);
        }
        let is_busy = batches > 1 || self.empty_polls >= EMPTY_POLLS;
        self.busy_polls = if is_busy { self.busy_polls.saturating_add(1) } else { 0 };
        if batches > 1 && self.is_idle_lock_enabled {
            // There will be more, and an idle collector would only make the writers notify.
            self.poll_again = Some(now + self.pause());
        }
    }

    /// Writers do not notify.
    pub fn refused(&mut self, now: Instant) {
        self.busy_polls = self.busy_polls.saturating_add(1);
        self.next_due = None;
        self.poll_again = Some(now + self.pause());
    }

    /// The idle lock was granted: from now on writers notify. `due` tokens are due; another one
    /// will be after `next`.
    pub fn peeked(&mut self, due: usize, next: Option<Duration>, now: Instant) {
        // A token that was just deferred for the first time is due again within `DEFERRED_PAUSE`.
        if due == 0 && next.is_none_or(|next| next > DEFERRED_PAUSE) {
            self.deferring_polls = 0;
        }
        let last = self.last_poll.unwrap_or(now);
        let deferred_until =
            last + doubled(DEFERRED_PAUSE, self.deferring_polls, MAX_DEFERRED_PAUSE);
        self.next_due = next.map(|next| (now + next).max(deferred_until));
        if due >= self.limit || due > 0 && self.timeout.is_zero() {
            self.poll_again = Some(now.max(last + self.pause()).max(deferred_until));
        } else {
            self.note_waiting(due, now);
        }
    }

    /// Whether nothing is to be done before a notification comes or some time has passed.
    pub fn is_idle(&self) -> bool {
        self.woken_at.is_none() && self.poll_again.is_none()
    }

    /// Whether the tokens that wait go out although they do not fill a batch.
    pub fn is_due(&self, now: Instant) -> bool {
        self.timeout.is_zero() || self.partial_due().is_some_and(|due| due <= now)
    }

    /// When to poll next; `None` if only a wake-up or the fallback poll gives a reason.
    pub fn next_poll(&self) -> Option<Instant> {
        [self.partial_due(), self.woken_poll(), self.poll_again, self.next_due]
            .into_iter()
            .flatten()
            .min()
    }

    fn note_waiting(&mut self, waiting: usize, now: Instant) {
        self.noticed_at = (waiting > 0).then(|| self.noticed_at.unwrap_or(now));
        self.waiting = waiting;
    }

    fn partial_due(&self) -> Option<Instant> {
        self.noticed_at.map(|noticed| noticed + self.timeout)
    }

    fn woken_poll(&self) -> Option<Instant> {
        let woken = self.woken_at?;
        let full_batch_expected = self.waiting.saturating_add(self.wakeups) >= self.limit;
        let (gathering, pause) = match (full_batch_expected, self.limit, self.busy_polls) {
            // There is nothing to gather: a token is a batch.
            (true, 1, 0) => (Duration::ZERO, Duration::ZERO),
            (true, ..) => (GATHERING, self.pause()),
            (false, ..) => (GATHERING, BUSY_PAUSE),
        };
        let soon = woken + gathering;
        Some(self.last_poll.map_or(soon, |last| soon.max(last + pause)))
    }

    fn pause(&self) -> Duration {
        doubled(GATHERING, self.busy_polls, BUSY_PAUSE)
    }
}

/// The pause after `times` events in a row: zero after no event, then `first`, doubled with each
/// further event up to `longest`.
fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    // No shift of a small number by so little overflows.
    times
        .checked_sub(1)
        .map_or(Duration::ZERO, |doublings| (first * (1 << doublings.min(8))).min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn what_can_only_be_deferred_is_polled_ever_more_rarely() {
        let start = Instant::now();
        let mut batcher = Batcher::new(10, ms(0), true);
        let (mut now, mut polls) = (start, 0);
        while now < start + Duration::from_secs(60) {
            batcher.polled(0, 0, 3, now);
            batcher.peeked(0, Some(ms(250)), now + ms(1));
            // Peeked again in between.
            batcher.peeked(0, Some(ms(250)), now + ms(2));
            now = batcher.next_poll().unwrap();
            polls += 1;
        }
        assert!(polls < 15, "{polls}");
        // Another collector has claimed it; another token's pause is kept.
        batcher.polled(0, 0, 0, now);
        batcher.peeked(0, Some(ms(600)), now);
        assert_eq!(batcher.next_poll(), Some(now + ms(600)));
        batcher.polled(0, 0, 1, now);
        batcher.peeked(0, Some(ms(250)), now);
        assert_eq!(batcher.next_poll(), Some(now + ms(250)));
    }

    #[test]
    fn polls_of_a_busy_database_are_growing_pauses_apart_until_one_batch_or_less_is_found() {
        type Poll = fn(&mut Batcher, Instant);
        let claimed_by_another = |batcher: &mut Batcher, now| {
            batcher.polled(0, 0, 0, now);
            batcher.peeked(1, None, now);
        };
        let backlog = |batcher: &mut Batcher, now| batcher.polled(0, 7, 0, now);
        let polls: [(Poll, _); 3] = [
            (backlog, [20, 40, 80, 160, 200, 200]),
            (Batcher::refused, [20, 40, 80, 160, 200, 200]),
            (claimed_by_another, [0, 0, 20, 40, 80, 160]),
        ];
        for (poll, pauses) in polls {
            let (mut batcher, mut now) = (Batcher::new(1, TIMEOUT, true), Instant::now());
            for pause in pauses {
                poll(&mut batcher, now);
                assert!(!batcher.is_idle());
                assert_eq!(batcher.next_poll(), Some(now + ms(pause)));
                now += ms(pause);
            }
            batcher.polled(0, 1, 0, now);
            assert!(batcher.is_idle() && batcher.next_poll().is_none());
            batcher.polled(0, 2, 0, now);
            assert_eq!(batcher.next_poll(), Some(now + GATHERING));
        }
        // Where writers always notify, or never.
        let mut batcher = Batcher::new(10, TIMEOUT, false);
        batcher.polled(0, 7, 0, Instant::now());
        assert_eq!(batcher.next_poll(), None);
    }
}
