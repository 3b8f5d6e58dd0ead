//! `cargo xtask test`: everything that must pass.

use std::env;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;
use mailroom_tests::postgres::{Installation, Wanted};

use crate::step::Steps;
use crate::{lint, rust};

/// A part of the suite that can be asked for by name.
struct Part {
    name: &'static str,
    run: fn(&mut Steps, &[Wanted]),
}

/// In the order in which they run: what fails fastest first.
const PARTS: [Part; 5] = [
    Part { name: "fmt", run: |steps, _| lint::formatting(steps) },
    Part { name: "clippy", run: |steps, _| lint::clippy(steps) },
    Part { name: "core", run: |steps, _| lint::core(steps) },
    Part { name: "rust", run: |steps, _| rust::without_database(steps) },
    Part { name: "database", run: rust::with_database },
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to run, in the order below; everything unless something is named
    #[arg(value_parser = PossibleValuesParser::new(PARTS.map(|part| part.name)))]
    parts: Vec<String>,

    /// The PostgreSQL versions of the database tests: `15`, `15,18`, or `all` that are installed or can be fetched.
    /// By default the one that is found first; both 15 and 18 where the variable CI is set
    #[arg(long, value_name = "VERSIONS")]
    postgres: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let versions = versions(options.postgres.as_deref())?;
    let mut steps = Steps::new();
    for part in PARTS {
        if options.parts.is_empty() || options.parts.iter().any(|name| name == part.name) {
            (part.run)(&mut steps, &versions);
        }
    }
    Ok(steps.summary())
}

fn versions(asked: Option<&str>) -> Result<Vec<Wanted>> {
    let continuous_integration = env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    match asked {
        None if continuous_integration => Ok(vec![Wanted::Major(15), Wanted::Major(18)]),
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
