//! Whether the collector is alive, and whether it collects.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How long the program may do nothing at all until it counts as hung.
const HUNG: Duration = Duration::from_secs(60);

/// What keeps the collector from collecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Trouble {
    Starting,
    Away,
    Locked,
    WrongSchema,
    Draining,
}

impl Trouble {
    const ALL: [Self; 5] =
        [Self::Starting, Self::Away, Self::Locked, Self::WrongSchema, Self::Draining];

    /// Without what the server said, which the log has.
    fn sentence(self) -> &'static str {
        match self {
            Self::Starting => "the queue has not been opened yet",
            Self::Away => "the database is away, read-only or a standby",
            Self::Locked => "another collector has the queue",
            Self::WrongSchema => "the schema, or a right to it, is missing",
            Self::Draining => "the collector is ending",
        }
    }
}

/// What collecting says of itself. To say it never waits.
#[derive(Debug)]
pub(crate) struct Health {
    began: Instant,
    /// The place of a [`Trouble`] in the list, or one more for none.
    trouble: AtomicU8,
    /// Milliseconds since `began`, for leases and for signs of life.
    renewed: AtomicU64,
    turned: AtomicU64,
    has_lost_leases: AtomicBool,
    /// Whether the collector has closed the queue because nothing is due.
    rests: watch::Sender<bool>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            trouble: AtomicU8::new(Trouble::Starting as u8),
            renewed: AtomicU64::new(0),
            turned: AtomicU64::new(0),
            has_lost_leases: AtomicBool::new(false),
            rests: watch::Sender::new(false),
        }
    }
}

impl Health {
    pub(crate) fn is_collecting(&self) {
        // What ends does not begin again.
        let old = Trouble::Draining as u8;
        if self.trouble.load(Ordering::Relaxed) != old {
            self.trouble.store(number_of_troubles(), Ordering::Relaxed);
        }
    }

    pub(crate) fn has(&self, trouble: Trouble) {
        if self.trouble.load(Ordering::Relaxed) != Trouble::Draining as u8 {
            self.trouble.store(trouble as u8, Ordering::Relaxed);
        }
    }

    /// A heartbeat was answered; or the queue needs none.
    pub(crate) fn renewed(&self, has_lost_leases: bool) {
        self.renewed.store(self.now(), Ordering::Relaxed);
        self.has_lost_leases.store(has_lost_leases, Ordering::Relaxed);
    }

    /// The collector begins or ends a rest.
    pub(crate) fn rest(&self, rests: bool) {
        self.rests.send_replace(rests);
    }

    pub(crate) fn is_resting(&self) -> bool {
        *self.rests.borrow()
    }

    /// Waits until the collector rests, or until it does not: whoever else asks the database would
    /// keep it awake.
    pub(crate) async fn until_resting(&self, rests: bool) {
        // It fails without a sender, which is here.
        self.rests.subscribe().wait_for(|known| *known == rests).await.ok();
    }

    /// The program has its turn.
    pub(crate) fn turned(&self) {
        self.turned.store(self.now(), Ordering::Relaxed);
    }

    /// Whether the collector was told to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.trouble.load(Ordering::Relaxed) == Trouble::Draining as u8
    }

    /// Why the program counts as hung, if it does.
    pub(crate) fn hung(&self) -> Option<&'static str> {
        self.since(&self.turned).ge(&HUNG).then_some("the program has done nothing for a minute")
    }

    /// Why the collector is not ready, if it is not. `lease` is how long a claim lasts without a
    /// heartbeat.
    pub(crate) fn trouble(&self, lease: Option<Duration>) -> Option<&'static str> {
        let place = usize::from(self.trouble.load(Ordering::Relaxed));
        if let Some(trouble) = Trouble::ALL.get(place) {
            return Some(trouble.sentence());
        }
        // In a rest there are none.
        let lease = lease.filter(|_| !self.is_resting());
        let has_lapsed = lease.is_some_and(|lease| self.since(&self.renewed) > lease);
        if has_lapsed || self.has_lost_leases.load(Ordering::Relaxed) {
            return Some("leases were lost to another collector");
        }
        self.hung()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn since(&self, time: &AtomicU64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(time.load(Ordering::Relaxed)))
    }
}

fn number_of_troubles() -> u8 {
    u8::try_from(Trouble::ALL.len()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_ready_while_it_has_its_leases_and_until_it_ends() {
        let health = Health::default();
        let day = Some(Duration::from_secs(86_400));
        assert_eq!(health.trouble(day), Some(Trouble::Starting.sentence()));
        health.is_collecting();
        health.renewed(false);
        assert_eq!(health.trouble(day), None);
        health.renewed(true);
        assert!(health.trouble(day).unwrap().contains("leases"));
        health.renewed(false);
        std::thread::sleep(Duration::from_millis(2));
        assert!(health.trouble(Some(Duration::ZERO)).unwrap().contains("leases"));
        assert_eq!(health.trouble(None), None);
        health.rest(true);
        assert_eq!(health.trouble(Some(Duration::ZERO)), None);
        health.rest(false);
        for trouble in Trouble::ALL {
            health.has(trouble);
            assert_eq!(health.trouble(day), Some(trouble.sentence()));
        }
        health.is_collecting();
        assert_eq!(health.trouble(day), Some(Trouble::Draining.sentence()));
    }

    #[test]
    fn a_program_that_does_nothing_for_a_minute_counts_as_hung() {
        let mut health = Health::default();
        assert_eq!(health.hung(), None);
        health.began = health.began.checked_sub(HUNG).unwrap();
        assert!(health.hung().is_some());
        health.turned();
        assert_eq!(health.hung(), None);
    }
}
