//! What a machine may lack, and how much is asked of it.

use std::env;
use std::io::{ErrorKind, Write, stderr};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};

/// Whether the long form of the tests is asked for, which `cargo xtask test --full` does.
pub fn is_full() -> bool {
    env::var_os("MAILROOM_TEST_FULL").is_some()
}

/// Prints that the calling test cannot run on this machine. `cargo xtask test` counts the line, and
/// fails in continuous integration. libtest holds back what the macros print, but not this.
pub fn skip(reason: &str) {
    let thread = thread::current();
    writeln!(stderr(), "skipped: {}: {reason}", thread.name().unwrap_or("a test")).ok();
}

/// Whether Python runs here; otherwise the calling test is [skipped](skip).
pub fn has_python() -> Result<bool> {
    match Command::new("python3").arg("--version").output() {
        // Folders of `PATH` that this user may not enter are of no use to them, either.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            skip("there is no python3; install Python 3.9 or later");
            Ok(false)
        }
        other => other.map(|_| true).context("python3 cannot be started"),
    }
}
