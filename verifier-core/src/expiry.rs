//! When a link ends, and the moment at which that is judged.

use core::fmt;

/// The largest clock tolerance, in seconds. A larger one counts as this one.
pub const MAX_CLOCK_TOLERANCE: u64 = 999;

/// By how many seconds the clocks of those who share a store of used tokens may differ.
pub(crate) const CLOCK_MARGIN: u64 = 300;

/// The time at which a link ends, in seconds since the Unix epoch,
/// at most the end of the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry(u64);

impl Expiry {
    /// The last second of the year 9999 (UTC). A later one is a mistake,
    /// such as milliseconds for seconds.
    pub const MAX: Self = Self(253_402_300_799);

    /// The expiry at `seconds` since the Unix epoch.
    ///
    /// # Errors
    /// A time after the year 9999.
    pub const fn from_seconds(seconds: u64) -> Result<Self, InvalidExpiry> {
        if seconds <= Self::MAX.0 { Ok(Self(seconds)) } else { Err(InvalidExpiry) }
    }

    /// Seconds since the Unix epoch.
    pub const fn seconds(self) -> u64 {
        self.0
    }
}

/// A time after the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidExpiry;

impl fmt::Display for InvalidExpiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an expiry is in seconds since the Unix epoch and not after the year 9999")
    }
}

impl core::error::Error for InvalidExpiry {}

/// The moment at which a token is judged; the crate itself reads no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The verifier's clock, in seconds since the Unix epoch.
    pub now: u64,
    /// By how many seconds the verifier's clock may be ahead of the database's: at most
    /// [`MAX_CLOCK_TOLERANCE`].
    tolerance: u64,
}

impl Moment {
    /// `now`, in seconds since the Unix epoch, without tolerance.
    pub const fn at(now: u64) -> Self {
        Self { now, tolerance: 0 }
    }

    /// The same moment for a clock that may be `seconds` ahead, of which [`MAX_CLOCK_TOLERANCE`]
    /// count at most.
    #[must_use]
    pub const fn tolerating(self, seconds: u64) -> Self {
        let tolerance = if seconds < MAX_CLOCK_TOLERANCE { seconds } else { MAX_CLOCK_TOLERANCE };
        Self { tolerance, ..self }
    }

    /// By how many seconds the clock may be ahead.
    pub const fn tolerance(self) -> u64 {
        self.tolerance
    }

    /// Whether a link that ends at `expiry` is still valid: while `now < expiry + tolerance`.
    pub const fn is_before(self, expiry: Expiry) -> bool {
        self.now < expiry.0 + self.tolerance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_valid_until_the_second_before_its_expiry() {
        let expiry = Expiry::from_seconds(1000).unwrap();
        assert!(Moment::at(999).is_before(expiry));
        assert!(!Moment::at(1000).is_before(expiry));
        assert!(Moment::at(1009).tolerating(10).is_before(expiry));
        assert!(!Moment::at(1010).tolerating(10).is_before(expiry));
    }

    #[test]
    fn the_year_ten_thousand_is_refused() {
        assert_eq!(Expiry::from_seconds(253_402_300_799), Ok(Expiry::MAX));
        assert_eq!(Expiry::from_seconds(253_402_300_800), Err(InvalidExpiry));
        assert_eq!(Expiry::from_seconds(u64::MAX), Err(InvalidExpiry));
    }

    #[test]
    fn a_tolerance_above_the_largest_counts_as_the_largest() {
        let expiry = Expiry::from_seconds(1000).unwrap();
        for tolerance in [999, 1000, u64::MAX] {
            assert!(Moment::at(1998).tolerating(tolerance).is_before(expiry));
            assert!(!Moment::at(1999).tolerating(tolerance).is_before(expiry));
        }
    }
}
