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
    /// The time that such mails have had since the last look, by what they are for; and how long
    /// the longest took.
    ended: HashMap<String, (Duration, Duration)>,
    /// The same of those that still have places: how long each has taken.
    held: Vec<(String, Duration)>,
    looked_at: Option<Instant>,
}

impl Share {
    /// A mail of an action that took unusually long has ended, or has its place no more.
    pub(super) fn end(&mut self, action: &str, took: Duration) {
        let (sum, longest) = self.ended.entry(action.to_owned()).or_default();
        *sum += took;
        *longest = took.max(*longest);
    }

    /// One that has taken unusually long still has its place.
    pub(super) fn hold(&mut self, action: &str, taken: Duration) {
        self.held.push((action.to_owned(), taken));
    }

    /// For what the mails are that have had half of the time of all places since the last look, if
    /// there are such; and how long the longest took.
    pub(super) fn look(&mut self, places: usize, now: Instant) -> Option<(String, Duration)> {
        let since = self.looked_at.replace(now);
        let passed = since.map_or(FIRST, |since| now.saturating_duration_since(since));
        let mut actions = std::mem::take(&mut self.ended);
        for (action, taken) in self.held.drain(..) {
            let (sum, longest) = actions.entry(action).or_default();
            *sum += taken.min(passed);
            *longest = taken.max(*longest);
        }
        let half = passed * u32::try_from(places).unwrap_or(u32::MAX) / 2;
        let most = actions.into_iter().max_by_key(|(_, (sum, _))| *sum)?;
        let (action, (sum, longest)) = most;
        (sum >= half).then_some((action, longest))
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
                share.end("activate", BEAT);
            }
            share.end("recover", BEAT / 2);
            let expected = Some(("activate".to_owned(), BEAT));
            assert_eq!(share.look(4, start + BEAT * number), expected, "{number}");
        }
        // What was counted once does not count again.
        assert_eq!(share.look(4, start + BEAT * 10), None);
        for (held, expected) in [(1, None), (2, Some(("activate".to_owned(), 5 * BEAT)))] {
            (0..held).for_each(|_| share.hold("activate", 5 * BEAT));
            assert_eq!(share.look(4, start + BEAT * (10 + held)), expected);
        }
    }
}
