//! The steps that cargo does: lints, builds and tests.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom_tests::postgres::{Cluster, Wanted};

use crate::execute::{SILENCE, execute};
use crate::extent::Extent;
use crate::step::Steps;
use crate::{npm, tools};

/// What the core compiles for besides this machine:
/// a browser, and a processor without an operating system.
const TARGETS: [&str; 2] = [npm::WASM, "thumbv7em-none-eabi"];

/// The step that compiles everything.
pub(crate) const BUILD: &str = "build";

const CLIPPY: &str = "clippy";

/// Where packages of the workspace are.
const FOLDERS: [&str; 3] = ["", "crates", "tests"];

/// The program of all tests that need a server, and the one of those under fault.
const DATABASE: &str = "database";
const FAULTS: &str = "faults";

/// What of the program `database` depends on the version of the server: rights, functions, locks,
/// plans, and connecting. The rest is about the collector or a clock, and runs on the first version
/// unless everything is asked for.
const OF_THE_VERSION: [&str; 15] = [
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
    "--skip=deliveries::rate",
];

/// What runs `pg_dump`, which only Debian's packages have, on the first version alone.
const OF_PG_DUMP: [&str; 2] =
    ["--skip=any_account::secrets::", "--skip=migrations::schema_name::dumps::"];

/// Tests wait more than they work.
const MORE_THREADS: [&str; 3] = ["--", "--test-threads", "12"];

pub(crate) fn formatting(steps: &mut Steps) {
    steps.add("formatting", &[], || {
        tools::add("component", &["rustfmt"])?;
        Ok(tools::cargo(["fmt", "--all", "--check"]))
    });
}

/// Everything once for this machine, and the modules of the npm package, whose code is compiled for
/// nothing else, with the core.
pub(crate) fn clippy(steps: &mut Steps) {
    let mut add = |title: &str, needs: &[&'static str], arguments: &[&str]| {
        let mut command = tools::cargo(["clippy"]);
        command.args(arguments).args(["--", "-D", "warnings"]);
        steps.add_compiling(title, needs, || {
            tools::add("component", &["clippy"])?;
            tools::add("target", &TARGETS)?;
            Ok(command)
        });
    };
    // After the build, which the tests wait for.
    add(CLIPPY, &[BUILD], &["--workspace", "--all-targets"]);
    // As it is installed: with all members of the workspace it is compiled with all features.
    add("clippy, program by default", &[CLIPPY], &["--package", "mailroom"]);
    let nothing = ["--package", "mailroom", "--no-default-features"];
    add("clippy, program of the least", &[CLIPPY], &nothing);
    for feature in ["shared", "public"] {
        let packages =
            ["--package", "mailroom-verifier-wasm", "--package", "mailroom-verifier-core"];
        let features = format!("mailroom-verifier-wasm/{feature}");
        let features = ["--no-default-features", "--features", &features, "--target", TARGETS[0]];
        let title = format!("clippy, module of {feature} keys");
        add(&title, &[CLIPPY], &[&packages[..], &features].concat());
    }
}

/// Packs the crate of the core as crates.io would get it, without a warning of cargo. Other steps
/// compile its content.
pub(crate) fn core_package(steps: &mut Steps) {
    steps.add("package of the core", &[], || {
        let mut command =
            tools::cargo(["package", "--package", "mailroom-verifier-core", "--locked"]);
        command.args(["--offline", "--allow-dirty", "--no-verify"]);
        let (succeeded, said) = execute(&mut command, SILENCE, |_| ())?;
        ensure!(succeeded && !said.contains("warning"), "{said}");
        Ok(())
    });
}

/// Compiles all that the tests run, at once: builds of fewer targets would choose other features
/// for the same dependencies, and compile them again.
pub(crate) fn build(steps: &mut Steps) {
    steps.add_compiling(BUILD, &[], || {
        tools::add("target", &TARGETS)?;
        Ok(tools::cargo(["build", "--workspace", "--lib", "--bins", "--tests"]))
    });
}

