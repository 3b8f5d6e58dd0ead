//! How many tokens all collectors of a queue claim in a time.

use std::fmt;

use super::setting::{must_be, with_unit};

const DAY: u64 = 86_400;

/// How many of each unit a day has.
const UNITS: [(&str, u64); 4] = [("/s", DAY), ("/min", 1_440), ("/h", 24), ("/d", 1)];

/// Tokens a day, written as `14/s`, `23/min`, `500/h` or `10000/d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub(crate) u64);

/// `None` for no limit.
pub(crate) type RateLimit = Option<Rate>;

impl Rate {
    /// From one a day to 100,000 a second.
    pub fn parse(text: &str) -> Option<Self> {
        with_unit(text, &UNITS, &(1..=100_000 * DAY)).map(Self)
    }

    /// In tokens a second.
    #[expect(clippy::cast_precision_loss, reason = "a rate is far below 2^53")]
    pub(crate) fn per_second(self) -> f64 {
        self.0 as f64 / DAY as f64
    }

    /// The most tokens at once: as many as a second allows, and one more. `mailroom.reserve`
    /// computes the same.
    pub fn burst(self) -> usize {
        usize::try_from(self.0 / DAY + 1).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) =
            UNITS.iter().find(|(_, factor)| self.0.is_multiple_of(*factor)).unwrap_or(&("/d", 1));
        write!(formatter, "{}{unit}", self.0 / factor)
    }
}

pub(super) fn rate_or_off(text: &str) -> Result<RateLimit, String> {
    let rate = if text == "off" { Some(None) } else { Rate::parse(text).map(Some) };
    let allowed = "`off` or a whole number with the unit /s, /min, /h or /d, from 1/d to 100000/s";
    rate.ok_or_else(|| must_be(text, allowed))
}
