//! How many mails a bearer token may have sent in a time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mailroom_pace::{MAX_RATE, parse_rate};
use serde::{Deserialize, Deserializer, de};

/// As it is written: `10/s`, `60/min`, or `off`. So many may come at once, and so many in the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    Off,
    Of { most: u32, period: Duration },
}

impl Rate {
    fn parse(text: &str) -> Option<Self> {
        if text == "off" {
            return Some(Self::Off);
        }
        parse_rate(text).map(|(most, period)| Self::Of { most, period })
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).ok_or_else(|| {
            de::Error::custom(format!(
                "a rate must be \"off\" or like \"60/min\", with a number from 1 to {MAX_RATE} and \
                 one of s, min, h, d"
            ))
        })
    }
}

/// What is left of a rate: the generic cell rate algorithm.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    /// When it will be full again.
    full_at: Mutex<Option<Instant>>,
}

impl Bucket {
    /// Takes one.
    ///
    /// # Errors
    /// None is left, until this time has passed.
    pub(crate) fn take(&self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let Rate::Of { most, period } = rate else { return Ok(()) };
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let next = full_at.unwrap_or(now).max(now) + period / most;
        match next.checked_duration_since(now + period) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *full_at = Some(next);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers_in_a_time() {
        let of = |most, seconds| Rate::Of { most, period: Duration::from_secs(seconds) };
        for (text, expected) in [
            ("10/s", Some(of(10, 1))),
            ("60/min", Some(of(60, 60))),
            ("1/d", Some(of(1, 86_400))),
            ("off", Some(Rate::Off)),
            ("0/s", None),
            ("+1/s", None),
            ("/s", None),
            ("100001/s", None),
            ("1/m", None),
            ("1", None),
            ("", None),
        ] {
            assert_eq!(Rate::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn a_bucket_gives_its_rate_at_once_and_then_as_time_goes_by() {
        let rate = Rate::parse("3/min").unwrap();
        let (bucket, start) = (Bucket::default(), Instant::now());
        let at = |seconds| bucket.take(rate, start + Duration::from_secs(seconds));
        for _ in 0..3 {
            assert_eq!(at(0), Ok(()));
        }
        assert_eq!(at(0), Err(Duration::from_secs(20)));
        assert_eq!(at(5), Err(Duration::from_secs(15)));
        assert_eq!(at(20), Ok(()));
        assert!(at(20).is_err());
        for _ in 0..3 {
            assert_eq!(at(1_000), Ok(()));
        }
        assert!(at(1_000).is_err());
    }
}
