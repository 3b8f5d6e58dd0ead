//! What is done with a mail that may have been accepted: nobody answered an attempt, or it was
//! ended by a kill.
//!
//! Pure policy: the caller passes the times in. Each doubt is a copy that may be with the
//! recipient. So they are counted, across restarts by the journal and across collectors by the
//! database, and there are at most three, a minute and five minutes apart.

use std::time::Duration;

use crate::knows::Knows;

/// How many doubts end the attempts to send a mail.
const MAX_DOUBTS: u32 = 3;

/// The pauses after the first doubt and after the second one.
const PAUSES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(300)];

/// For so long after the last doubt a mail that comes again is the same one; later somebody has put
/// the dead letter back.
const PUT_BACK: Duration = Duration::from_secs(3_600);

/// What the journal knows of the doubts of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// How many attempts began whose outcome is unknown.
    pub(crate) count: u32,
    /// When the last one began, in seconds since 1970.
    pub(crate) since: i64,
}

/// What is to be done with a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It may be sent.
    Send,
    /// It is not sent now, and this is answered.
    Answer(Outcome),
}

/// What is answered of a mail in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// That it is in doubt: the collector decides when it comes again.
    InDoubt,
    /// That it is to come again after this time.
    Retry(Option<Duration>),
    /// That it is not sent any more.
    Dead,
}

impl Doubt {
    /// The doubt of an attempt that begins now, where the database counts `known` of them. Under a
    /// key that the provider still knows all attempts make one mail.
    pub(crate) fn next(self, known: u32, now: i64, is_replayed: bool) -> Self {
        if is_replayed {
            return Self { count: self.count.max(1), since: now };
        }
        Self { count: self.count.max(known).saturating_add(1), since: now }
    }

    /// What is to be done with a mail that comes, of which the database counts `known` doubts. What
    /// a kill has left in doubt is counted there before it is sent again.
    pub(crate) fn step(self, known: u32, collector: Knows, now: i64) -> Step {
        if collector.in_doubt {
            return if self.count > known { Step::Answer(Outcome::InDoubt) } else { Step::Send };
        }
        let age = u64::try_from(now.saturating_sub(self.since)).unwrap_or_default();
        let left = match self.count {
            0 => return Step::Send,
            count if count >= MAX_DOUBTS => {
                let is_put_back = age >= PUT_BACK.as_secs();
                return if is_put_back { Step::Send } else { Step::Answer(Outcome::Dead) };
            }
            count => pause(count).saturating_sub(Duration::from_secs(age)),
        };
        if left.is_zero() { Step::Send } else { Step::Answer(Outcome::Retry(Some(left))) }
    }

    /// What is answered of an attempt that ended like this.
    pub(crate) fn outcome(self, knows: Knows) -> Outcome {
        if knows.in_doubt {
            Outcome::InDoubt
        } else if self.count >= MAX_DOUBTS {
            Outcome::Dead
        } else {
            Outcome::Retry(Some(pause(self.count)))
        }
    }
}

fn pause(count: u32) -> Duration {
    PAUSES[usize::from(count > 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;
    const OLD: Knows = Knows {
        in_doubt: false,
        working: false,
        exact: false,
        receipts: false,
        unknown_address: false,
        untried: false,
        slow: false,
        handed_over: false,
    };
    const NEW: Knows = Knows { in_doubt: true, ..OLD };

    fn wait(seconds: u64) -> Step {
        Step::Answer(Outcome::Retry(Some(Duration::from_secs(seconds))))
    }

    #[test]
    fn what_the_database_has_not_counted_is_answered_and_not_sent() {
        for (count, known, expected) in [
            (0, 0, Step::Send),
            (1, 0, Step::Answer(Outcome::InDoubt)),
            (1, 1, Step::Send),
            (2, 1, Step::Answer(Outcome::InDoubt)),
            // Another collector's sender has tried it, and a dead letter was put back.
            (0, 2, Step::Send),
            (3, 3, Step::Send),
        ] {
            let doubt = Doubt { count, since: NOW };
            assert_eq!(doubt.step(known, NEW, NOW), expected, "{count} {known}");
        }
    }

    #[test]
    fn an_attempt_counts_on_from_whoever_has_counted_more() {
        for (count, known, expected) in [(0, 0, 1), (1, 1, 2), (0, 2, 3), (2, 0, 3)] {
            let doubt = Doubt { count, since: 5 };
            assert_eq!(doubt.next(known, NOW, false), Doubt { count: expected, since: NOW });
        }
        let once = Doubt::default().next(0, NOW, true);
        assert_eq!((once.count, once.next(0, NOW, true).count), (1, 1));
    }

    #[test]
    fn for_an_older_collector_there_are_three_attempts_a_minute_and_five_minutes_apart() {
        let mut doubt = Doubt::default();
        let mut now = NOW;
        for (pause, is_last) in [(60, false), (300, false), (0, true)] {
            assert_eq!(doubt.step(0, OLD, now), Step::Send);
            doubt = doubt.next(0, now, false);
            if is_last {
                assert_eq!(doubt.outcome(OLD), Outcome::Dead);
                break;
            }
            assert_eq!(doubt.outcome(OLD), Outcome::Retry(Some(Duration::from_secs(pause))));
            // Whoever brings it sooner, as after a kill, brings it too soon.
            assert_eq!(doubt.step(0, OLD, now + 1), wait(pause - 1));
            now += i64::try_from(pause).unwrap();
        }
        assert_eq!(doubt.step(0, OLD, now + 60), Step::Answer(Outcome::Dead));
        // Somebody has put it back.
        now += 3_600;
        assert_eq!(doubt.step(0, OLD, now), Step::Send);
        assert_eq!(doubt.next(0, now, false).outcome(OLD), Outcome::Dead);
    }

    #[test]
    fn a_clock_that_was_set_back_lets_a_mail_wait_and_no_longer_than_its_pause() {
        let doubt = Doubt { count: 1, since: NOW };
        assert_eq!(doubt.step(0, OLD, NOW - 1_000_000), wait(60));
    }
}
