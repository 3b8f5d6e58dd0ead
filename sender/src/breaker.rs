//! The circuit breaker of a provider: what it may be given after a failure.
//!
//! Pure policy: the caller passes the times in. A provider that failed gets one mail at a time
//! until it answers one that it was given since; what was on its way at the failure proves nothing.

use std::time::{Duration, Instant};

use crate::provider::Verdict;

/// The first pause of a provider beside which there is another one, doubling up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause that a provider is granted.
const LONGEST_ASKED: Duration = Duration::from_secs(3_600);

/// How a provider does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Working,
    /// It refused a mail for now, and may refuse others.
    Slow,
    /// It gave no answer to a mail, and another provider takes the mails meanwhile.
    Unsure,
    /// It was away, or takes no mails.
    Failing,
}

#[derive(Debug)]
pub(crate) struct Breaker {
    health: Health,
    /// How many failures there were, by which an attempt knows whether it began since.
    failures: u64,
    in_flight: usize,
    paused_until: Option<Instant>,
    /// The pause after the next failure; none where mails have no other way.
    next_pause: Option<Duration>,
}

/// An attempt, by the number of failures before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt(u64);

impl Breaker {
    /// Where another provider takes the mails meanwhile, this one gets pauses of its own, and not
    /// only those that it asks for.
    pub(crate) fn new(has_other: bool) -> Self {
        Self {
            health: Health::Working,
            failures: 0,
            in_flight: 0,
            paused_until: None,
            next_pause: has_other.then_some(FIRST_PAUSE),
        }
    }

    /// Whether another mail may be begun.
    pub(crate) fn has_place(&self) -> bool {
        self.health == Health::Working || self.in_flight == 0
    }

    pub(crate) fn is_failing(&self) -> bool {
        matches!(self.health, Health::Unsure | Health::Failing)
    }

    /// Whether a mail in doubt must wait until another one, or none at all, has shown that the
    /// provider works: it is never what is tried, which would go out again and again.
    pub(crate) fn is_down(&self) -> bool {
        self.health == Health::Failing
    }

