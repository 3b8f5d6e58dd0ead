//! `cargo xtask bench`: what is measured, never tested, because times depend on the machine.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use mailroom_tests::postgres::Cluster;
use mailroom_tests::tools::{target_folder, workspace};

use crate::dist::PROFILE;
use crate::execute::watch;
use crate::{consumers, node, npm, tools};

/// Subcommands of `tests/bench`.
const OF_THE_COLLECTOR: [&str; 14] = [
    "adaptive",
    "capacity",
    "drain",
    "pinned",
    "memory",
    "latency",
    "wake",
    "migrations",
    "relay",
    "requests",
    "scale",
    "send",
    "soak",
    "wal",
];

/// Measures the npm package and the collector
#[derive(clap::Args)]
#[command(
    after_help = "capacity, drain, pinned, memory, latency, wake, migrations, relay, requests, \
                  scale, send, soak, wal: on a throwaway PostgreSQL; adaptive: a simulated day; \
                  `cargo xtask bench drain --help` lists their options"
)]
pub(crate) struct Options {
    #[command(subcommand)]
    benchmark: Benchmark,

    /// Print one line of JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Benchmark {
    /// The bytes of the npm package: its module, its inlined entry minified
    /// and gzipped, the tarball
    Package,
    /// What the stores of used tokens carry with 1, 8 and 64 visitors at the same time, and how
    /// many forged links a Worker refuses, beside one with jose
    Edge {
        /// Where to draw the stores as a plot, such as docs/pictures/edge.svg
        #[arg(long, value_name = "FILE")]
        plot: Option<PathBuf>,
    },
    /// The start of a Node process that imports the npm package and verifies a first token, beside
    /// an empty one
    Start,
    /// Whether the time of a verification in the npm package's module depends
    /// on the tag (Welch's t-test)
    Timing,
    /// One verification by the npm package in Node, beside other ways to do it and the native core
    Verify,
    #[command(external_subcommand)]
    Collector(Vec<OsString>),
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    // Ended when nothing needs it any more.
    let mut server = None;
    let mut command = match &options.benchmark {
        Benchmark::Edge { plot } => {
            let mut command = program("edge")?;
            let cluster = Cluster::builder().start()?;
            consumers::lead(&mut command, cluster.socket_dir(), &cluster);
            server = Some(cluster);
            if let Some(file) = plot {
                command.arg(format!("--plot={}", file.display()));
            }
            command
        }
        Benchmark::Package => program("package")?,
        Benchmark::Start => program("start")?,
        Benchmark::Timing => program("timing")?,
        Benchmark::Verify => {
            // `native.mjs` starts it the same way once it is compiled.
            let native = [
                "bench",
                "--quiet",
                "--package=mailroom-verifier-core",
                "--bench=verify",
                "--no-run",
            ];
            watch(&mut tools::cargo(native), "build the native benchmark")?;
            program("verify")?
        }
        Benchmark::Collector(arguments) => collector(arguments)?,
    };
    if options.json {
        command.arg("--json");
    }
    let status = command.stdin(Stdio::null()).status().context("the benchmark does not start")?;
    drop(server);
    Ok(ExitCode::from(u8::from(!status.success())))
}

/// The program `bench/NAME/main.mjs` or `bench/NAME.mjs` of the package's tests, which is given the
/// packed package and a folder to install it into.
fn program(name: &str) -> Result<Command> {
    let tarball = npm::tarball()?;
    node::install(npm::TESTS)?;
    let folder = target_folder().join("consumers").join(format!("bench-{name}"));
    let mut command = node::command()?;
    let of_its_own = workspace().join(npm::TESTS).join("bench").join(name);
    let main = of_its_own.join("main.mjs");
    command.arg(if main.is_file() { main } else { of_its_own.with_extension("mjs") });
    command
        .arg(format!("--tarball={}", tarball.display()))
        .arg(format!("--folder={}", folder.display()));
    Ok(command)
}

/// The crate `tests/bench`, as programs are built that are shipped; it builds `mailroom` the same
/// way.
fn collector(arguments: &[OsString]) -> Result<Command> {
    let name = arguments.first().context("a benchmark is named")?;
    if !OF_THE_COLLECTOR.iter().any(|known| name == known) {
        bail!("there is no benchmark `{}`: see `cargo xtask bench --help`", name.display());
    }
    let mut command =
        tools::cargo(["run", "--profile", PROFILE, "--package", "mailroom-bench", "--"]);
    command.args(arguments);
    let is = |word: &str| arguments.iter().any(|argument| argument == word);
    if (is("drain") || is("send")) && !is("--alone") && !is("--help") {
        node::install("tests/bench/peers")?;
        node::install(npm::TESTS)?;
        command
            .env("MAILROOM_BENCH_NODE", node::program(npm::TESTS, "node-newest", "x64", "node")?);
    }
    Ok(command)
}
