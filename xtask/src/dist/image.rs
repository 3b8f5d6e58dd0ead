//! `EDITION-VERSION-ARCHITECTURE.oci.tar`: the program alone, for a user without rights.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::archive::tar;
use super::{Edition, Processor, Release, clear, quiet, work};

/// Nobody's on any machine; images without a list of users commonly have this one.
pub(crate) const USER: &str = "65532";

/// Where the journal of `mailroom send` goes: a new volume gets the owner of this folder.
pub(crate) const STATE: &str = "var/lib/mailroom";

pub(crate) fn build(
    release: &Release,
    processor: Processor,
    edition: Edition,
    stage: &Path,
) -> Result<()> {
    let folder = work().join("image").join(edition.name()).join(processor.debian());
    clear(&folder)?;
    let layer = folder.join("layer.tar");
    fill_layer(release, stage, &folder.join("root"), &layer)?;

    let layout = folder.join("layout");
    let image = format!("{}:{}", layout.display(), release.version);
    let mut created = Command::new("date");
    created.args(["--utc", "--date"]).arg(format!("@{}", release.epoch)).arg("+%FT%TZ");
    let created = quiet(&mut created)?;
    let created = created.trim();
    let umoci = || Command::new("umoci");
    quiet(umoci().arg("init").arg("--layout").arg(&layout))?;
    quiet(umoci().args(["new", "--image", &image]))?;
    let mut add = umoci();
    add.args(["raw", "add-layer", "--image", &image, "--no-history"]).arg(&layer);
    quiet(&mut add)?;
    let mut configure = umoci();
    configure.args(["config", "--image", &image, "--no-history", "--created", created]);
    configure.args(["--os", "linux", "--architecture", processor.debian()]);
    configure.args(["--config.user", &format!("{USER}:{USER}")]);
    configure.args(["--config.entrypoint", "/usr/bin/mailroom", "--config.cmd", "--help"]);
    configure.args(["--config.env", "PATH=/usr/bin"]);
    for (name, value) in [
        ("title", edition.name()),
        ("version", &release.version),
        ("licenses", "MIT"),
        ("created", created),
        ("source", "https://github.com/mailroom/mailroom"),
    ] {
        let label = format!("org.opencontainers.image.{name}={value}");
        configure.args(["--config.label", &label, "--manifest.annotation", &label]);
    }
    quiet(&mut configure)?;
    // What the steps before have left.
    quiet(umoci().args(["gc", "--layout"]).arg(&layout))?;

    let name = name(release, processor, edition);
    let mut command = tar(release, &release.folder.join(name));
    command.arg("--directory").arg(&layout).args(["blobs", "index.json", "oci-layout"]);
    quiet(&mut command).map(drop)
}

pub(crate) fn name(release: &Release, processor: Processor, edition: Edition) -> String {
    format!("{}-{}-{}.oci.tar", edition.name(), release.version, processor.debian())
}

/// The program, and a folder that its user may write.
fn fill_layer(release: &Release, stage: &Path, root: &Path, layer: &Path) -> Result<()> {
    fs::create_dir_all(root.join("usr/bin"))?;
    fs::create_dir_all(root.join(STATE))?;
    fs::copy(stage.join("mailroom"), root.join("usr/bin/mailroom"))?;
    let mut program = tar(release, layer);
    program.args(["--directory"]).arg(root).args(["--exclude", STATE, "usr", "var"]);
    quiet(&mut program)?;
    let mut append = Command::new("tar");
    append.args(["--append", "--format=ustar", "--numeric-owner", "--mode=0700"]);
    append.arg(format!("--owner={USER}")).arg(format!("--group={USER}"));
    append.arg(format!("--mtime=@{}", release.epoch)).arg("--file").arg(layer);
    quiet(append.arg("--directory").arg(root).arg(STATE)).map(drop)
}
