//! Node, and what npm installs for the tests.

use std::env::consts;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use mailroom_tests::tools::workspace;

use crate::step::watch;

/// The oldest version that the package and its tests run on, major and minor.
const OLDEST: (u32, u32) = (20, 19);

/// Node, if it is there and new enough.
pub(crate) fn command() -> Result<Command> {
    let hint = "install Node.js 20.19 or later, with npm";
    let Ok(output) = Command::new("node").arg("--version").stderr(Stdio::null()).output() else {
        bail!("there is no node: {hint}");
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let version = version(&said).with_context(|| format!("node gives no version: {hint}"))?;
    ensure!(version >= OLDEST, "Node.js {} is too old: {hint}", said.trim());
    Ok(Command::new("node"))
}

/// The newest version, which the tests have from npm: for programs that need it, and what is measured.
pub(crate) fn newest() -> Result<PathBuf> {
    install_test_tools()?;
    let system = if consts::OS == "macos" { "darwin" } else { consts::OS };
    let processor = if consts::ARCH == "aarch64" { "arm64" } else { "x64" };
    let program = format!("tests/node_modules/node-newest-{system}-{processor}/bin/node");
    let program = workspace().join(program);
    ensure!(program.is_file(), "npm has no Node.js for this machine: {} is missing", program.display());
    Ok(program)
}

/// Installs what `tests/package-lock.json` lists: runtimes, bundlers and checkers.
pub(crate) fn install_test_tools() -> Result<()> {
    install(&workspace().join("tests"))
}

/// Installs what the `package-lock.json` of a folder lists, unless that very list is installed already.
pub(crate) fn install(folder: &Path) -> Result<()> {
    let wanted = read(&folder.join("package-lock.json"))?;
    let installed = folder.join("node_modules/.installed-lock.json");
    if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    // npm does as the folder's .npmrc says: no install scripts, no audit.
    let mut command = Command::new("npm");
    command.arg("ci").current_dir(folder);
    let list = folder.strip_prefix(workspace()).unwrap_or(folder).join("package-lock.json");
    watch(&mut command, &format!("install what {} lists", list.display()))?;
    fs::write(&installed, wanted).with_context(|| format!("cannot write {}", installed.display()))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Major and minor version of `v20.19.0`.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.trim().strip_prefix('v')?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("v20.19.0\n"), Some((20, 19)));
        assert!(version("v22.2.0") > version("v20.19.0") && version("v20.9.0") < version("v20.19.0"));
        assert_eq!(version("20.19"), None);
    }
}
