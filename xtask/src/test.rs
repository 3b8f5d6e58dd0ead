//! `cargo xtask test`: everything that must pass.

use std::env;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use mailroom_tests::tools::workspace;

use crate::extent::Extent;
use crate::load::Load;
use crate::step::Steps;
use crate::{consumers, demo, node, npm, python, rust, tools};

/// How long a step of `--full` may print nothing: one test kills a thousand times.
const LONG_SILENCE: Duration = Duration::from_secs(4 * 3_600);

/// What reads workflows and the compose file.
const PACKAGING: &str = "packaging/test/lint";

/// A part of the suite that can be asked for by name. In the order in which they start: the
/// formatting, then the longest first.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// the formatting of the Rust code
    Fmt,
    /// the web demonstration in Chromium, and how it is deployed
    Web,
    /// tests against PostgreSQL: all on the first version, on others what depends on the version
    Database,
    /// the lints, warnings being errors, of all targets and of the npm package's modules
    Clippy,
    /// the packed npm package on Node, Deno, Bun and workerd, and in Jest
    Runtimes,
    /// unit and documentation tests, others that need no database, and the core's crate
    Rust,
    /// the packed npm package through bundlers and in frameworks
    Bundlers,
    /// the npm package: its sources, its module, its types, its command line, its README; the pages
    /// of the book's start; mails of other programs
    Npm,
    /// every fault there is, on the first PostgreSQL version
    Faults,
    /// the stores of used tokens, against Redis, PostgreSQL, workerd,
    /// Deno and an emulator of `DynamoDB`; clients of the database, on PostgreSQL
    Stores,
    /// the client for Python: its sources, its types, what it does on PostgreSQL, its README
    Python,
    /// the packed npm package in Chromium, the inbox of `mailroom dev`, and `mailroom ui`
    Browser,
    /// workflows and the compose file, with --full the size of the static program;
    /// `cargo xtask dist --test` tries what a release consists of
    Packaging,
    /// the demonstration, which must verify every token, on every PostgreSQL version
    Demo,
}

impl Part {
    fn add(self, steps: &mut Steps, extent: Extent) -> Result<()> {
        let suite = |steps: &mut Steps, title, name| consumers::suite(steps, extent, title, name);
        match self {
            Self::Fmt => rust::formatting(steps),
            Self::Web => {
                demo::test_pages(steps, extent);
                if extent.groups.is_empty() {
                    demo::test_deployment(steps, extent);
                }
            }
            Self::Database => rust::with_database(steps, extent),
            Self::Faults => rust::faults(steps, extent),
            Self::Clippy => rust::clippy(steps),
            Self::Runtimes => {
                suite(steps, "package on Node, Deno, Bun, workerd", "runtimes");
                suite(steps, "package in Jest", "jest");
                consumers::biome(steps, "lints of the tests in JavaScript", npm::TESTS);
            }
            Self::Rust => {
                rust::without_database(steps);
                rust::core_package(steps);
            }
            Self::Bundlers => {
                suite(steps, "package in applications of frameworks", "frameworks");
                suite(steps, "handler of links, in Chromium and in frameworks", "link_handler");
                suite(steps, "package through bundlers", "bundlers");
            }
            Self::Stores => {
                consumers::stores(steps, extent)?;
                consumers::adapters(steps, extent);
            }
            Self::Python => python::client(steps, extent),
            Self::Browser => {
                suite(steps, "package in Chromium", "browser");
                consumers::inbox(steps, extent);
                consumers::screen(steps);
            }
            Self::Npm => {
                consumers::package(steps, extent);
                suite(steps, "README of the package, followed", "readme");
                consumers::start(steps, extent);
                consumers::mails(steps);
            }
            Self::Packaging => {
                steps.add("workflows and the compose file", &[], || {
                    node::install(PACKAGING)?;
                    let mut command = node::command()?;
                    command.arg("--test").arg(workspace().join(PACKAGING).join("main.mjs"));
                    Ok(command)
                });
                // Linking it takes longer than most parts.
                if extent.full {
                    steps.add("the size of the static program", &[], || {
                        let mut command = Command::new(env::current_exe()?);
                        command.args(["dist", "--size", "--processor", "x86_64"]);
                        Ok(command)
                    });
                }
            }
            Self::Demo => demo::test_once(steps, extent),
        }
        Ok(())
    }
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to run, in the order below; everything unless something is named
    parts: Vec<Part>,

