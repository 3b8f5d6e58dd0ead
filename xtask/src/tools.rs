//! Cargo, parts of Rust that are installed if they are missing,
//! and what this program asks of its surroundings.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools::{self, workspace};

use crate::execute::watch_for;

/// Cargo, called in the folder of the workspace.
pub(crate) fn cargo<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = tools::cargo();
    command.args(arguments);
    command
}

/// The path of a program that cargo builds in the profile of this one.
pub(crate) fn built(program: &str) -> Result<PathBuf> {
    let this = env::current_exe().context("the path of this program is not known")?;
    Ok(this.with_file_name(format!("{program}{}", env::consts::EXE_SUFFIX)))
}

/// How long the compiler may print nothing: it optimises a whole program at its end, beside
/// whatever else the machine does.
const COMPILING: Duration = Duration::from_secs(2 * 3_600);

/// The path of a program that cargo installs once; it is kept with the other tools.
pub(crate) fn installed(program: &str, version: &str, options: &[&str]) -> Result<PathBuf> {
    let root = tools::folder().join(format!("{program}-{version}"));
    let path = root.join("bin").join(format!("{program}{}", env::consts::EXE_SUFFIX));
    if !path.is_file() {
        println!("{program} {version} is compiled once; that takes some minutes");
        let mut install = cargo(["install", program, "--locked", "--version", version]);
        install.args(options).arg("--root").arg(&root).env_remove("CARGO_TARGET_DIR");
        watch_for(&mut install, COMPILING, &format!("install {program}"))?;
        ensure!(path.is_file(), "{} was not installed", path.display());
    }
    Ok(path)
}

/// Whether the variable `CI` is set, as continuous integration services set it.
pub(crate) fn is_continuous_integration() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Short to type, and another one each time.
pub(crate) fn new_seed() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.subsec_micros() + 1)
}

/// What is in a folder, sorted; a relative one is of the workspace.
pub(crate) fn entries(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    let folder = workspace().join(folder);
    let entries =
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Adds a `component` of Rust, or a `target`, if it is missing. Where there is no rustup, what
/// needs it says what is missing.
pub(crate) fn add(kind: &str, names: &[&str]) -> Result<()> {
    // Steps that run beside each other may lack the same.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock();
    let mut command = Command::new("rustup");
    command.args([kind, "add"]).args(names).current_dir(workspace());
    let Ok(output) = command.output() else { return Ok(()) };
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "rustup cannot add the {kind} {}: {}",
        names.join(", "),
        said.trim()
    );
    Ok(())
}
