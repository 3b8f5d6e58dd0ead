//! `cargo xtask demo`: builds what the demonstration consists of, then becomes it.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::step::Steps;
use crate::tools;

const BUILD: &str = "build mailroom and the demonstration";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// End after 25 accounts and 10 recoveries; exit 0 only if every token came out and was verified twice
    #[arg(long)]
    once: bool,

    /// The PostgreSQL to run: a version such as 15 or 18, or the folder of its programs
    #[arg(long, value_name = "VERSION")]
    postgres: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut steps = Steps::new();
    steps.command(BUILD, || {
        let arguments = ["build", "--package", "mailroom", "--package", "xtask"];
        Ok(tools::cargo(arguments.into_iter().chain(["--bin", "mailroom", "--bin", "mailroom-demo"])))
    });
    if !steps.has_passed(BUILD) {
        return Ok(ExitCode::FAILURE);
    }

    let mut command = Command::new(tools::built("mailroom-demo")?);
    command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
    if options.once {
        command.arg("--once");
    }
    if let Some(version) = &options.postgres {
        command.env("MAILROOM_TEST_POSTGRES", version).env_remove("MAILROOM_TEST_DATABASE_URL");
    }
    Err(command.exec()).context("cannot run the demonstration")
}
