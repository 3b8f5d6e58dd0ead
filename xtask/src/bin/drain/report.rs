//! What was measured, for people and for programs.

use std::fmt::Write;

use crate::contestant::{Contestant, Kind, Peer};
use crate::round::{PART, Round, tokens_per_second};

/// The rounds of one contestant.
pub(crate) struct Figures {
    contestant: Contestant,
    /// Tokens, or jobs, per second.
    rates: Vec<u64>,
    first: Vec<u64>,
    last: Vec<u64>,
}

impl Figures {
    pub(crate) fn of(contestant: Contestant) -> Self {
        Self { contestant, rates: Vec::new(), first: Vec::new(), last: Vec::new() }
    }

    pub(crate) fn contestant(&self) -> Contestant {
        self.contestant
    }

    /// Takes a round down and returns its rate.
    pub(crate) fn add_round(&mut self, round: &Round, tokens: usize) -> u64 {
        if let Some([first, last]) = round.parts {
            self.first.push(first);
            self.last.push(last);
        }
        self.add_rate(tokens_per_second(tokens, round.elapsed))
    }

    /// Takes a rate down and returns it.
    pub(crate) fn add_rate(&mut self, rate: u64) -> u64 {
        self.rates.push(rate);
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
    /// One line: medians by the kind of the queue and the batch limit, and of the other queues.
    pub(crate) fn as_json(&self) -> String {
        let mut json = format!(
            r#"{{"postgres":"{}","tokens":{},"rounds":{},"tokens_per_s":{}"#,
            self.server,
            self.tokens,
            self.rounds,
            self.by_kind(|figures| &figures.rates)
        );
        for (name, rates) in self.parts() {
            write!(json, r#","{name}":{}"#, self.by_kind(rates)).expect(IN_MEMORY);
        }
        let peer = |peer: Peer| {
            let figures =
                self.figures.iter().find(|figures| figures.contestant == Contestant::Other(peer))?;
            Some(format!(r#""{}":{}"#, peer.name(), median(&figures.rates)))
        };
        let peers: Vec<String> = Peer::ALL.into_iter().filter_map(peer).collect();
        if !peers.is_empty() {
            write!(json, r#","peers":{{{}}}"#, peers.join(",")).expect(IN_MEMORY);
        }
        json + "}"
    }

    /// A table.
    pub(crate) fn as_table(&self) -> String {
        let mut table = format!(
            "{} tokens drained on PostgreSQL {}, tokens/s, median of {} rounds\n  batch limit                 ",
            self.tokens, self.server, self.rounds
        );
        for (limit, _) in self.of_kind(Kind::Deliveries) {
            write!(table, "{limit:>12}").expect(IN_MEMORY);
        }
        for kind in Kind::ALL {
            let mut row = |title: &str, rates: Selection| {
                write!(table, "\n  {title:<28}").expect(IN_MEMORY);
                for (_, figures) in self.of_kind(kind) {
                    write!(table, "{:>12}", median(rates(figures))).expect(IN_MEMORY);
                }
            };
            row(&format!("{}, from its start", kind.name()), |figures| &figures.rates);
            for (name, rates) in self.parts() {
                row(&format!("  {}", name.replace('_', " ")), rates);
            }
        }
        for figures in self.figures {
            if let Contestant::Other(_) = figures.contestant {
                let title = figures.contestant.to_string();
                write!(table, "\n  {title:<28}{:>12}", median(&figures.rates)).expect(IN_MEMORY);
            }
        }
        table
    }

    /// The figures of the first and last tokens, if there were enough of them.
    fn parts(&self) -> Vec<(String, Selection)> {
        let ours = Kind::ALL.into_iter().flat_map(|kind| self.of_kind(kind));
        if ours.map(|(_, figures)| figures).any(|figures| figures.first.is_empty()) {
            return Vec::new();
        }
        let first: Selection = |figures| &figures.first;
        let last: Selection = |figures| &figures.last;
        vec![(format!("first_{PART}"), first), (format!("last_{PART}"), last)]
    }

    /// The figures of a kind of queue with their batch limits.
    fn of_kind(&self, kind: Kind) -> Vec<(usize, &Figures)> {
        let limit = |figures: &Figures| match figures.contestant {
            Contestant::Mailroom(other, limit) if other == kind => Some(limit),
            _ => None,
        };
        self.figures.iter().filter_map(|figures| Some((limit(figures)?, figures))).collect()
    }

    fn by_kind(&self, rates: Selection) -> String {
        let kinds = Kind::ALL.map(|kind| {
            let of_kind = self.of_kind(kind);
            let limits: Vec<String> = of_kind
                .iter()
                .map(|(limit, figures)| format!(r#""{limit}":{}"#, median(rates(figures))))
                .collect();
            format!(r#""{}":{{{}}}"#, kind.name(), limits.join(","))
        });
        format!("{{{}}}", kinds.join(","))
    }
}

const IN_MEMORY: &str = "a string takes all that is written";

/// The middle one, or the lower of the two middle ones.
pub(crate) fn median(rates: &[u64]) -> u64 {
    let mut sorted = rates.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(contestant: Contestant, rates: &[u64], parts: &[u64]) -> Figures {
        Figures { contestant, rates: rates.to_vec(), first: parts.to_vec(), last: parts.to_vec() }
    }

    fn ours(kind: Kind, limit: usize, rates: &[u64], parts: &[u64]) -> Figures {
        figures(Contestant::Mailroom(kind, limit), rates, parts)
    }

    #[test]
    fn the_median_stands_for_the_rounds() {
        assert_eq!([median(&[3, 1, 2]), median(&[4, 1, 2, 3]), median(&[7])], [2, 2, 7]);
    }

    #[test]
    fn json_has_a_figure_for_each_kind_batch_limit_and_peer() {
        let figures = [
            ours(Kind::Deliveries, 10, &[1, 2, 9], &[]),
            ours(Kind::Deliveries, 100, &[6], &[]),
            ours(Kind::Cursor, 10, &[5], &[]),
            figures(Contestant::Other(Peer::PgBoss), &[3], &[]),
        ];
        let report = Report { server: "15.1", tokens: 1_000, rounds: 3, figures: &figures };
        let expected = r#"{"postgres":"15.1","tokens":1000,"rounds":3,"tokens_per_s":{"deliveries":{"10":2,"100":6},"cursor":{"10":5}},"peers":{"pg_boss":3}}"#;
        assert_eq!(report.as_json(), expected);
    }

    #[test]
    fn large_runs_tell_of_the_first_and_the_last_tokens() {
        let figures = [ours(Kind::Deliveries, 10, &[1], &[7]), ours(Kind::Cursor, 10, &[1], &[8])];
        let report = Report { server: "15.1", tokens: 20_000, rounds: 1, figures: &figures };
        let json = report.as_json();
        let parts = r#""first_10000":{"deliveries":{"10":7},"cursor":{"10":8}},"last_10000":{"deliveries":{"10":7},"cursor":{"10":8}}}"#;
        assert!(json.ends_with(parts), "{json}");
        assert_eq!(report.as_table().lines().count(), 8);
    }
}
