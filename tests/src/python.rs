//! Packages of Python, each set by its own lock file.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::machine::skip;
use crate::tools;

/// The folder of the packages that a file of the workspace requires, fetched the first time.
///
/// Where there is no pip, it is said that the test is skipped, and there is no folder.
pub fn packages(requirements: &str) -> Result<Option<PathBuf>> {
    static FETCHING: Mutex<()> = Mutex::new(());
    let _fetching = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    // Another content is another folder.
    let mut hasher = DefaultHasher::new();
    let file = tools::workspace().join(requirements);
    fs::read(&file).with_context(|| format!("cannot read {requirements}"))?.hash(&mut hasher);
    let folder = tools::folder().join(format!("python-{:016x}", hasher.finish()));
    if folder.is_dir() {
        return Ok(Some(folder));
    }
    let unfinished = tools::folder().join(format!("python-unfinished-{}", process::id()));
    fs::create_dir_all(&unfinished)?;
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--require-hashes"])
        .args(["--disable-pip-version-check", "--target"])
        .arg(&unfinished)
        .arg("--requirement")
        .arg(file)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named pip") {
        fs::remove_dir_all(&unfinished).ok();
        skip("python3 has no pip; install python3-pip");
        return Ok(None);
    }
    ensure!(output.status.success(), "pip cannot install {requirements}: {}", said.trim());
    // Another process may have been faster.
    if fs::rename(&unfinished, &folder).is_err() {
        fs::remove_dir_all(&unfinished).ok();
    }
    Ok(Some(folder))
}
