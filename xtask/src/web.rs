//! The web demonstration: what it is built from, and its tests.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::{Cluster, Wanted};
use mailroom_tests::tools::{target_folder, workspace};

use crate::step::Steps;
use crate::{node, npm, rust, tools};

/// What the demonstration runs besides programs of cargo.
pub(crate) struct Site {
    folder: PathBuf,
    workerd: PathBuf,
}

impl Site {
    /// Tells the demonstration where it is.
    pub(crate) fn name_to(&self, demonstration: &mut Command) {
        demonstration.env("MAILROOM_DEMO_SITE", &self.folder).env("MAILROOM_DEMO_WORKERD", &self.workerd);
    }
}

/// Builds the pages, the edge function with the packed npm package, and the services.
pub(crate) fn build() -> Result<Site> {
    let (tarball, source, folder) = (npm::tarball()?, source(), target_folder().join("web-demo"));
    node::install(&source)?;
    let output = node::command()?.arg(source.join("build.mjs")).arg(tarball).arg(&folder).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "web-demo/build.mjs failed:\n{complaint}");
    Ok(Site { folder, workerd: workerd()? })
}

/// The demonstration in Chromium, on the first of the versions: what differs between them other parts look at.
pub(crate) fn test(steps: &mut Steps, versions: &[Wanted]) {
    steps.command("formatting and lints of the web demonstration", || {
        node::install(&source())?;
        let mut command = Command::new(source().join("node_modules/.bin/biome"));
        command.args(["ci", "--colors=off", "."]).current_dir(source());
        Ok(command)
    });
    steps.command("types of the web demonstration", || {
        build()?;
        let mut command = node::command()?;
        command.arg("check.mjs").current_dir(source());
        Ok(command)
    });
    steps.later("handlers of the web demonstration's README", None, handlers());
    let Some(wanted) = versions.first() else { return };
    if !rust::build(steps) {
        return;
    }
    let title = format!("web demonstration on {wanted}");
    let server =
        steps.task(&format!("start {wanted}"), || Cluster::builder().version(wanted.clone()).start());
    if let Some(server) = server {
        let command = in_browser(&server);
        steps.later(&title, Some(server), command);
    }
}

fn in_browser(server: &Cluster) -> Result<Command> {
    node::install_test_tools()?;
    let mut command = node::command()?;
    command.arg(workspace().join("tests/web/main.mjs")).arg(tools::built("mailroom-demo")?);
    command.arg(target_folder().join("consumers/web"));
    command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
    command.env("MAILROOM_TEST_DATABASE_URL", server.url("postgres"));
    build()?.name_to(&mut command);
    Ok(command)
}

/// What the README shows for other frameworks, with the real ones.
fn handlers() -> Result<Command> {
    let folder = workspace().join("tests/handlers");
    node::install_test_tools()?;
    node::install(&folder)?;
    let mut command = node::command()?;
    command.arg(folder.join("main.mjs")).arg(npm::tarball()?).arg(target_folder().join("consumers/handlers"));
    Ok(command)
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
