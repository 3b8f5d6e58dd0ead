//! `cargo xtask bench`: what is measured, never tested, because times depend on the machine.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools::{target_folder, workspace};

use crate::{node, npm, tools};

/// The native contestant. `tests/bench/native.mjs` starts it the same way once it is compiled.
const NATIVE: [&str; 4] = ["bench", "--quiet", "--package=mailroom-verifier-core", "--bench=verify"];

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,

    /// Print one line of JSON instead of a table, where what is measured has one
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum What {
    /// Each migration on a large database: how long it takes, and how long others wait for it
    Migrations {
        /// How many accounts, and tokens, there are
        #[arg(long, default_value_t = 2_000_000)]
        rows: u32,
    },
    /// The bytes of the npm package: its module, its inlined entry minified and gzipped, the tarball
    Package,
    /// One `mailroom_request`, for people who exist and for those who do not
    Requests {
        /// How often each sort of person is asked for
        #[arg(long, default_value_t = 2_000)]
        rounds: u32,
    },
    /// The start of a Node process that imports the npm package and verifies a first token, beside an empty one
    Start,
    /// One verification by the npm package in Node, beside other ways to do it and the native core
    Verify,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut command = match options.what {
        What::Migrations { rows } => database("time-migrations", rows),
        What::Package => program("package")?,
        What::Requests { rounds } => database("time-requests", rounds),
        What::Start => program("start")?,
        What::Verify => verify()?,
    };
    if options.json {
        ensure!(
            !matches!(options.what, What::Migrations { .. } | What::Requests { .. }),
            "this has no --json"
        );
        command.arg("--json");
    }
    let status = command.stdin(Stdio::null()).status().context("cannot run the benchmark")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A program of the crate of tests that starts a PostgreSQL of its own, which `MAILROOM_TEST_POSTGRES` chooses.
fn database(name: &str, size: u32) -> Command {
    tools::cargo(["run", "--quiet", "--package", "mailroom-tests", "--bin", name, "--", &size.to_string()])
}

/// The program `tests/bench/NAME.mjs`, which is given the packed package and a folder to install it into.
fn program(name: &str) -> Result<Command> {
    let tarball = npm::tarball()?;
    node::install_test_tools()?;
    let mut command = node::command()?;
    command.arg(workspace().join("tests/bench").join(name).with_extension("mjs"));
    command.arg(format!("--tarball={}", tarball.display()));
    command.arg(format!("--folder={}", folder(name).display()));
    Ok(command)
}

fn verify() -> Result<Command> {
    eprintln!("building the native benchmark ...");
    let built = tools::cargo(NATIVE).arg("--no-run").status().context("cannot run cargo")?;
    ensure!(built.success(), "the native benchmark does not compile");
    program("verify")
}

fn folder(name: &str) -> PathBuf {
    target_folder().join("consumers").join(format!("bench-{name}"))
}
