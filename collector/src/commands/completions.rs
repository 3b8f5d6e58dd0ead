//! `mailroom completions`: prints what completes commands and options in a shell.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap_complete::{Shell, generate};

use super::{Outcome, unwritable};
use crate::cli;
use crate::config::{Setting, one_of};

#[derive(clap::Args)]
pub(crate) struct CompletionsArguments {
    /// The shell: bash, zsh, fish, elvish or powershell
    #[arg(value_name = "SHELL", value_parser = Setting(one_of::<Shell>))]
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArguments) -> Outcome {
    // Into memory first: clap_complete panics if it cannot write.
    let mut script = Vec::new();
    generate(arguments.shell, &mut cli::definition(), "mailroom", &mut script);
    io::stdout().write_all(&script).map_err(unwritable)?;
    Ok(ExitCode::SUCCESS)
}
