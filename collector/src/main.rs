//! The program `mailroom`.

use std::process::ExitCode;

use anyhow::Context;

/// musl's own has one lock for all threads, and takes a third to a half of a sender's processor
/// time.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<ExitCode> {
    mailroom::run().context("the operating system refuses what the program needs to run")
}
