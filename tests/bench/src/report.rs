//! What was measured: a table for people, JSON for programs.

use std::cmp::Ordering;
use std::fmt::{self, Display, Write};
use std::time::Duration;

use serde_json::Value;

pub(crate) struct Report {
    pub(crate) table: Table,
    pub(crate) json: Value,
}

/// A title, headings, and rows with a name and right-aligned figures.
pub(crate) struct Table(String);

impl Table {
    pub(crate) fn new(title: &str, headings: &[&dyn Display]) -> Self {
        let mut table = Self(title.to_owned());
        table.row("", headings);
        table
    }

    /// A line above rows of another kind.
    pub(crate) fn heading(&mut self, title: &str) {
        write!(self.0, "\n{title}").expect(IN_MEMORY);
    }

    pub(crate) fn row(&mut self, name: &str, figures: &[&dyn Display]) {
        write!(self.0, "\n  {name:<44}").expect(IN_MEMORY);
        for figure in figures {
            write!(self.0, " {:>11}", figure.to_string()).expect(IN_MEMORY);
        }
    }
}

impl Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

const IN_MEMORY: &str = "a string takes all that is written";

/// The middle one, or the lower of the two middle ones.
pub(crate) fn median<T: Copy + Default + PartialOrd>(figures: &[T]) -> T {
    percentile(figures, 50)
}

/// The smallest figure that so many per cent of all figures do not exceed.
pub(crate) fn percentile<T: Copy + Default + PartialOrd>(figures: &[T], percent: usize) -> T {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(|one, other| one.partial_cmp(other).unwrap_or(Ordering::Equal));
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).copied().unwrap_or_default()
}

/// So many a second; zero in no time at all.
pub(crate) fn per_second(count: u32, elapsed: Duration) -> u32 {
    let rate = (u128::from(count) * 1_000_000_000).checked_div(elapsed.as_nanos());
    u32::try_from(rate.unwrap_or_default()).unwrap_or(u32::MAX)
}

/// Rounded to so many decimal places.
pub(crate) fn rounded(value: f64, places: i32) -> f64 {
    let unit = 10_f64.powi(places);
    (value * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_figure_that_was_measured() {
        assert_eq!(
            [median(&[3, 1, 2]), median(&[4, 1, 2, 3]), median(&[7]), median(&[])],
            [2, 2, 7, 0]
        );
        let figures: Vec<u32> = (1..=200).rev().collect();
        assert_eq!([percentile(&figures, 50), percentile(&figures, 99)], [100, 198]);
    }

    #[test]
    fn rates_are_rounded_down_and_do_not_overflow() {
        assert_eq!(per_second(10, Duration::from_secs(4)), 2);
        assert_eq!(per_second(10, Duration::ZERO), 0);
        assert_eq!(per_second(u32::MAX, Duration::from_nanos(1)), u32::MAX);
    }
}
