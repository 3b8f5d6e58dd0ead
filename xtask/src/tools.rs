//! Cargo, and parts of Rust that are installed if they are missing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use mailroom_tests::tools::workspace;

/// Cargo, called in the folder of the workspace.
pub(crate) fn cargo<I: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(workspace());
    // The cargo that runs this program has set variables about its package; dependencies would be compiled again for them.
    for (name, _) in env::vars_os() {
        let is_of_package =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}

/// The path of a program that cargo builds in the profile of this one.
pub(crate) fn built(program: &str) -> Result<PathBuf> {
    let this = env::current_exe().context("the path of this program is not known")?;
    Ok(this.with_file_name(format!("{program}{}", env::consts::EXE_SUFFIX)))
}

/// Makes sure that the standard library of each target is there.
pub(crate) fn add_targets(targets: &[&str]) -> Result<()> {
    for target in targets {
        if !has_target(target)? {
            let complaint = format!("Rust has no standard library for {target}");
            rustup(&["target", "add", target], &complaint)?;
        }
    }
    Ok(())
}

/// Makes sure that subcommands of cargo such as `fmt` and `clippy` are there.
pub(crate) fn add_component(subcommand: &str, component: &str) -> Result<()> {
    let found = cargo([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    rustup(&["component", "add", component], &format!("there is no `cargo {subcommand}`"))
}

fn has_target(target: &str) -> Result<bool> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .current_dir(workspace())
        .output()
        .context("cannot run rustc")?;
    ensure!(output.status.success(), "this Rust does not know the target {target}");
    Ok(Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

fn rustup(arguments: &[&str], complaint: &str) -> Result<()> {
    // Steps that run beside each other may lack the same.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock();
    let hint = "install Rust by rustup (https://rustup.rs), which adds such parts";
    let Ok(output) = Command::new("rustup").args(arguments).current_dir(workspace()).output() else {
        bail!("{complaint}, and no rustup to add it: {hint}");
    };
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{complaint}, and rustup cannot add it: {}", message.trim());
    Ok(())
}