/// Unit tests, documentation tests, and those of `tests/` that need no database.
pub(crate) fn without_database(steps: &mut Steps) {
    build(steps);
    steps.add("tests without a database", &[BUILD], || {
        let mut command =
            tools::cargo(["test", "--workspace", "--no-fail-fast", "--lib", "--bins"]);
        for test in test_programs()?.into_iter().filter(|name| name != DATABASE && name != FAULTS) {
            command.arg("--test").arg(test);
        }
        command.args(MORE_THREADS);
        command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
        Ok(command)
    });
    steps.add_compiling("documentation tests", &[BUILD], || {
        Ok(tools::cargo(["test", "--workspace", "--doc"]))
    });
}

/// The tests that need a server, all on the first version, and on each other what depends on it.
pub(crate) fn with_database(steps: &mut Steps, extent: Extent) {
    build(steps);
    // A server that the caller provides stands for the one that would be started.
    let provided =
        extent.versions == [Wanted::Any] && env::var_os("MAILROOM_TEST_DATABASE_URL").is_some();
    for (number, wanted) in extent.versions.iter().enumerate() {
        let title =
            if provided { "the provided PostgreSQL".to_owned() } else { wanted.to_string() };
        steps.add(&format!("tests on {title}"), &[BUILD], move || {
            let mut command = tests(extent, DATABASE)?;
            if number > 0 {
                let filters = if extent.full { &[][..] } else { &OF_THE_VERSION };
                command.args(filters).args(OF_PG_DUMP);
            }
            if provided {
                return Ok((command, None));
            }
            let server = Cluster::builder().version(wanted.clone()).start()?;
            command.env("MAILROOM_TEST_POSTGRES", &server.installation().programs);
            command.env("MAILROOM_TEST_DATABASE_URL", server.url("postgres"));
            Ok((command, Some(server)))
        });
    }
}

/// Every fault that the promises of the queue name, on the first version.
pub(crate) fn faults(steps: &mut Steps, extent: Extent) {
    let Some(wanted) = extent.versions.first() else { return };
    build(steps);
    steps.add("tests under fault", &[BUILD], move || {
        let mut command = tests(extent, FAULTS)?;
        command.env("MAILROOM_TEST_POSTGRES", wanted.find()?.programs);
        // They stop servers, so they need their own.
        command.env_remove("MAILROOM_TEST_DATABASE_URL");
        Ok(command)
    });
}

/// Faults of every kind at random, for some time; of brokers, if some are named.
pub(crate) fn chaos(
    duration: Duration,
    seed: u64,
    brokers: Option<&str>,
    wanted: &Wanted,
) -> Result<Command> {
    let mut command = Command::new(tools::built("chaos")?);
    command.arg(duration.as_secs().to_string()).arg(seed.to_string()).arg("--until-input-ends");
    if let Some(brokers) = brokers {
        command.args(["--broker", brokers]);
    }
    command.stdin(Stdio::piped()).env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
    command.env("MAILROOM_TEST_POSTGRES", wanted.find()?.programs);
    Ok(command)
}

/// A test program; of the whole workspace, as it was built:
/// one package alone would choose other features.
fn tests(extent: Extent, program: &str) -> Result<Command> {
    let mut command = tools::cargo(["test", "--workspace", "--no-fail-fast", "--test", program]);
    command.args(MORE_THREADS);
    command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
    extent.tell(&mut command);
    Ok(command)
}

/// The test programs of all packages: `tests/NAME.rs` or `tests/NAME/main.rs` of each.
fn test_programs() -> Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for folder in FOLDERS {
        for package in tools::entries(folder)? {
            let tests = package.join("tests");
            if !package.join("Cargo.toml").is_file() || !tests.is_dir() {
                continue;
            }
            for test in tools::entries(tests)? {
                let is_program = test.extension().is_some_and(|extension| extension == "rs")
                    || test.join("main.rs").is_file();
                names.extend(is_program.then(|| test.file_stem()).flatten().map(ToOwned::to_owned));
            }
        }
    }
    Ok(names)
}
