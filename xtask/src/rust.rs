//! The tests that cargo runs.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::postgres::{Cluster, Installation, Wanted};
use mailroom_tests::tools::workspace;

use crate::step::{Prepared, Steps};
use crate::test::Extent;
use crate::tools;

/// What the core compiles for besides this machine: a browser, and a processor without an operating system.
pub(crate) const TARGETS: [&str; 2] = ["wasm32-unknown-unknown", "thumbv7em-none-eabi"];

/// The step that compiles everything.
pub(crate) const BUILD: &str = "build";

/// Where the test programs of cargo are.
const FOLDERS: [&str; 3] = ["tests/properties/tests", "tests/tests", "verifier-core/tests"];

/// The program of all tests that need a server, and the one of those under fault. They wait more than they work, so that many of
/// them run at the same time.
const DATABASE: &str = "database";
const FAULTS: &str = "faults";
const AT_ONCE: &str = "12";

/// What of the program `database` depends on the version of the server: rights, functions, locks, plans, and connecting. The
/// rest is about the collector, and runs on the first version unless everything is asked for.
const OF_THE_VERSION: [&str; 14] = [
    "accounts::",
    "connecting::",
    "cursor::cost",
    "database_document::",
    "deliveries::",
    "execution_rights::",
    "migrations::",
    "operating::",
    "preflight::",
    "recovery_codes::",
    "redeeming",
    "requesting::",
    "token_rows::",
    "waking::reasons",
];

/// Compiles all that the tests run, at once: builds of fewer targets would choose other features for the same dependencies, and
/// compile them again.
pub(crate) fn build(steps: &mut Steps) {
    steps.later(BUILD, &[], || {
        tools::add_targets(&TARGETS)?;
        Ok(tools::cargo(["build", "--workspace", "--lib", "--bins", "--tests"]).into())
    });
}

/// Unit tests, documentation tests, and those of `tests/` that need no database.
pub(crate) fn without_database(steps: &mut Steps) {
    build(steps);
    steps.later("tests without a database", &[BUILD], || {
        let mut command = tools::cargo(["test", "--workspace", "--no-fail-fast", "--lib", "--bins"]);
        for test in test_programs()?.into_iter().filter(|name| name != DATABASE && name != FAULTS) {
            command.arg("--test").arg(test);
        }
        command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
        Ok(command.into())
    });
    steps.later(
        "documentation tests",
        &[BUILD],
        || Ok(tools::cargo(["test", "--workspace", "--doc"]).into()),
    );
}

/// The tests that need a server, all on the first version, and on each other what depends on it.
pub(crate) fn with_database(steps: &mut Steps, extent: &Extent) {
    build(steps);
    // A server that the caller provides stands for the one that would be started.
    let provided = extent.versions == [Wanted::Any] && env::var_os("MAILROOM_TEST_DATABASE_URL").is_some();
    for (number, wanted) in extent.versions.iter().enumerate() {
        let (extent, wanted) = (extent.clone(), wanted.clone());
        let title = if provided { "the provided PostgreSQL".to_owned() } else { wanted.to_string() };
        steps.later(&format!("tests on {title}"), &[BUILD], move || {
            let mut command = tests(&extent, DATABASE)?;
            if number > 0 && !extent.full {
                command.args(OF_THE_VERSION);
            }
            if provided {
                return Ok(command.into());
            }
            let server = Cluster::builder().version(wanted).start()?;
            command.env("MAILROOM_TEST_POSTGRES", &server.installation().programs);
            command.env("MAILROOM_TEST_DATABASE_URL", server.url("postgres"));
            Ok(Prepared::with_server(command, server))
        });
    }
}

/// Every fault that the promises of the queue name, on the first version.
pub(crate) fn faults(steps: &mut Steps, extent: &Extent) {
    let Some(wanted) = extent.versions.first().cloned() else { return };
    build(steps);
    let extent = extent.clone();
    steps.later("tests under fault", &[BUILD], move || {
        let mut command = tests(&extent, FAULTS)?;
        command.env("MAILROOM_TEST_POSTGRES", Installation::find(&wanted)?.programs);
        // They stop servers, so they need their own.
        command.env_remove("MAILROOM_TEST_DATABASE_URL");
        Ok(command.into())
    });
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

/// A test program; of the whole workspace, as it was built: one package alone would choose other features.
fn tests(extent: &Extent, program: &str) -> Result<Command> {
    let mut command = tools::cargo(["test", "--workspace", "--no-fail-fast", "--test", program]);
    command.args(["--", "--test-threads", AT_ONCE]);
    command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
    extent.tell(&mut command);
    Ok(command)
}

/// `NAME.rs` or `NAME/main.rs`.
fn test_programs() -> Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for folder in FOLDERS {
        let entries =
            fs::read_dir(workspace().join(folder)).with_context(|| format!("cannot read {folder}"))?;
        for entry in entries {
            names.extend(entry?.path().file_stem().map(ToOwned::to_owned));
        }
    }
    Ok(names)
}
