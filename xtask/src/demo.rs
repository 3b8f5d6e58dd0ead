//! `cargo xtask demo`: builds what the demonstration consists of, then becomes it.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use mailroom_tests::postgres::{Installation, Wanted};

use crate::step::Steps;
use crate::{node, rust, tools, web};

const BUILD: &str = "build mailroom and the demonstration";
const SITE: &str = "build the pages, the edge function and the services";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// In the terminal: 25 accounts and 10 recoveries; exit 0 only if every token came out and was verified twice
    #[arg(long)]
    once: bool,

    /// The PostgreSQL to run: a version such as 15 or 18, or the folder of its programs
    #[arg(long, value_name = "VERSION", value_parser = Wanted::parse)]
    postgres: Option<Wanted>,
}

/// The demonstration as a test: on each version it ends by itself, with every token verified.
pub(crate) fn test(steps: &mut Steps, versions: &[Wanted]) {
    if !rust::build(steps) {
        return;
    }
    for wanted in versions {
        steps.later(&format!("demonstration on {wanted}"), None, demonstration(wanted));
    }
}

fn demonstration(wanted: &Wanted) -> Result<Command> {
    let mut demonstration = Command::new(tools::built("mailroom-demo")?);
    demonstration.arg("--once").env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
    demonstration.env("MAILROOM_TEST_POSTGRES", Installation::find(wanted)?.programs);
    demonstration.env_remove("MAILROOM_TEST_DATABASE_URL");
    Ok(demonstration)
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    node::command()?;
    let mut demonstration = Command::new(tools::built("mailroom-demo")?);
    demonstration.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
    if options.once {
        demonstration.arg("--once");
    }

    let mut steps = Steps::new();
    let provided = env::var_os("MAILROOM_TEST_DATABASE_URL").is_some();
    if options.postgres.is_some() || !provided {
        let wanted = options.postgres.clone().map_or_else(Wanted::from_environment, Ok)?;
        let Some(found) = steps.task(&format!("find {wanted}"), || Installation::find(&wanted)) else {
            return Ok(ExitCode::FAILURE);
        };
        demonstration.env("MAILROOM_TEST_POSTGRES", found.programs);
        demonstration.env_remove("MAILROOM_TEST_DATABASE_URL");
    }
    steps.command(BUILD, || {
        let arguments = ["build", "--package", "mailroom", "--package", "xtask"];
        Ok(tools::cargo(arguments.into_iter().chain(["--bin", "mailroom", "--bin", "mailroom-demo"])))
    });
    if !steps.has_passed(BUILD) {
        return Ok(ExitCode::FAILURE);
    }
    if !options.once {
        let Some(site) = steps.task(SITE, web::build) else { return Ok(ExitCode::FAILURE) };
        site.name_to(&mut demonstration);
    }
    Err(demonstration.exec()).context("cannot run the demonstration")
}
