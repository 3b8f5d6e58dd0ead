//! What the steps need on the machine, added where that is possible.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use mailroom_tests::tools::{folder, workspace};

use crate::step::watch;

/// Cargo, called in the folder of the workspace.
pub(crate) fn cargo<I: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(workspace());
    // What the cargo that runs this program has set about it is not about what the other one compiles, where a
    // change of it would have dependencies compiled anew.
    for (name, _) in env::vars_os() {
        let is_about_this =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_about_this) {
            command.env_remove(name);
        }
    }
    command
}

/// The path of a program that cargo builds in the profile of this one.
pub(crate) fn built(program: &str) -> Result<PathBuf> {
    let this = env::current_exe().context("this program does not know where it lies")?;
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

/// The program of a crate in exactly this version, built into the folder of tools unless it is there.
pub(crate) fn install(krate: &str, program: &str, version: &str) -> Result<PathBuf> {
    let root = folder().join(format!("{krate}-{version}"));
    let installed = root.join("bin").join(format!("{program}{}", env::consts::EXE_SUFFIX));
    if !installed.is_file() {
        let mut command = cargo(["install", "--locked", "--version", version, krate]);
        // Built aside, so that its hundreds of dependencies do not fill the target folder.
        command.arg("--root").arg(&root).env_remove("CARGO_TARGET_DIR");
        watch(&mut command, &format!("build {krate} {version}, once, in some minutes"))?;
    }
    Ok(installed)
}

/// The `PATH` with a folder in front.
pub(crate) fn path_with(folder: &Path) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths([folder.to_owned()].into_iter().chain(env::split_paths(&path)))?)
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
    let hint = "install Rust by rustup (https://rustup.rs), which adds such parts";
    let Ok(output) = Command::new("rustup").args(arguments).current_dir(workspace()).output() else {
        bail!("{complaint}, and no rustup to add it: {hint}");
    };
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{complaint}, and rustup cannot add it: {}", message.trim());
    Ok(())
}
