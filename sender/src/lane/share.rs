//! Which part of the time of all places mails have that take unusually long.
//!
//! Pure policy: the caller passes the times in. What is on its way at a look says too little: mails
//! that take a fifth of a second each are young whenever it is looked, and have the places
//! nevertheless.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What lies between two looks if there was none before.
const FIRST: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Share {
    /// What has not been counted yet of the time of such mails, by what they are for; and how long
    /// the longest took.
    uncounted: HashMap<String, (Duration, Duration)>,
    looked_at: Option<Instant>,
}

impl Share {
    /// A mail of an action that took unusually long has ended, or has its place no more. So much of
    /// its time was counted while it had it.
    pub(super) fn end(&mut self, action: &str, took: Duration, counted: Duration) {
        self.add(action, took.saturating_sub(counted), took);
    }

    /// One that has taken unusually long still has its place.
    pub(super) fn hold(
        &mut self,
        action: &str,
        taken: Duration,
        counted: &mut Duration,
        now: Instant,
    ) {
        let new = taken.saturating_sub(*counted).min(self.passed(now));
        self.add(action, new, taken);
        *counted = taken;
    }

    /// For what the mails are that have had half of the time of all places since the last look, if
    /// there are such; and how long the longest took.
    pub(super) fn look(&mut self, places: usize, now: Instant) -> Option<(String, Duration)> {
        let half = self.passed(now) * u32::try_from(places).unwrap_or(u32::MAX) / 2;
        self.looked_at = Some(now);
        let actions = std::mem::take(&mut self.uncounted);
        let most = actions.into_iter().max_by_key(|(_, (sum, _))| *sum)?;
        let (action, (sum, longest)) = most;
        (sum >= half).then_some((action, longest))
    }

    fn add(&mut self, action: &str, time: Duration, taken: Duration) {
        let (sum, longest) = self.uncounted.entry(action.to_owned()).or_default();
        *sum += time;
        *longest = taken.max(*longest);
    }

    /// The time since the last look.
    fn passed(&self, now: Instant) -> Duration {
        self.looked_at.map_or(FIRST, |since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_millis(200);

    #[test]
    fn short_mails_one_after_another_have_the_places_as_long_ones_do() {
        let start = Instant::now();
        let mut share = Share::default();
        assert_eq!(share.look(4, start), None);
        for number in 1..10 {
            for _ in 0..3 {
                share.end("activate", BEAT, Duration::ZERO);
            }
            share.end("recover", BEAT / 2, Duration::ZERO);
            let expected = Some(("activate".to_owned(), BEAT));
            assert_eq!(share.look(4, start + BEAT * number), expected, "{number}");
        }
        // What was counted once does not count again.
        assert_eq!(share.look(4, start + BEAT * 10), None);
        for (held, expected) in [(1, None), (2, Some(("activate".to_owned(), 5 * BEAT)))] {
            let now = start + BEAT * (10 + held);
            for _ in 0..held {
                let mut counted = Duration::ZERO;
                share.hold("activate", 5 * BEAT, &mut counted, now);
            }
            assert_eq!(share.look(4, now), expected);
        }
    }

    /// Mails of one and a half beats follow one another in one place.
    #[test]
    fn what_a_mail_had_before_a_look_does_not_count_again_when_it_ends() {
        for (places, is_half) in [(4, false), (2, true)] {
            let start = Instant::now();
            let mut share = Share::default();
            share.look(places, start);
            let mut counted = Duration::ZERO;
            for number in 1..10 {
                let now = start + BEAT * number;
                if number % 3 != 1 {
                    // It has ended, now or half a beat ago.
                    share.end("activate", 3 * BEAT / 2, std::mem::take(&mut counted));
                }
                let taken = match number % 3 {
                    1 => BEAT,
                    2 => BEAT / 2,
                    _ => Duration::ZERO,
                };
                if !taken.is_zero() {
                    share.hold("activate", taken, &mut counted, now);
                }
                assert_eq!(share.look(places, now).is_some(), is_half, "{places}, {number}");
            }
        }
    }
}
