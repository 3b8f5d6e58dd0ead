//! Pauses between attempts: doubling up to a bound, with jitter.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);

/// The longest pause between two attempts to connect.
pub const MAX_CONNECT_PAUSE: Duration = Duration::from_secs(5);

/// Pauses after failures in a row.
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// The first pause is 0.2 s.
    pub fn up_to(longest: Duration) -> Self {
        Self { next: FIRST, longest }
    }

    /// The pause after another failure: [`jittered`] 0.2 s, 0.4 s, and so on up to the longest.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        jittered(pause)
    }

    /// The next pause is the first one again.
    pub fn reset(&mut self) {
        *self = Self::up_to(self.longest);
    }
}

/// Between half and all of `longest`, so that many collectors do not come back to the server
/// at the same moment.
pub fn jittered(longest: Duration) -> Duration {
    longest / 2 + random_part(longest / 2)
}

/// Anything from nothing to `span`.
pub fn random_part(span: Duration) -> Duration {
    // Without randomness there is no jitter, which is no reason to fail.
    let random = getrandom::u32().unwrap_or(u32::MAX);
    span.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_jittered() {
        let mut backoff = Backoff::up_to(MAX_CONNECT_PAUSE);
        for longest in [200, 400, 800, 1_600, 3_200, 5_000, 5_000].map(Duration::from_millis) {
            let pause = backoff.pause();
            assert!((longest / 2..=longest).contains(&pause), "{pause:?} of {longest:?}");
        }
        backoff.reset();
        assert!(backoff.pause() <= FIRST);
        let pauses: Vec<_> = (0..8).map(|_| Backoff::up_to(MAX_CONNECT_PAUSE).pause()).collect();
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
    }
}
