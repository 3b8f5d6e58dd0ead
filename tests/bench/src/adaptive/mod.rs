//! A simulated day: `--adaptive` beside fixed batch limits and timeouts.
//! The same in every run, on every machine.

mod day;
mod plot;
mod simulation;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::tools::workspace;
use serde_json::json;

use self::simulation::{Call, Settings, run};
use crate::report::{Report, Table, percentile};

const fn fixed(limit: usize, seconds: u64) -> Settings {
    Settings { limit, timeout: Duration::from_secs(seconds), is_adaptive: false }
}

/// The batch limits and timeouts that are compared; 10 and 5 s are the defaults.
const SETTINGS: [(&str, Settings); 5] = [
    ("limit 1, timeout 0 s", fixed(1, 0)),
    ("limit 10, timeout 5 s", fixed(10, 5)),
    ("limit 100, timeout 0 s", fixed(100, 0)),
    ("limit 100, timeout 5 s", fixed(100, 5)),
    ("adaptive, up to 100 and 5 s", Settings { is_adaptive: true, ..fixed(100, 5) }),
];

#[derive(clap::Args)]
pub(crate) struct Adaptive {
    /// Where to write the plot; docs/adaptive.svg unless given
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// What became of the day's mails with some settings.
struct Outcome {
    name: &'static str,
    calls: Vec<Call>,
    mails: usize,
    /// Half and 99% of the mails were sent within so many seconds after they were due.
    median: f64,
    slowest: f64,
}

impl Outcome {
    fn figures(&self) -> String {
        let Self { calls, median, slowest, .. } = self;
        format!("half sent within {median:.2} s, 99% within {slowest:.1} s, {} calls", calls.len())
    }
}

fn outcomes() -> Vec<Outcome> {
    let traffic = day::traffic();
    let outcome = |(name, settings)| {
        let calls = run(settings, traffic.clone());
        let times: Vec<_> = calls.iter().flat_map(Call::times).collect();
        let [median, slowest] = [50, 99].map(|percent| percentile(&times, percent).as_secs_f64());
        Outcome { name, calls, mails: times.len(), median, slowest }
    };
    SETTINGS.into_iter().map(outcome).collect()
}

pub(crate) fn simulate(Adaptive { plot }: &Adaptive) -> Result<Report> {
    let outcomes = outcomes();
    let path = plot.clone().unwrap_or_else(|| workspace().join("docs/adaptive.svg"));
    fs::write(&path, plot::svg(&outcomes))
        .with_context(|| format!("cannot write {}", path.display()))?;
    let title =
        format!("{} mails of a simulated day, by batch limit and timeout", outcomes[0].mails);
    let mut table = Table::new(&title, &[&"calls", &"mails/call", &"median s", &"99% s"]);
    let mut json = serde_json::Map::new();
    for Outcome { name, calls, mails, median, slowest } in &outcomes {
        let calls = calls.len();
        let mean = format!("{}.{}", mails / calls, mails * 10 / calls % 10);
        table.row(name, &[&calls, &mean, &format!("{median:.2}"), &format!("{slowest:.1}")]);
        json.insert(
            (*name).to_owned(),
            json!({ "calls": calls, "median_s": median, "p99_s": slowest }),
        );
    }
    Ok(Report { table, json: json.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_shows_what_the_simulation_says() {
        let outcomes = outcomes();
        let [single, default, unwaiting, full, adaptive] = &outcomes[..] else {
            unreachable!("five settings")
        };
        let mut due = day::traffic();
        due.sort_unstable();
        for outcome in &outcomes {
            let mut sent: Vec<_> = outcome.calls.iter().flat_map(|call| call.due.clone()).collect();
            sent.sort_unstable();
            assert!(sent == due, "{} does not send each mail once", outcome.name);
        }
        assert!(adaptive.calls.iter().all(|call| call.due.len() <= 100));
        // What the document claims: sooner than with each of the others,
        // by fewer calls than with single mails.
        for other in [single, default, unwaiting, full] {
            assert!(
                adaptive.median < other.median && adaptive.slowest < other.slowest,
                "{}",
                other.name
            );
        }
        assert!(adaptive.calls.len() < single.calls.len());
        let document = fs::read_to_string(workspace().join("docs/operate/tune.md")).unwrap();
        let document = document.split_whitespace().collect::<Vec<_>>().join(" ");
        for (with, outcome) in [("`--adaptive`", adaptive), ("the defaults", default)] {
            let claim = format!("with {with}: {}", outcome.figures());
            assert!(document.contains(&claim), "docs/operate/tune.md lacks: {claim}");
        }
        let plot = fs::read_to_string(workspace().join("docs/adaptive.svg")).unwrap();
        assert!(
            plot == plot::svg(&outcomes),
            "docs/adaptive.svg is another one: `cargo xtask bench adaptive` writes it"
        );
    }
}
