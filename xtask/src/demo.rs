//! `cargo xtask demo`: builds the demonstration of `web-demo`, then becomes it.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Context, Result};
use mailroom_tests::postgres::{Installation, Wanted};

use crate::rust::BUILD;
use crate::step::{Prepared, Steps};
use crate::{rust, tools, web};

const BUILD_MAILROOM: &str = "build mailroom";
const PROGRAMS: &str = "build the programs of the demonstration";
const SITE: &str = "build the pages, the edge function and the services";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// In the terminal: 25 accounts and 10 recoveries; exit 0 only if every token came and was verified twice
    #[arg(long)]
    once: bool,

    /// The PostgreSQL to run: a version such as 15 or 18, or the folder of its programs
    #[arg(long, value_name = "VERSION", value_parser = Wanted::parse)]
    postgres: Option<Wanted>,
}

/// The demonstration as a test: on each version it ends by itself, with every token verified.
pub(crate) fn test(steps: &mut Steps, versions: &[Wanted]) {
    rust::build(steps);
    steps.later(PROGRAMS, &[], || web::build(false).map(|_| Prepared::default()));
    for wanted in versions {
        let wanted = wanted.clone();
        let title = format!("demonstration on {wanted}");
        steps.later(&title, &[BUILD, PROGRAMS], move || {
            let mut command = web::site(false).command("once")?;
            command.env("MAILROOM_TEST_POSTGRES", Installation::find(&wanted)?.programs);
            command.env_remove("MAILROOM_TEST_DATABASE_URL");
            Ok(command.into())
        });
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut steps = Steps::new();
    steps.command(BUILD_MAILROOM, || {
        Ok(tools::cargo(["build", "--package", "mailroom", "--bin", "mailroom"]))
    });
    if !steps.has_passed(BUILD_MAILROOM) {
        return Ok(ExitCode::FAILURE);
    }
    let title = if options.once { PROGRAMS } else { SITE };
    let Some(site) = steps.task(title, || web::build(!options.once)) else { return Ok(ExitCode::FAILURE) };
    let mut demonstration = site.command(if options.once { "once" } else { "stage" })?;
    if options.postgres.is_some() || env::var_os("MAILROOM_TEST_DATABASE_URL").is_none() {
        let wanted = options.postgres.clone().map_or_else(Wanted::from_environment, Ok)?;
        let Some(found) = steps.task(&format!("find {wanted}"), || Installation::find(&wanted)) else {
            return Ok(ExitCode::FAILURE);
        };
        demonstration.env("MAILROOM_TEST_POSTGRES", found.programs);
        demonstration.env_remove("MAILROOM_TEST_DATABASE_URL");
    }
    Err(demonstration.exec()).context("cannot run the demonstration")
}
