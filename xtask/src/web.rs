//! The web demonstration: what it is built from, and its tests.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools::{target_folder, workspace};

use crate::{node, npm};

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
    let (tarball, source, folder) = (npm::tarball()?, workspace().join("web-demo"), target_folder().join("web-demo"));
    node::install(&source)?;
    let output = node::command()?.arg(source.join("build.mjs")).arg(tarball).arg(&folder).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "web-demo/build.mjs failed:\n{complaint}");
    Ok(Site { folder, workerd: workerd()? })
}

/// npm may be told not to run install scripts, so it is taken from the package of its platform.
fn workerd() -> Result<PathBuf> {
    let script = "const { platform, arch } = process; \
                  console.log(`workerd-${platform}-${arch === 'x64' ? '64' : arch}`)";
    let output = node::command()?.args(["--eval", script]).output().context("cannot run node")?;
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let program = workspace().join("web-demo/node_modules/@cloudflare").join(&name).join("bin/workerd");
    ensure!(program.is_file(), "npm has no workerd for this machine, which @cloudflare/{name} would be");
    Ok(program)
}