    /// How long nothing may be begun.
    pub(crate) fn pause_left(&self, now: Instant) -> Option<Duration> {
        self.paused_until?.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    pub(crate) fn begin(&mut self) -> Attempt {
        self.in_flight += 1;
        Attempt(self.failures)
    }

    /// An attempt waits so long for its answer that it does not count as one that is on its way any
    /// more.
    pub(crate) fn set_aside(&mut self) {
        self.in_flight -= 1;
    }

    /// An attempt that was set aside ends.
    pub(crate) fn take_back(&mut self) {
        self.in_flight += 1;
    }

    pub(crate) fn end(&mut self, attempt: Attempt, verdict: &Verdict, now: Instant) {
        self.in_flight -= 1;
        let asked = match verdict {
            Verdict::Sent(_) | Verdict::Dead(_) | Verdict::Retry { .. } => {
                if attempt.0 == self.failures {
                    let is_refused = matches!(verdict, Verdict::Retry { .. });
                    self.health = if is_refused { Health::Slow } else { Health::Working };
                    self.next_pause = self.next_pause.map(|_| FIRST_PAUSE);
                    self.paused_until = None;
                }
                return;
            }
            // It proves neither that the provider works nor that it fails; but another one may have
            // the mails that come now.
            Verdict::InDoubt { .. } if self.next_pause.is_none() => return,
            Verdict::InDoubt { .. } => Duration::ZERO,
            Verdict::Overloaded { after, .. } | Verdict::Unavailable { after, .. } => {
                after.unwrap_or_default().min(LONGEST_ASKED)
            }
        };
        let mut pause = asked;
        // Mails that were on their way together fail together, which is one failure.
        if attempt.0 == self.failures {
            self.failures += 1;
            pause = pause.max(self.next_pause.unwrap_or_default());
            self.next_pause = self.next_pause.map(|pause| (pause * 2).min(LONGEST_PAUSE));
        }
        let is_doubt = matches!(verdict, Verdict::InDoubt { .. });
        let is_unsure = is_doubt && self.health != Health::Failing;
        self.health = if is_unsure { Health::Unsure } else { Health::Failing };
        self.paused_until = self.paused_until.max(Some(now + pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{About, Receipt};

    fn sent() -> Verdict {
        Verdict::Sent(Receipt::default())
    }

    fn unavailable(after: Option<u64>) -> Verdict {
        Verdict::Unavailable { after: after.map(Duration::from_secs), reason: String::new() }
    }

    fn fail(breaker: &mut Breaker, now: Instant) -> Duration {
        let attempt = breaker.begin();
        breaker.end(attempt, &unavailable(None), now);
        breaker.pause_left(now).unwrap_or_default()
    }

    #[test]
    fn after_a_failure_one_mail_at_a_time_is_tried_until_one_succeeds_that_began_since() {
        let now = Instant::now();
        let mut breaker = Breaker::new(false);
        let (first, second) = (breaker.begin(), breaker.begin());
        assert!(breaker.has_place());
        breaker.end(first, &unavailable(Some(7)), now);
        assert!(breaker.is_failing() && !breaker.has_place());
        assert_eq!(breaker.pause_left(now), Some(Duration::from_secs(7)));
        breaker.end(second, &sent(), now);
        assert!(breaker.is_failing() && breaker.has_place() && breaker.pause_left(now).is_some());
        assert_eq!(breaker.pause_left(now + Duration::from_secs(7)), None);
        let trial = breaker.begin();
        assert!(!breaker.has_place());
        breaker.end(trial, &sent(), now + Duration::from_secs(7));
        assert!(!breaker.is_failing() && breaker.has_place());
    }

    #[test]
    fn a_refusal_slows_down_and_is_no_failure() {
        let now = Instant::now();
        let mut breaker = Breaker::new(true);
        let attempt = breaker.begin();
        breaker.end(attempt, &Verdict::Retry { after: None, reason: String::new() }, now);
        assert!(!breaker.is_failing() && breaker.pause_left(now).is_none());
        let attempt = breaker.begin();
        assert!(!breaker.has_place());
        breaker.end(attempt, &Verdict::dead("", About::Unplaced), now);
        breaker.begin();
        assert!(breaker.has_place());
    }

    #[test]
    fn pauses_grow_only_where_mails_have_another_way() {
        let now = Instant::now();
        let mut breaker = Breaker::new(false);
        assert_eq!([(); 3].map(|()| fail(&mut breaker, now).as_secs()), [0, 0, 0]);
        let mut breaker = Breaker::new(true);
        let pauses = [(); 8].map(|()| fail(&mut breaker, now).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        let trial = breaker.begin();
        breaker.end(trial, &sent(), now);
        assert_eq!(fail(&mut breaker, now).as_secs(), 1);
    }

    #[test]
    fn an_attempt_in_doubt_is_no_failure_where_mails_have_no_other_way() {
        let now = Instant::now();
        let in_doubt = || Verdict::InDoubt { reason: String::new() };
        for has_other in [false, true] {
            let mut breaker = Breaker::new(has_other);
            let attempt = breaker.begin();
            breaker.end(attempt, &in_doubt(), now);
            assert_eq!((breaker.is_failing(), breaker.is_down()), (has_other, false));
            assert_eq!(breaker.pause_left(now).is_some(), has_other);
        }
        // Nor does it end one.
        let mut breaker = Breaker::new(false);
        fail(&mut breaker, now);
        let attempt = breaker.begin();
        breaker.end(attempt, &in_doubt(), now);
        assert!(breaker.is_down() && breaker.has_place());
    }

    #[test]
    fn what_waits_for_long_keeps_no_other_mail_from_being_tried() {
        let now = Instant::now();
        let mut breaker = Breaker::new(false);
        let slow = breaker.begin();
        fail(&mut breaker, now);
        assert!(!breaker.has_place());
        breaker.set_aside();
        assert!(breaker.has_place());
        let trial = breaker.begin();
        breaker.end(trial, &sent(), now);
        breaker.take_back();
        breaker.end(slow, &sent(), now);
        assert!(breaker.has_place() && !breaker.is_failing() && breaker.in_flight == 0);
    }

    #[test]
    fn no_provider_asks_for_more_than_an_hour() {
        let now = Instant::now();
        let mut breaker = Breaker::new(false);
        let attempt = breaker.begin();
        breaker.end(attempt, &unavailable(Some(u64::MAX)), now);
        assert_eq!(breaker.pause_left(now), Some(LONGEST_ASKED));
    }
}
