//! `cargo xtask test`: everything that must pass.

use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser};
use mailroom_tests::postgres::{Installation, Wanted};

use crate::is_continuous_integration;
use crate::rust::BUILD;
use crate::step::Steps;
use crate::{consumers, demo, lint, npm, rust, web};

/// How much is tested.
#[derive(Clone)]
pub(crate) struct Extent {
    /// The PostgreSQL versions, the main one first.
    pub(crate) versions: Vec<Wanted>,
    /// Everything there is, in its long form.
    pub(crate) full: bool,
}

impl Extent {
    /// Tells a test program whether to run in its long form.
    pub(crate) fn tell(&self, command: &mut Command) {
        if self.full {
            command.env("MAILROOM_TEST_FULL", "1");
        }
    }
}

/// A part of the suite that can be asked for by name.
struct Part {
    name: &'static str,
    about: &'static str,
    add: fn(&mut Steps, &Extent),
}

/// In the order in which they start, in a few lanes: first what fails fastest, then what others need, then what takes longest.
const PARTS: [Part; 12] = [
    Part { name: "fmt", about: "the formatting of the Rust code", add: |steps, _| lint::formatting(steps) },
    Part {
        name: "clippy",
        about: "the lints, warnings being errors, of all targets and of the npm package's modules",
        add: |steps, _| lint::clippy(steps),
    },
    Part {
        name: "web",
        about: "the web demonstration in Chromium, and the handlers that its README shows",
        add: |steps, extent| {
            web::test(steps, extent);
            consumers::handlers(steps, extent);
        },
    },
    Part {
        name: "database",
        about: "tests against PostgreSQL: all on the first version, on others what depends on the version",
        add: rust::with_database,
    },
    Part {
        name: "faults",
        about: "every fault there is, on the first PostgreSQL version",
        add: rust::faults,
    },
    Part {
        name: "runtimes",
        about: "the packed npm package on Node, Deno, Bun and workerd, and in Jest",
        add: consumers::runtimes,
    },
    Part {
        name: "rust",
        about: "unit and documentation tests, others that need no database, and the core's crate",
        add: |steps, _| {
            rust::without_database(steps);
            lint::core_package(steps);
        },
    },
    Part {
        name: "bundlers",
        about: "the packed npm package through bundlers and in frameworks",
        add: |steps, extent| {
            consumers::frameworks(steps, extent);
            consumers::bundlers(steps, extent);
        },
    },
    Part {
        name: "stores",
        about: "the stores of used tokens, against Redis, PostgreSQL and workerd",
        add: consumers::stores,
    },
    Part { name: "browser", about: "the packed npm package in Chromium", add: consumers::browser },
    Part {
        name: "npm",
        about: "the npm package: its sources, its module, its types, its command line, its README",
        add: |steps, extent| {
            npm::test(steps);
            consumers::readme(steps, extent);
        },
    },
    Part {
        name: "demo",
        about: "the demonstration, which must verify every token, on every PostgreSQL version",
        add: |steps, extent| demo::test(steps, &extent.versions),
    },
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to run, in the order below; everything unless something is named
    #[arg(value_parser = PossibleValuesParser::new(PARTS.map(|part| PossibleValue::new(part.name).help(part.about))))]
    parts: Vec<String>,

    /// Everything there is, in its long form: every test on every PostgreSQL version, 20,000 tokens under each fault, the whole
    /// suite in every way to load the npm package
    #[arg(long)]
    full: bool,

    /// The PostgreSQL versions of the database tests: `15`, `15,18`, or `all` that are installed or can be fetched.
    /// By default the one that is found first; both 15 and 18 with --full and where the variable CI is set
    #[arg(long, value_name = "VERSIONS")]
    postgres: Option<String>,

    /// Instead: inject faults of every kind at random for this long, such as 30m, and check the whole history of the queue
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with = "parts")]
    chaos: Option<Duration>,

    /// What the faults of --chaos follow from, to repeat a run; a new one unless it is given
    #[arg(long, value_name = "N", requires = "chaos")]
    seed: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let versions = versions(options.postgres.as_deref(), options.full)?;
    let mut steps = Steps::new();
    if let Some(duration) = options.chaos {
        rust::build(&mut steps);
        steps.run_later();
        let Some(wanted) = versions.first().filter(|_| steps.has_passed(BUILD)) else {
            return Ok(steps.summary());
        };
        let seed = options.seed.map_or_else(new_seed, Ok)?;
        // It tells itself how far it is.
        let mut chaos = rust::chaos(duration, seed, wanted)?.spawn().context("cannot run the chaos")?;
        // Held until it has ended: if a signal ends this process alone, the chaos hears that its input has ended.
        let _input = chaos.stdin.take();
        let status = chaos.wait()?;
        return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let extent = Extent { versions, full: options.full };
    for part in PARTS {
        if options.parts.is_empty() || options.parts.iter().any(|name| name == part.name) {
            (part.add)(&mut steps, &extent);
        }
    }
    steps.run_later();
    Ok(steps.summary())
}

/// Reads `90s`, `30m` or `2h`.
fn span(text: &str) -> Result<Duration> {
    let units = [("s", 1), ("m", 60), ("h", 3_600)];
    let seconds = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds).filter(|seconds| *seconds > 0)
    });
    seconds.map(Duration::from_secs).context("a time such as 90s, 30m or 2h is needed")
}

/// Differs from run to run.
fn new_seed() -> Result<u64> {
    Ok(u64::from(SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_micros()))
}

fn versions(asked: Option<&str>, full: bool) -> Result<Vec<Wanted>> {
    match asked {
        None if full || is_continuous_integration() => Ok(vec![Wanted::Major(15), Wanted::Major(18)]),
        None => Ok(vec![Wanted::from_environment()?]),
        Some("all") => Ok(Installation::majors().into_iter().map(Wanted::Major).collect()),
        Some(list) => list
            .split(',')
            .map(|text| match Wanted::parse(text.trim())? {
                Wanted::Any => bail!("--postgres takes versions such as 15 or 15,18, or `all`"),
                wanted => Ok(wanted),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_a_number_and_a_unit() {
        assert_eq!(span("30m").unwrap(), Duration::from_secs(1_800));
        assert_eq!(span("90s").unwrap(), Duration::from_secs(90));
        for text in ["", "30", "m", "0s", "-1m", "1.5h", "99999999999999999999h"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
