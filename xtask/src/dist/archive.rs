//! `mailroom-VERSION-TARGET.tar.gz`, which `cargo binstall` finds by its name.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Release, quiet};

pub(crate) fn pack(release: &Release, stage: &Path) -> Result<()> {
    let name = stage.file_name().context("it has a name")?.to_string_lossy().into_owned();
    let archive = release.folder.join(format!("{name}.tar"));
    let mut command = tar(release, &archive);
    quiet(command.arg("--directory").arg(stage.with_file_name("")).arg(&name))?;
    quiet(Command::new("gzip").args(["-9", "--no-name", "--force"]).arg(&archive)).map(drop)
}

/// GNU tar, told to leave out who made the files, when, and in which order.
pub(crate) fn tar(release: &Release, archive: &Path) -> Command {
    let mut command = Command::new("tar");
    command.args(["--create", "--format=ustar", "--sort=name", "--numeric-owner"]);
    command
        .args(["--owner=0", "--group=0", "--mode=u=rwX,go=rX"])
        .arg(format!("--mtime=@{}", release.epoch));
    command.arg("--file").arg(archive);
    command
}
