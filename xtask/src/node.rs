//! Node, and what npm installs for the tests.

use std::env::consts;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools::workspace;

use crate::execute::watch;

/// Node, if it is there and new enough for the package and its tests.
pub(crate) fn command() -> Result<Command> {
    let check = "const [major, minor] = process.versions.node.split('.').map(Number); \
                 process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)";
    let status = Command::new("node").args(["--eval", check]).status();
    let is_new = status.is_ok_and(|status| status.success());
    ensure!(is_new, "there is no node, or it is too old: install Node.js 20.19 or later, with npm");
    Ok(Command::new("node"))
}

/// The path of a program that npm has in a package for each platform. It may be told not to run the
/// scripts that look for it.
pub(crate) fn program(folder: &str, package: &str, x64: &str, name: &str) -> Result<PathBuf> {
    let system = if consts::OS == "macos" { "darwin" } else { consts::OS };
    let processor = if consts::ARCH == "aarch64" { "arm64" } else { x64 };
    let package = format!("node_modules/{package}-{system}-{processor}");
    let program = workspace().join(folder).join(package).join("bin").join(name);
    ensure!(
        program.is_file(),
        "npm has no {name} for this machine: {} is missing",
        program.display()
    );
    Ok(program)
}

/// Installs what the `package-lock.json` of a folder lists,
/// unless that very list is installed already.
pub(crate) fn install(folder: &str) -> Result<()> {
    // Steps beside each other want the same folder, which npm empties first.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let path = workspace().join(folder);
    let wanted = fs::read_to_string(path.join("package-lock.json"))
        .with_context(|| format!("cannot read {folder}/package-lock.json"))?;
    let installed = path.join("node_modules/.installed-lock.json");
    if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    // npm does as the folder's .npmrc says: no install scripts, no audit.
    let mut command = Command::new("npm");
    command.arg("ci").current_dir(path);
    watch(&mut command, &format!("install what {folder}/package-lock.json lists"))?;
    fs::write(&installed, wanted).with_context(|| format!("cannot write {}", installed.display()))
}
