//! How many tokens all collectors of a queue claim in a time.

use std::fmt;

use super::setting::{must_be, with_unit};

const DAY: u64 = 86_400;

/// How many of each unit a day has.
const UNITS: [(&str, u64); 4] = [("/s", DAY), ("/min", 1_440), ("/h", 24), ("/d", 1)];

/// The unit of a budget, which a calendar month has and no time within it.
const MONTH: [(&str, u64); 1] = [("/month", 1)];

/// The largest budget, in tokens a month.
const MAX_BUDGET: u64 = 100_000_000_000;

/// A rate, a budget or both: `14/s`, `23/min`, `500/h`, `10000/d`, `3000/month`, `14/s,3000/month`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens a day, evenly spaced.
    pub(crate) per_day: Option<u64>,
    /// Tokens a calendar month, at any time of it.
    pub(crate) per_month: Option<u64>,
}

/// `None` for no limit.
pub(crate) type RateLimit = Option<Rate>;

impl Rate {
    /// A rate from one a day to 100,000 a second, and a budget from one a month.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rate = Self { per_day: None, per_month: None };
        for part in text.split(',') {
            let budget = with_unit(part, &MONTH, &(1..=MAX_BUDGET));
            let (place, value) = if budget.is_some() {
                (&mut rate.per_month, budget)
            } else {
                (&mut rate.per_day, with_unit(part, &UNITS, &(1..=100_000 * DAY)))
            };
            if place.replace(value?).is_some() {
                return None;
            }
        }
        Some(rate)
    }

    /// The rate in tokens a second.
    #[expect(clippy::cast_precision_loss, reason = "a rate is far below 2^53")]
    pub(crate) fn per_second(self) -> Option<f64> {
        Some(self.per_day? as f64 / DAY as f64)
    }

    /// The most tokens at once: as many as a second allows, and one more. `mailroom.spend`
    /// computes the same. A budget may be used at once.
    pub fn burst(self) -> usize {
        let most = |per_day| usize::try_from(per_day / DAY + 1).unwrap_or(usize::MAX);
        self.per_day.map_or(usize::MAX, most)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(per_day) = self.per_day {
            let (unit, factor) = UNITS
                .iter()
                .find(|(_, factor)| per_day.is_multiple_of(*factor))
                .unwrap_or(&("/d", 1));
            write!(formatter, "{}{unit}", per_day / factor)?;
        }
        if let Some(per_month) = self.per_month {
            let comma = if self.per_day.is_some() { "," } else { "" };
            write!(formatter, "{comma}{per_month}/month")?;
        }
        Ok(())
    }
}

pub(super) fn rate_or_off(text: &str) -> Result<RateLimit, String> {
    let rate = if text == "off" { Some(None) } else { Rate::parse(text).map(Some) };
    let allowed = "`off`, a whole number with the unit /s, /min, /h or /d, from 1/d to 100000/s, \
                   one with the unit /month, or both with a comma";
    rate.ok_or_else(|| must_be(text, allowed))
}
