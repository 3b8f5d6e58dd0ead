//! How many tokens all collectors of a queue claim in a time.

use std::fmt;

use super::setting::{must_be, with_unit};

const DAY: u64 = 86_400;

/// How many of each unit a day has, so that a rate is a whole number a day.
const UNITS: [(&str, u64); 4] = [("/s", DAY), ("/min", 1_440), ("/h", 24), ("/d", 1)];

/// A rate as it is written: `14/s`, `23/min`, `500/h`, `10000/d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_day: u64,
}

/// `None` for no limit.
pub(crate) type RateLimit = Option<Rate>;

impl Rate {
    /// At least one a day, at most 100,000 a second.
    pub fn parse(text: &str) -> Option<Self> {
        with_unit(text, &UNITS, &(1..=100_000 * DAY)).map(|per_day| Self { per_day })
    }

    /// Tokens a day.
    pub(crate) fn per_day(self) -> i64 {
        i64::try_from(self.per_day).unwrap_or(i64::MAX)
    }

    /// The most tokens at once: those of a second, and one more. `mailroom.reserve` knows it too.
    pub(crate) fn burst(self) -> usize {
        usize::try_from(self.per_day / DAY + 1).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS.iter().find(|(_, factor)| self.per_day.is_multiple_of(*factor));
        let (unit, factor) = whole.unwrap_or(&UNITS[3]);
        write!(formatter, "{}{unit}", self.per_day / factor)
    }
}

pub(super) fn rate_or_off(text: &str) -> Result<RateLimit, String> {
    let rate = if text == "off" { Some(None) } else { Rate::parse(text).map(Some) };
    rate.ok_or_else(|| {
        must_be(text, "`off` or a whole number with the unit /s, /min, /h or /d, from 1/d to 100000/s")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_whole_number_a_day_and_shown_in_the_shortest_unit_that_fits() {
        for (text, per_day, burst, shown) in [
            ("14/s", 1_209_600, 15, "14/s"),
            ("23/min", 33_120, 1, "23/min"),
            ("120/min", 172_800, 3, "2/s"),
            ("007/h", 168, 1, "7/h"),
            ("1/d", 1, 1, "1/d"),
            ("8640000000/d", 8_640_000_000, 100_001, "100000/s"),
        ] {
            let rate = Rate::parse(text).unwrap();
            assert_eq!((rate.per_day(), rate.burst(), rate.to_string().as_str()), (per_day, burst, shown));
        }
        for text in [
            "",
            "14",
            "/s",
            "0/s",
            "0/d",
            "-1/s",
            "+1/s",
            "1.5/s",
            "14/",
            "14/m",
            "14 /s",
            "14/ s",
            "14/s ",
            "14/S",
            "１/s",
            "1/s/s",
            "1e3/s",
            "100001/s",
            "8640000001/d",
            "99999999999999999999/d",
            "18446744073709551615/s",
            "Off",
            "0x1/s",
            "1/s\0",
            "½/s",
        ] {
            assert_eq!(Rate::parse(text), None, "{text}");
            assert!(rate_or_off(text).is_err(), "{text}");
        }
        assert_eq!(rate_or_off("off"), Ok(None));
    }
}
