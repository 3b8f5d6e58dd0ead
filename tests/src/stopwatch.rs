//! How long something takes while the machine runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(10);

/// A tick that comes later than this comes from a machine that stood still.
const LATEST_TICK: Duration = Duration::from_millis(100);

/// Measures what must not take longer than a bound. Machines that others use, too, stand still for
/// seconds now and then. Whoever is measured does nothing in such a time, so that it counts for
/// next to nothing here.
#[derive(Debug)]
pub struct Stopwatch {
    microseconds: Arc<AtomicU64>,
}

impl Stopwatch {
    /// Begins to measure.
    pub fn start() -> Self {
        let microseconds = Arc::new(AtomicU64::new(0));
        let counting = Arc::downgrade(&microseconds);
        thread::spawn(move || {
            let mut last = Instant::now();
            while let Some(microseconds) = counting.upgrade() {
                let now = Instant::now();
                microseconds.fetch_add(counted(now - last), Ordering::Relaxed);
                last = now;
                drop(microseconds);
                thread::sleep(TICK);
            }
        });
        Self { microseconds }
    }

    /// How long it has run, at most a tick less.
    pub fn elapsed(&self) -> Duration {
        Duration::from_micros(self.microseconds.load(Ordering::Relaxed))
    }
}

/// Microseconds.
fn counted(tick: Duration) -> u64 {
    u64::try_from(tick.min(LATEST_TICK).as_micros()).expect("a tenth of a second")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_counted_and_what_stands_still_is_not() {
        assert_eq!(counted(Duration::from_millis(10)), 10_000);
        assert_eq!(counted(Duration::from_millis(60)), 60_000);
        assert_eq!(counted(Duration::from_secs(60)), 100_000);
    }

    #[test]
    fn a_stopwatch_goes_on_until_it_is_read_for_the_last_time() {
        let clock = Instant::now();
        let stopwatch = Stopwatch::start();
        while stopwatch.elapsed() < Duration::from_millis(200) {
            thread::sleep(TICK);
        }
        let (first, second) = (stopwatch.elapsed(), clock.elapsed());
        assert!(first <= second, "{first:?} of {second:?}");
    }
}
