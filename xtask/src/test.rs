//! `cargo xtask test`: everything that must pass.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser};
use mailroom_tests::postgres::{Installation, Wanted};

use crate::is_continuous_integration;
use crate::step::Steps;
use crate::{consumers, demo, lint, npm, rust, web};

/// A part of the suite that can be asked for by name.
struct Part {
    name: &'static str,
    about: &'static str,
    run: fn(&mut Steps, &[Wanted]),
}

/// What fails fastest goes first, and alone; of those that run beside each other, from `database` on, what takes longest. The
/// faults keep both processors busy, and a browser shows late then what came in time: the pages come when they are over.
const PARTS: [Part; 13] = [
    Part { name: "fmt", about: "the formatting of the Rust code", run: |steps, _| lint::formatting(steps) },
    Part { name: "clippy", about: "the lints, warnings being errors", run: |steps, _| lint::clippy(steps) },
    Part {
        name: "core",
        about: "the lints of the core on machines without a standard library and of the npm package's modules, the core's crate",
        run: |steps, _| {
            lint::core(steps);
            lint::core_package(steps);
            lint::modules(steps);
        },
    },
    Part {
        name: "rust",
        about: "unit and documentation tests, and others that need no database",
        run: |steps, _| rust::without_database(steps),
    },
    Part {
        name: "npm",
        about: "the npm package: its sources, its module, its types, its command line, its README",
        run: |steps, _| {
            npm::test(steps);
            consumers::readme(steps);
        },
    },
    Part {
        name: "database",
        about: "tests against PostgreSQL, on each version asked for",
        run: rust::with_database,
    },
    Part {
        name: "faults",
        about: "20,000 tokens under every fault there is, on the first PostgreSQL version asked for",
        run: rust::faults,
    },
    Part {
        name: "runtimes",
        about: "the packed npm package on Node, Deno, Bun and workerd, and in Jest",
        run: |steps, _| consumers::runtimes(steps),
    },
    Part { name: "web", about: "the web demonstration, in Chromium", run: web::test },
    Part {
        name: "browser",
        about: "the packed npm package in Chromium",
        run: |steps, _| consumers::browser(steps),
    },
    Part {
        name: "bundlers",
        about: "the packed npm package through bundlers and in frameworks",
        run: |steps, _| {
            consumers::bundlers(steps);
            consumers::frameworks(steps);
        },
    },
    Part {
        name: "stores",
        about: "the stores of used tokens, against Redis, PostgreSQL and workerd",
        run: consumers::stores,
    },
    Part {
        name: "demo",
        about: "the demonstration, which must verify every token, on every PostgreSQL version",
        run: demo::test,
    },
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to run, in the order below; everything unless something is named
    #[arg(value_parser = PossibleValuesParser::new(PARTS.map(|part| PossibleValue::new(part.name).help(part.about))))]
    parts: Vec<String>,

    /// The PostgreSQL versions of the database tests: `15`, `15,18`, or `all` that are installed or can be fetched.
    /// By default the one that is found first; both 15 and 18 where the variable CI is set
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
    let versions = versions(options.postgres.as_deref())?;
    let mut steps = Steps::new();
    if let Some(duration) = options.chaos {
        let Some(wanted) = versions.first().filter(|_| rust::build(&mut steps)) else {
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
    for part in PARTS {
        if options.parts.is_empty() || options.parts.iter().any(|name| name == part.name) {
            (part.run)(&mut steps, &versions);
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

fn versions(asked: Option<&str>) -> Result<Vec<Wanted>> {
    match asked {
        None if is_continuous_integration() => Ok(vec![Wanted::Major(15), Wanted::Major(18)]),
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
