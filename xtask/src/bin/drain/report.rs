//! What was measured, for people and for programs.

use std::fmt::Write;

use crate::round::{PART, Round, tokens_per_second};

/// The rounds of one batch limit.
pub(crate) struct Figures {
    limit: usize,
    /// Tokens per second.
    rates: Vec<u64>,
    first: Vec<u64>,
    last: Vec<u64>,
}

impl Figures {
    pub(crate) fn of(limit: usize) -> Self {
        Self { limit, rates: Vec::new(), first: Vec::new(), last: Vec::new() }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Takes a round down and returns its rate.
    pub(crate) fn add(&mut self, round: &Round, tokens: usize) -> u64 {
        let rate = tokens_per_second(tokens, round.elapsed);
        self.rates.push(rate);
        if let Some([first, last]) = round.parts {
            self.first.push(first);
            self.last.push(last);
        }
        rate
    }
}

/// Which of the figures are meant.
type Selection = fn(&Figures) -> &[u64];

/// All that was measured.
pub(crate) struct Report<'a> {
    pub(crate) server: &'a str,
    pub(crate) tokens: usize,
    pub(crate) rounds: usize,
    pub(crate) figures: &'a [Figures],
}

impl Report<'_> {
    /// One line: medians by the kind of the queue and the batch limit.
    pub(crate) fn as_json(&self) -> String {
        let mut json = format!(
            r#"{{"postgres":"{}","tokens":{},"rounds":{},"tokens_per_s":{{"cursor":{}}}"#,
            self.server,
            self.tokens,
            self.rounds,
            self.object(|figures| &figures.rates)
        );
        for (name, rates) in self.parts() {
            write!(json, r#","{name}":{{"cursor":{}}}"#, self.object(rates)).expect(IN_MEMORY);
        }
        json + "}"
    }

    /// A table.
    pub(crate) fn as_table(&self) -> String {
        let mut table = format!(
            "{} tokens drained on PostgreSQL {}, tokens/s, median of {} rounds\n  batch limit",
            self.tokens, self.server, self.rounds
        );
        for figures in self.figures {
            write!(table, "{:>12}", figures.limit).expect(IN_MEMORY);
        }
        let mut row = |title: &str, rates: Selection| {
            write!(table, "\n  {title:<28}").expect(IN_MEMORY);
            for figures in self.figures {
                write!(table, "{:>12}", median(rates(figures))).expect(IN_MEMORY);
            }
        };
        row("cursor, from its start", |figures| &figures.rates);
        for (name, rates) in self.parts() {
            row(&name.replace('_', " "), rates);
        }
        table
    }

    /// The figures of the first and last tokens, if there were enough of them.
    fn parts(&self) -> Vec<(String, Selection)> {
        if self.figures.iter().any(|figures| figures.first.is_empty()) {
            return Vec::new();
        }
        let first: Selection = |figures| &figures.first;
        let last: Selection = |figures| &figures.last;
        vec![(format!("first_{PART}"), first), (format!("last_{PART}"), last)]
    }

    fn object(&self, rates: Selection) -> String {
        let field = |figures: &Figures| format!(r#""{}":{}"#, figures.limit, median(rates(figures)));
        format!("{{{}}}", self.figures.iter().map(field).collect::<Vec<_>>().join(","))
    }
}

const IN_MEMORY: &str = "a string takes all that is written";

/// The middle one, or the lower of the two middle ones.
fn median(rates: &[u64]) -> u64 {
    let mut sorted = rates.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(limit: usize, rates: &[u64], parts: &[u64]) -> Figures {
        Figures { limit, rates: rates.to_vec(), first: parts.to_vec(), last: parts.to_vec() }
    }

    #[test]
    fn the_median_stands_for_the_rounds() {
        assert_eq!([median(&[3, 1, 2]), median(&[4, 1, 2, 3]), median(&[7])], [2, 2, 7]);
    }

    #[test]
    fn json_has_a_figure_for_each_batch_limit() {
        let figures = [figures(10, &[1, 2, 9], &[]), figures(100, &[6], &[])];
        let report = Report { server: "15.1", tokens: 1_000, rounds: 3, figures: &figures };
        let expected =
            r#"{"postgres":"15.1","tokens":1000,"rounds":3,"tokens_per_s":{"cursor":{"10":2,"100":6}}}"#;
        assert_eq!(report.as_json(), expected);
    }

    #[test]
    fn large_runs_tell_of_the_first_and_the_last_tokens() {
        let figures = [figures(10, &[1], &[7])];
        let report = Report { server: "15.1", tokens: 20_000, rounds: 1, figures: &figures };
        let json = report.as_json();
        assert!(
            json.ends_with(r#""first_10000":{"cursor":{"10":7}},"last_10000":{"cursor":{"10":7}}}"#),
            "{json}"
        );
        assert_eq!(report.as_table().lines().count(), 5);
    }
}
