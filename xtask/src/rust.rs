//! The tests that cargo runs.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::postgres::{Cluster, Installation, Wanted};
use mailroom_tests::tools::workspace;

use crate::lint::CORE_TARGETS;
use crate::step::Steps;
use crate::tools;

/// The tests under fault. They take long and mostly wait, so they run once, and more of them at the same time.
const FAULTS: [&str; 2] = ["faults", "full_disk"];

/// How many of them run at the same time: each waits for leases, servers and stalls most of its time.
const FAULTS_AT_ONCE: &str = "8";

/// How many tests of one program run at the same time against a database: they wait more than they work, too, though not so long.
const DATABASE_TESTS_AT_ONCE: &str = "4";

/// What a test that runs against PostgreSQL has in its text. It runs on each version, the others once.
const DATABASE_MARKS: [&str; 2] = ["Database::", "Cluster::"];

/// Everything that the tests run, compiled at once: several builds with fewer targets each would choose other
/// features for the same dependencies and compile them again. Returns whether there is something to test.
pub(crate) fn build(steps: &mut Steps) -> bool {
    const TITLE: &str = "build";
    if !steps.has_run(TITLE) {
        steps.command(TITLE, || {
            tools::add_targets(&CORE_TARGETS)?;
            Ok(tools::cargo(["build", "--workspace", "--lib", "--bins", "--tests"]))
        });
    }
    steps.has_passed(TITLE)
}

/// Unit tests, documentation tests, and those of `tests/` that need no database.
pub(crate) fn without_database(steps: &mut Steps) {
    if !build(steps) {
        return;
    }
    steps.command("tests without a database", || {
        let mut command = tools::cargo(["test", "--workspace", "--no-fail-fast", "--lib", "--bins"]);
        select(&mut command, |source| !needs_database(source))?;
        Ok(command)
    });
    steps.command("documentation tests", || Ok(tools::cargo(["test", "--workspace", "--doc"])));
}

/// The tests that need a database, on each version.
pub(crate) fn with_database(steps: &mut Steps, versions: &[Wanted]) {
    if !build(steps) {
        return;
    }
    // A server that the caller provides stands for the one that would be started.
    let provided = versions == [Wanted::Any] && env::var_os("MAILROOM_TEST_DATABASE_URL").is_some();
    if provided {
        steps.command("tests on the provided PostgreSQL", database_tests);
        return;
    }
    for wanted in versions {
        let Some(server) =
            steps.task(&format!("start {wanted}"), || Cluster::builder().version(wanted.clone()).start())
        else {
            continue;
        };
        let installation = server.installation();
        let command = database_tests().map(|mut command| {
            command.env("MAILROOM_TEST_POSTGRES", &installation.programs);
            command.env("MAILROOM_TEST_DATABASE_URL", server.url("postgres"));
            command
        });
        let title = format!("tests on PostgreSQL {}", installation.major);
        steps.later(&title, Some(server), command);
    }
}

/// Every fault that the promises of the queue name, in a short form, on the first version.
pub(crate) fn faults(steps: &mut Steps, versions: &[Wanted]) {
    let Some(wanted) = versions.first().filter(|_| build(steps)) else { return };
    let command = Installation::find(wanted).and_then(|installation| {
        // Of the whole workspace, as they were built: one package alone would choose other features.
        let mut command = tools::cargo(["test", "--workspace", "--no-fail-fast"]);
        command.args(FAULTS.iter().flat_map(|name| ["--test", name]));
        command.args(["--", "--test-threads", FAULTS_AT_ONCE]);
        command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
        command.env("MAILROOM_TEST_POSTGRES", installation.programs);
        // They stop servers, so they need their own.
        command.env_remove("MAILROOM_TEST_DATABASE_URL");
        Ok(command)
    });
    steps.later("tests under fault", None, command);
}

/// Faults of every kind at random, for some time.
pub(crate) fn chaos(duration: Duration, seed: u64, wanted: &Wanted) -> Result<Command> {
    let installation = Installation::find(wanted)?;
    let mut command = Command::new(tools::built("chaos")?);
    command.arg(duration.as_secs().to_string()).arg(seed.to_string()).arg("--until-input-ends");
    command.stdin(Stdio::piped());
    command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
    command.env("MAILROOM_TEST_POSTGRES", installation.programs);
    Ok(command)
}

fn database_tests() -> Result<Command> {
    let mut command = tools::cargo(["test", "--workspace", "--no-fail-fast"]);
    command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
    command.env("RUST_TEST_THREADS", DATABASE_TESTS_AT_ONCE);
    select(&mut command, needs_database)?;
    Ok(command)
}

fn needs_database(source: &str) -> bool {
    DATABASE_MARKS.iter().any(|mark| source.contains(mark))
}

/// Names the integration tests whose text is as asked for, without those under fault.
fn select(command: &mut Command, wanted: impl Fn(&str) -> bool) -> Result<()> {
    for test in integration_tests()? {
        let is_under_fault = FAULTS.iter().any(|name| test.name == *name);
        if !is_under_fault && wanted(&test.source) {
            command.arg("--test").arg(test.name);
        }
    }
    Ok(())
}

/// A test program of cargo: `tests/NAME.rs`, or `tests/NAME/main.rs` with the files beside it.
struct IntegrationTest {
    name: OsString,
    source: String,
}

/// Those of all packages, sorted by their paths.
fn integration_tests() -> Result<Vec<IntegrationTest>> {
    let mut tests = Vec::new();
    let packages = entries(workspace())?.into_iter().chain(entries(&workspace().join("tests"))?);
    for package in packages {
        let folder = package.join("tests");
        if !package.join("Cargo.toml").is_file() || !folder.is_dir() {
            continue;
        }
        for path in entries(&folder)? {
            let files = if path.join("main.rs").is_file() { entries(&path)? } else { vec![path.clone()] };
            let files: Vec<PathBuf> = files.into_iter().filter(|file| is_rust(file)).collect();
            if let (Some(name), false) = (path.file_stem(), files.is_empty()) {
                let sources = files.iter().map(|file| read(file)).collect::<Result<_>>()?;
                tests.push(IntegrationTest { name: name.to_owned(), source: sources });
            }
        }
    }
    Ok(tests)
}

fn is_rust(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "rs")
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}
