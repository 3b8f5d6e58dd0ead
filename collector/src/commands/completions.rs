//! `mailroom completions`: prints what completes commands and options in a shell.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Command;
use clap_complete::{Shell, generate};

use super::{Outcome, unwritable};
use crate::config::{Setting, one_of};

#[derive(clap::Args)]
pub(crate) struct CompletionsArguments {
    /// The shell: bash, zsh, fish, elvish or powershell
    #[arg(value_name = "SHELL", value_parser = Setting(one_of::<Shell>))]
    shell: Shell,
}

/// Completes the command line `root`.
pub(crate) fn run(arguments: &CompletionsArguments, mut root: Command) -> Outcome {
    // Into memory first: clap_complete panics if it cannot write.
    let mut script = Vec::new();
    generate(arguments.shell, &mut root, "mailroom", &mut script);
    io::stdout().write_all(&script).map_err(unwritable)?;
    Ok(ExitCode::SUCCESS)
}
