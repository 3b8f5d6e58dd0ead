//! Limits: how many mails go out in a time.
//!
//! Pure policy: the caller passes the times in. Mails are spaced evenly, so that no stretch of time
//! has more of them than the rate allows, and one more.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mailroom_pace::{MAX_RATE, parse_rate};
use serde::{Deserialize, Deserializer, de};

/// How long a mail may wait for its turn until it is given back: the collector takes a sender for
/// hung that gives no verdict for `MAILROOM_SENDER_TIMEOUT`.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(10);

/// A rate as it is written: `14/s`, `23/min`, `500/h`, `10000/d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// The time from a mail to the next one.
    interval: Duration,
}

impl Rate {
    fn parse(text: &str) -> Option<Self> {
        let (number, period) = parse_rate(text)?;
        // Rounded up: never more than the rate.
        Some(Self { interval: period / number + Duration::from_nanos(1) })
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(format!(
                "a rate must be like 14/s, with a number from 1 to {MAX_RATE} and one of s, min, \
                 h, d"
            ))
        })
    }
}

/// When the next mail may go out.
#[derive(Debug)]
pub(crate) struct Pace {
    interval: Duration,
    next: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { interval: rate.interval, next: None }
    }

    /// How long the next mail has to wait, behind `others`.
    pub(crate) fn wait(&self, others: usize, now: Instant) -> Duration {
        let wait = self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now));
        wait.saturating_add(self.interval.saturating_mul(u32::try_from(others).unwrap_or(u32::MAX)))
    }

    /// Whether mails behind one that waits get their turns so rarely that the collector would take
    /// the sender for hung.
    pub(crate) fn is_rare(&self) -> bool {
        self.interval > MAX_WAIT / 2
    }

    /// A mail goes out.
    pub(crate) fn take(&mut self, now: Instant) {
        self.next = Some(self.next.map_or(now, |next| next.max(now)) + self.interval);
    }
}

/// The limits by the domain of the recipient, for all providers of this process together.
#[derive(Debug, Default)]
pub(crate) struct Domains(Mutex<BTreeMap<String, Pace>>);

impl Domains {
    /// Limits by domains in ASCII and lower case.
    pub(crate) fn new(rates: BTreeMap<String, Rate>) -> Self {
        Self(Mutex::new(
            rates.into_iter().map(|(domain, rate)| (domain, Pace::new(rate))).collect(),
        ))
    }

    /// The domain of an address, if it has a limit.
    pub(crate) fn limited(&self, address: &str) -> Option<String> {
        let domain = address.rsplit_once('@')?.1.to_ascii_lowercase();
        self.lock().contains_key(&domain).then_some(domain)
    }

    /// How long the next mail to a domain has to wait, behind `others`.
    pub(crate) fn wait(&self, domain: &str, others: usize, now: Instant) -> Duration {
        self.lock().get(domain).map_or(Duration::ZERO, |pace| pace.wait(others, now))
    }

    /// Takes a turn of a domain.
    ///
    /// # Errors
    /// How long to wait for one.
    pub(crate) fn take(&self, domain: &str, now: Instant) -> Result<(), Duration> {
        let mut paces = self.lock();
        let Some(pace) = paces.get_mut(domain) else { return Ok(()) };
        let wait = pace.wait(0, now);
        if !wait.is_zero() {
            return Err(wait);
        }
        pace.take(now);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Pace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_number_and_a_unit() {
        for (text, milliseconds) in [
            ("14/s", 71),
            ("1/s", 1_000),
            ("23/min", 2_608),
            ("1/h", 3_600_000),
            ("1/d", 86_400_000),
            ("100000/s", 0),
        ] {
            assert_eq!(Rate::parse(text).unwrap().interval.as_millis(), milliseconds, "{text}");
        }
        for text in [
            "", "14", "/s", "0/s", "-1/s", "+1/s", "1.5/s", "14/", "14/m", "14 /s", "14/s ",
            "100001/s", "9e9/s",
        ] {
            assert_eq!(Rate::parse(text), None, "{text}");
        }
    }

    #[test]
    fn no_stretch_of_time_has_more_than_the_rate_and_one() {
        let start = Instant::now();
        let mut pace = Pace::new(Rate::parse("14/s").unwrap());
        let mut sent = Vec::new();
        // A caller that comes every ten milliseconds, with a break.
        for step in (0..1_000_u64).filter(|step| !(300..500).contains(step)) {
            let now = start + Duration::from_millis(10 * step);
            if pace.wait(0, now).is_zero() {
                pace.take(now);
                sent.push(now);
            }
        }
        for first in &sent {
            let within = |at: &&Instant| {
                **at >= *first && at.duration_since(*first) < Duration::from_secs(1)
            };
            assert!(sent.iter().filter(within).count() <= 14);
        }
        // Ten milliseconds of seventy-one are lost where nobody comes at the right moment.
        assert!(sent.len() > 8 * 14 * 8 / 10, "{}", sent.len());
        assert_eq!(pace.wait(0, start + Duration::from_secs(3_600)), Duration::ZERO);
    }

    #[test]
    fn mails_to_a_domain_wait_for_each_other_and_for_no_others() {
        let now = Instant::now();
        let domains =
            Domains::new(BTreeMap::from([("x.test".to_owned(), Rate::parse("2/s").unwrap())]));
        assert_eq!(domains.limited("a@b@X.Test").as_deref(), Some("x.test"));
        for other in ["a@sub.x.test", "a@y.test", "x.test", ""] {
            assert_eq!(domains.limited(other), None);
        }
        assert_eq!(domains.take("x.test", now), Ok(()));
        assert!(domains.take("x.test", now).is_err() && domains.take("y.test", now).is_ok());
        assert_eq!(domains.wait("x.test", 3, now).as_millis(), 2_000);
        assert_eq!(domains.take("x.test", now + Duration::from_millis(501)), Ok(()));
    }
}
