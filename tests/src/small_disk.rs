//! A small disk for a server, which can be filled.
//!
//! It is mounted in a namespace of its own, so that whatever ends the test ends the disk, too.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::machine::skip;
use crate::postgres::disk;

/// A disk in memory, mounted over a folder for the programs that [enter](Self::enter).
#[derive(Debug)]
pub struct SmallDisk {
    /// Has the namespace, and ends when its input does.
    holder: Child,
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts one; nothing if this user cannot, and then the calling test is skipped.
    pub fn mount(folder: &Path, megabytes: u32) -> Result<Option<Self>> {
        if !disk::can_be_made() {
            skip("this user cannot mount a small disk; run it as root");
            return Ok(None);
        }
        let mount = "mount -t tmpfs -o \"size=$2m\" tmpfs \"$1\" && echo mounted && exec cat";
        let mut holder = Command::new("unshare")
            .args(["--mount", "sh", "-c", mount, "sh"])
            .arg(folder)
            .arg(megabytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = holder.stdout.take().context("standard output is a pipe")?;
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line == "mounted\n", "a small disk is not mounted: {line:?}");
        Ok(Some(Self { holder, folder: folder.to_owned() }))
    }

    /// A command that sees the disk.
    pub fn enter(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()));
        command.arg("--").arg(program.as_ref());
        command
    }

    /// Fills it to its last page.
    pub fn fill(&self) -> Result<()> {
        let mut ballast = File::create(self.ballast()?)?;
        // The last pages are smaller than what is written in the beginning.
        for length in [1 << 20, 4096, 1] {
            let bytes = vec![b'x'; length];
            let full = loop {
                if let Err(error) = ballast.write_all(&bytes) {
                    break error;
                }
            };
            ensure!(full.kind() == ErrorKind::StorageFull, "it is not filled: {full}");
        }
        Ok(())
    }

    /// Takes away what [`fill`](Self::fill) has written.
    pub fn free(&self) -> Result<()> {
        fs::remove_file(self.ballast()?).context("the disk is not freed")
    }

    /// As the programs in the namespace see it.
    fn ballast(&self) -> Result<PathBuf> {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        Ok(root.join(self.folder.strip_prefix("/")?).join("ballast"))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.holder.kill().ok();
        self.holder.wait().ok();
    }
}
