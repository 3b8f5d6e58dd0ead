//! The web demonstration: what it is built from, and its tests.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::Cluster;
use mailroom_tests::tools::{target_folder, workspace};

use crate::consumers::{self, PACK};
use crate::rust::{self, BUILD};
use crate::step::{Prepared, Steps};
use crate::test::Extent;
use crate::{node, npm, tools};

const SITE: &str = "pages of the web demonstration";

/// The demonstration, built.
pub(crate) struct Site(PathBuf);

impl Site {
    /// Runs its program `stage` or `once`.
    pub(crate) fn command(&self, program: &str) -> Result<Command> {
        let mut command = node::command()?;
        command.arg(self.0.join("node").join(program).with_extension("js"));
        self.set_variables(&mut command)?;
        Ok(command)
    }

    /// Tells where the other programs are.
    fn set_variables(&self, command: &mut Command) -> Result<()> {
        command.env("MAILROOM_DEMO_SITE", &self.0).env("MAILROOM_DEMO_WORKERD", workerd()?);
        command.env("MAILROOM_DEMO_XTASK", tools::built("xtask")?);
        command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
        Ok(())
    }
}

/// Builds the programs for Node and, if it `is_whole`, the pages and the edge function with the packed npm package.
pub(crate) fn build(is_whole: bool) -> Result<Site> {
    node::install(&source())?;
    let site = site(is_whole);
    let mut command = node::command()?;
    command.arg(source().join("build.mjs")).arg(&site.0);
    if is_whole {
        command.arg(npm::tarball()?);
    }
    let output = command.output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "web-demo/build.mjs failed:\n{complaint}");
    Ok(site)
}

/// Where it is built.
pub(crate) fn site(is_whole: bool) -> Site {
    Site(target_folder().join(if is_whole { "web-demo" } else { "web-demo-once" }))
}

/// The demonstration in Chromium, on the first of the versions: what differs between them other parts look at.
pub(crate) fn test(steps: &mut Steps, extent: &Extent) {
    rust::build(steps);
    consumers::pack(steps);
    steps.later("formatting and lints of the web demonstration", &[PACK], || {
        Ok(consumers::biome(&source()).into())
    });
    steps.later(SITE, &[PACK], || build(true).map(|_| Prepared::default()));
    steps.later("types of the web demonstration", &[SITE], || {
        let mut command = node::command()?;
        command.arg("check.mjs").current_dir(source());
        Ok(command.into())
    });
    let Some(wanted) = extent.versions.first().cloned() else { return };
    let extent = extent.clone();
    steps.later(&format!("web demonstration on {wanted}"), &[BUILD, SITE], move || {
        let server = Cluster::builder().version(wanted).start()?;
        let mut command = node::command()?;
        command.arg(workspace().join("tests/web/main.mjs")).arg(target_folder().join("consumers/web"));
        command.env("MAILROOM_TEST_DATABASE_URL", server.url("postgres"));
        site(true).set_variables(&mut command)?;
        extent.tell(&mut command);
        Ok(Prepared::with_server(command, server))
    });
}

fn source() -> PathBuf {
    workspace().join("web-demo")
}

/// npm may be told not to run install scripts, so it is taken from the package of its platform.
fn workerd() -> Result<PathBuf> {
    let script = "const { platform, arch } = process; \
                  console.log(`workerd-${platform}-${arch === 'x64' ? '64' : arch}`)";
    let output = node::command()?.args(["--eval", script]).output().context("cannot run node")?;
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let program = source().join("node_modules/@cloudflare").join(&name).join("bin/workerd");
    ensure!(program.is_file(), "npm has no workerd for this machine, which @cloudflare/{name} would be");
    Ok(program)
}
