//! What was measured, for people and for programs.

use std::fmt::Write;
use std::time::Duration;

use crate::wake::WRITERS;

/// Registrations per second, a figure a round.
#[derive(Default)]
pub(crate) struct Rates {
    pub(crate) poll_only: Vec<f64>,
    pub(crate) hinted: Vec<f64>,
    pub(crate) notify_each: Vec<f64>,
}

impl Rates {
    /// The registrations that waking leaves: the median of the rounds' shares, so that whatever else the machine did in a
    /// round met both.
    fn share(&self) -> f64 {
        let shares: Vec<_> =
            self.hinted.iter().zip(&self.poll_only).map(|(hinted, poll)| hinted / poll).collect();
        median(&shares)
    }
}

/// Of all contestants.
pub(crate) struct WakeFigures {
    server: String,
    rounds: usize,
    /// By the number of writers.
    pub(crate) rates: [Rates; WRITERS.len()],
}

impl WakeFigures {
    pub(crate) fn new(server: &str, rounds: usize) -> Self {
        Self { server: server.to_owned(), rounds, rates: Default::default() }
    }

    /// One line: medians by the number of writers.
    pub(crate) fn as_json(&self) -> String {
        let by_writers: Vec<_> = WRITERS
            .iter()
            .zip(&self.rates)
            .map(|(writers, rates)| {
                format!(
                    r#""{writers}":{{"poll_only_tps":{:.0},"hinted_tps":{:.0},"notify_each_tps":{:.0},"share":{:.3}}}"#,
                    median(&rates.poll_only),
                    median(&rates.hinted),
                    median(&rates.notify_each),
                    rates.share()
                )
            })
            .collect();
        format!(
            r#"{{"postgres":"{}","rounds":{},"writers":{{{}}}}}"#,
            self.server,
            self.rounds,
            by_writers.join(",")
        )
    }

    /// A table.
    pub(crate) fn as_table(&self) -> String {
        let mut table = format!(
            "registrations/s while a collector collects, PostgreSQL {}, median of {} rounds\n  {:<34}",
            self.server, self.rounds, "writers"
        );
        let mut row = |title: &str, cell: &dyn Fn(usize) -> String| {
            if !title.is_empty() {
                write!(table, "\n  {title:<34}").expect(IN_MEMORY);
            }
            for index in 0..WRITERS.len() {
                write!(table, "{:>10}", cell(index)).expect(IN_MEMORY);
            }
        };
        let rate = |rates: &[f64]| format!("{:.0}", median(rates));
        row("", &|index| WRITERS[index].to_string());
        row("nobody is woken, poll once a second", &|index| rate(&self.rates[index].poll_only));
        row("woken from sleep", &|index| rate(&self.rates[index].hinted));
        row("every registration announced", &|index| rate(&self.rates[index].notify_each));
        row("woken, share of nobody woken", &|index| format!("{:.1} %", 100.0 * self.rates[index].share()));
        table
    }
}

/// Times from a commit to the line.
pub(crate) struct LatencyFigures {
    server: String,
    sorted: Vec<Duration>,
}

impl LatencyFigures {
    pub(crate) fn new(server: &str, mut spans: Vec<Duration>) -> Self {
        spans.sort_unstable();
        Self { server: server.to_owned(), sorted: spans }
    }

    /// One line.
    pub(crate) fn as_json(&self) -> String {
        format!(
            r#"{{"postgres":"{}","tokens":{},"p50_ms":{:.2},"p99_ms":{:.2}}}"#,
            self.server,
            self.sorted.len(),
            self.milliseconds(50),
            self.milliseconds(99)
        )
    }

    /// A sentence.
    pub(crate) fn as_table(&self) -> String {
        format!(
            "from commit to line, {} tokens, batch limit 1, PostgreSQL {}: median {:.2} ms, 99 % within {:.2} ms",
            self.sorted.len(),
            self.server,
            self.milliseconds(50),
            self.milliseconds(99)
        )
    }

    /// The shortest time within which so many per cent came.
    fn milliseconds(&self, percent: usize) -> f64 {
        let rank = (self.sorted.len() * percent).div_ceil(100).saturating_sub(1);
        self.sorted.get(rank).map_or(0.0, |span| span.as_secs_f64() * 1_000.0)
    }
}

const IN_MEMORY: &str = "a string takes all that is written";

/// The middle one, or the lower of the two middle ones.
fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_medians_and_the_median_share_of_rounds() {
        let mut figures = WakeFigures::new("15.1", 3);
        for rates in &mut figures.rates {
            rates.poll_only = vec![100.0, 1_000.0, 10.0];
            rates.hinted = vec![90.0, 500.0, 10.0];
            rates.notify_each = vec![40.0, 41.0, 42.0];
        }
        let one = r#"{"poll_only_tps":100,"hinted_tps":90,"notify_each_tps":41,"share":0.900}"#;
        assert_eq!(
            figures.as_json(),
            format!(r#"{{"postgres":"15.1","rounds":3,"writers":{{"1":{one},"16":{one}}}}}"#)
        );
        let table = figures.as_table();
        assert_eq!(table.lines().count(), 6, "{table}");
        assert!(table.contains("90.0 %"), "{table}");
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let spans = (1..=200).rev().map(Duration::from_millis).collect();
        let json = LatencyFigures::new("18.0", spans).as_json();
        assert_eq!(json, r#"{"postgres":"18.0","tokens":200,"p50_ms":100.00,"p99_ms":198.00}"#);
    }
}
