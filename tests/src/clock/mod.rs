//! A wrong clock for one process.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// A library that sets the clock of programs off.
#[derive(Debug)]
pub struct WrongClock {
    folder: TempDir,
}

impl WrongClock {
    /// Compiles it with the C compiler that Rust needs, too.
    pub fn build() -> Result<Self> {
        let clock = Self { folder: tempfile::tempdir()? };
        let source = clock.folder.path().join("shift.c");
        fs::write(&source, include_str!("shift.c"))?;
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([clock.library(), source])
            .output()
            .context("there is no C compiler: install one, which Rust needs, too")?;
        ensure!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
        Ok(clock)
    }

    /// Has `command` run with a clock that is so many seconds ahead, or behind if they are
    /// negative. Only for programs that use the C library.
    pub fn shift<'c>(&self, command: &'c mut Command, seconds: i64) -> &'c mut Command {
        command
            .env("LD_PRELOAD", self.library())
            .env("MAILROOM_TEST_CLOCK_SHIFT", seconds.to_string())
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("shift.so")
    }
}