    /// Everything there is, in its long form: every test on every PostgreSQL version, 20,000 tokens
    /// under each fault, the whole suite in every way to load the npm package
    #[arg(long)]
    full: bool,

    /// The PostgreSQL versions of the database tests: `15`, `15,18`, or `all` that are installed or
    /// can be fetched. By default the one that is found first; both 15 and 18 with --full and where
    /// the variable CI is set
    #[arg(long, value_name = "VERSIONS")]
    postgres: Option<String>,

    /// Run this many busy processes for each core beside the tests; they end with the run. What
    /// passes with 2 passes on a machine that does much else
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    load: Option<u8>,

    /// With the part `web` alone: words of the title of the groups to run, --order=reverse,
    /// or --order=N for a random order
    #[arg(last = true, value_name = "GROUPS", conflicts_with = "chaos")]
    groups: Vec<String>,

    /// Instead: inject faults of every kind at random for this long, such as 30m, and check the
    /// whole history of the queue
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with = "parts")]
    chaos: Option<Duration>,

    /// What the faults of --chaos follow from, to repeat a run; a new one unless it is given
    #[arg(long, value_name = "N", requires = "chaos")]
    seed: Option<u64>,

    /// With --chaos: faults of these brokers between a collector and senders, and of all around
    /// them; `nats`, `rabbitmq`, or both with a comma, this long each
    #[arg(long, value_name = "BROKERS", requires = "chaos")]
    broker: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    ensure!(
        options.groups.is_empty() || options.parts == [Part::Web],
        "only the part web has groups to choose"
    );
    let extent = Extent::new(options.postgres.as_deref(), options.full, &options.groups)?;
    let _load = options.load.map(|per_core| Load::start(per_core.into())).transpose()?;
    let mut steps = if options.full { Steps::with_silence(LONG_SILENCE) } else { Steps::new() };
    if let Some(duration) = options.chaos {
        rust::build(&mut steps);
        let Some(wanted) = extent.versions.first().filter(|_| steps.run()) else {
            return Ok(steps.summary());
        };
        let seed = options.seed.unwrap_or_else(|| tools::new_seed().into());
        // It tells itself how far it is.
        let mut chaos = rust::chaos(duration, seed, options.broker.as_deref(), wanted)?
            .spawn()
            .context("cannot run the chaos")?;
        // Held until it has ended: if a signal ends this process alone, the chaos hears that its
        // input has ended.
        let _input = chaos.stdin.take();
        return Ok(ExitCode::from(u8::from(!chaos.wait()?.success())));
    }
    for part in Part::value_variants() {
        if options.parts.is_empty() || options.parts.contains(part) {
            part.add(&mut steps, extent)?;
        }
    }
    steps.run();
    Ok(steps.summary())
}

/// Reads `90s`, `30m` or `2h`.
fn span(text: &str) -> Result<Duration> {
    let units = [("s", 1), ("m", 60), ("h", 3_600)];
    let seconds = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds).filter(|seconds| *seconds > 0)
    });
    seconds.map(Duration::from_secs).context("a time such as 90s, 30m or 2h is needed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_a_number_and_a_unit() {
        assert_eq!(span("30m").unwrap(), Duration::from_secs(1_800));
        assert_eq!(span("90s").unwrap(), Duration::from_secs(90));
        for text in ["", "30", "m", "0s", "-1m", "1.5h", "99999999999999999999h"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
