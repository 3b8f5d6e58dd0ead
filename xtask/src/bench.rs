//! `cargo xtask bench`: what is measured, never tested, because times depend on the machine.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::{Installation, Wanted};
use mailroom_tests::tools::{target_folder, workspace};

use crate::{node, npm, tools};

/// The native contestant. `tests/bench/native.mjs` starts it the same way once it is compiled.
const NATIVE: [&str; 4] = ["bench", "--quiet", "--package=mailroom-verifier-core", "--bench=verify"];

/// The program that drains queues, and `mailroom` as it is installed.
const DRAIN: [&str; 5] =
    ["--release", "--package=xtask", "--package=mailroom", "--bin=mailroom-drain", "--bin=mailroom"];

/// The program that registers people while `mailroom` collects.
const WAKING: [&str; 5] =
    ["--release", "--package=xtask", "--package=mailroom", "--bin=mailroom-waking", "--bin=mailroom"];

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
    /// The waiting tokens that `mailroom collect` signs and hands over in a second, beside other queues that do nothing with
    /// their jobs, on a throwaway PostgreSQL
    Drain(Drain),
    /// The same with the queue of deliveries alone, with and without a snapshot that is held open elsewhere
    Pinned(Alone),
    /// The most memory that a collector of the queue of deliveries has while it drains, by its batch limit
    Memory(Alone),
    /// From the commit of a registration to its line, of a collector that sleeps and sends single tokens
    Latency {
        /// How many registrations
        #[arg(long, value_name = "N", default_value_t = 500)]
        tokens: usize,

        /// The PostgreSQL to run: a version such as 15 or 18, or the folder of its programs
        #[arg(long, value_name = "VERSION", value_parser = Wanted::parse)]
        postgres: Option<Wanted>,
    },
    /// Registrations by 1 and by 16 writers while a collector is woken, while one only polls, and while all are announced
    Wake {
        /// How many rounds each of the three gets; they take turns
        #[arg(long, value_name = "N", default_value_t = 5)]
        rounds: usize,

        /// How long a round registers
        #[arg(long, value_name = "SECONDS", default_value_t = 3)]
        seconds: u64,

        /// The PostgreSQL to run: a version such as 15 or 18, or the folder of its programs
        #[arg(long, value_name = "VERSION", value_parser = Wanted::parse)]
        postgres: Option<Wanted>,
    },
    /// Whether the time of a verification in the npm package's module says anything about a tag (Welch's t-test)
    Timing,
    /// One verification by the npm package in Node, beside other ways to do it and the native core
    Verify,
}

#[derive(clap::Args)]
struct Drain {
    /// How many tokens wait; a multiple of 1,000. The slowest of the other queues get a fifth of it
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    tokens: usize,

    /// How many rounds each queue and batch limit gets; they take turns
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,

    /// Leave the other queues out, which are installed from npm
    #[arg(long)]
    alone: bool,

    /// The PostgreSQL to run: a version such as 15 or 18, or the folder of its programs
    #[arg(long, value_name = "VERSION", value_parser = Wanted::parse)]
    postgres: Option<Wanted>,
}

#[derive(clap::Args)]
struct Alone {
    /// How many tokens wait; a multiple of 1,000
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    tokens: usize,

    /// How many rounds there are of each sort; they take turns
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,

    /// The PostgreSQL to run: a version such as 15 or 18, or the folder of its programs
    #[arg(long, value_name = "VERSION", value_parser = Wanted::parse)]
    postgres: Option<Wanted>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut command = match &options.what {
        What::Migrations { rows } => database("time-migrations", *rows),
        What::Package => program("package")?,
        What::Requests { rounds } => database("time-requests", *rounds),
        What::Start => program("start")?,
        What::Drain(settings) => {
            let mut command = drain(settings.tokens, settings.rounds, settings.postgres.as_ref())?;
            if settings.alone {
                command.arg("--what=alone");
            } else {
                node::install(&workspace().join("tests/bench/peers"))?;
                command.env("MAILROOM_BENCH_NODE", node::newest()?);
            }
            command
        }
        What::Pinned(settings) => {
            let mut command = drain(settings.tokens, settings.rounds, settings.postgres.as_ref())?;
            command.arg("--what=pinned");
            command
        }
        What::Memory(settings) => {
            let mut command = drain(settings.tokens, settings.rounds, settings.postgres.as_ref())?;
            command.arg("--what=memory");
            command
        }
        What::Latency { tokens, postgres } => {
            waking(postgres.as_ref(), ["latency".to_owned(), format!("--tokens={tokens}")])?
        }
        What::Wake { rounds, seconds, postgres } => waking(
            postgres.as_ref(),
            ["wake".to_owned(), format!("--rounds={rounds}"), format!("--seconds={seconds}")],
        )?,
        What::Timing => program("timing")?,
        What::Verify => verify()?,
    };
    if options.json {
        ensure!(
            !matches!(options.what, What::Migrations { .. } | What::Requests { .. }),
            "this has no --json"
        );
        command.arg("--json");
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot run {program}"))?;
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

fn drain(tokens: usize, rounds: usize, postgres: Option<&Wanted>) -> Result<Command> {
    let wanted = postgres.cloned().map_or_else(Wanted::from_environment, Ok)?;
    let installation = Installation::find(&wanted)?;
    eprintln!("building mailroom and the benchmark, optimized ...");
    let built = tools::cargo(["build"].into_iter().chain(DRAIN)).status().context("cannot run cargo")?;
    ensure!(built.success(), "the benchmark does not compile");
    let mut command = Command::new(target_folder().join("release/mailroom-drain"));
    command.arg(format!("--tokens={tokens}")).arg(format!("--rounds={rounds}"));
    command.env("MAILROOM_TEST_PROGRAM", target_folder().join("release/mailroom"));
    command.env("MAILROOM_TEST_POSTGRES", installation.programs);
    Ok(command)
}

fn waking(postgres: Option<&Wanted>, arguments: impl IntoIterator<Item = String>) -> Result<Command> {
    let wanted = postgres.cloned().map_or_else(Wanted::from_environment, Ok)?;
    let installation = Installation::find(&wanted)?;
    eprintln!("building mailroom and the benchmark, optimized ...");
    let built = tools::cargo(["build"].into_iter().chain(WAKING)).status().context("cannot run cargo")?;
    ensure!(built.success(), "the benchmark does not compile");
    let mut command = Command::new(target_folder().join("release/mailroom-waking"));
    command.args(arguments);
    command.env("MAILROOM_TEST_PROGRAM", target_folder().join("release/mailroom"));
    command.env("MAILROOM_TEST_POSTGRES", installation.programs);
    Ok(command)
}

fn folder(name: &str) -> PathBuf {
    target_folder().join("consumers").join(format!("bench-{name}"))
}
