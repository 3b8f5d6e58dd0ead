//! The program `mailroom`.

use std::process::ExitCode;

use anyhow::Context;

fn main() -> anyhow::Result<ExitCode> {
    mailroom::run().context("the operating system refuses what the program needs to run")
}
