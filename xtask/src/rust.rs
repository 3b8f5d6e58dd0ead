//! The tests that cargo runs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use mailroom_tests::postgres::{Cluster, Wanted};
use mailroom_tests::tools::workspace;

use crate::lint::CORE_TARGETS;
use crate::step::Steps;
use crate::tools;

/// What a test that runs against PostgreSQL has in its text. It runs on each version, the others once.
const DATABASE_MARK: &str = "mailroom_tests::postgres";

/// Unit tests, documentation tests, and those of `tests/` that need no database.
pub(crate) fn without_database(steps: &mut Steps) {
    steps.command("tests without a database", || {
        tools::add_targets(&CORE_TARGETS)?;
        let mut command = tools::cargo(["test", "--workspace", "--no-fail-fast", "--lib", "--bins"]);
        select(&mut command, |source| !source.contains(DATABASE_MARK))?;
        Ok(command)
    });
    steps.command("documentation tests", || Ok(tools::cargo(["test", "--workspace", "--doc"])));
}

/// The tests that need a database, on each version.
pub(crate) fn with_database(steps: &mut Steps, versions: &[Wanted]) {
    // Built once, because otherwise each test program would ask cargo for it.
    steps.command("build mailroom", || Ok(tools::cargo(["build", "--workspace", "--bins"])));
    // A server that the caller provides stands for the one that would be started.
    let provided = versions == [Wanted::Any] && env::var_os("MAILROOM_TEST_DATABASE_URL").is_some();
    for wanted in versions {
        if provided {
            steps.command("tests on the provided PostgreSQL", database_tests);
            continue;
        }
        let Some(server) =
            steps.task(&format!("start {wanted}"), || Cluster::builder().version(wanted.clone()).start())
        else {
            continue;
        };
        let installation = server.installation();
        steps.command(&format!("tests on PostgreSQL {}", installation.major), || {
            let mut command = database_tests()?;
            command.env("MAILROOM_TEST_POSTGRES", &installation.programs);
            command.env("MAILROOM_TEST_DATABASE_URL", server.url("postgres"));
            Ok(command)
        });
    }
}

fn database_tests() -> Result<Command> {
    let mut command = tools::cargo(["test", "--workspace", "--no-fail-fast"]);
    command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
    select(&mut command, |source| source.contains(DATABASE_MARK))?;
    Ok(command)
}

/// Names the integration tests whose text is as asked for.
fn select(command: &mut Command, wanted: impl Fn(&str) -> bool) -> Result<()> {
    for file in integration_tests()? {
        let source = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if wanted(&source) {
            command.arg("--test").arg(file.file_stem().unwrap_or_default());
        }
    }
    Ok(())
}

/// The files `tests/*.rs` of all packages, sorted.
fn integration_tests() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for package in entries(workspace())?.into_iter().filter(|folder| folder.join("Cargo.toml").is_file()) {
        let tests = package.join("tests");
        if tests.is_dir() {
            files.extend(
                entries(&tests)?.into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs")),
            );
        }
    }
    files.sort();
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}
