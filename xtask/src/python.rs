//! The client for Python, with the packages of its lock file and a server of its own.

use std::env;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::Cluster;
use mailroom_tests::python;
use mailroom_tests::tools::workspace;

use crate::consumers::lead;
use crate::extent::Extent;
use crate::rust::{self, BUILD};
use crate::step::Steps;
use crate::tools;

const FOLDER: &str = "clients/python";

/// The oldest version of Python that the client is for.
const OLDEST: (u32, u32) = (3, 11);

/// The client's tests, on the first version of PostgreSQL: other clients run on all.
pub(crate) fn client(steps: &mut Steps, extent: Extent) {
    rust::build(steps);
    let Some(wanted) = extent.versions.first() else { return };
    steps.add("client for Python", &[BUILD], move || {
        demand_python()?;
        let packages = python::packages(&format!("{FOLDER}/requirements.txt"))?;
        let packages = packages.context("pip is missing: install python3-pip")?;
        let path = env::join_paths([packages, workspace().join(FOLDER).join("src")])?;
        let server = Cluster::builder().version(wanted.clone()).tcp().start()?;
        let mut command = Command::new("python3");
        command.args(["-m", "pytest"]).current_dir(workspace().join(FOLDER));
        command.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
        lead(&mut command, "127.0.0.1", &server);
        Ok((command, Some(server)))
    });
}

fn demand_python() -> Result<()> {
    let (major, minor) = OLDEST;
    let question = format!("import sys; sys.exit(sys.version_info < ({major}, {minor}))");
    let status = Command::new("python3").args(["-c", &question]).status();
    let is_new = status.is_ok_and(|status| status.success());
    ensure!(is_new, "the client for Python needs python3 of version {major}.{minor} or later");
    Ok(())
}
