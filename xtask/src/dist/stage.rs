//! The folder of files that archives have, and Debian packages and images take from.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools::workspace;

use super::{Edition, Processor, Release, clear, work};
use crate::tools;

/// Files of the repository, and what each is called in an archive.
const FILES: [(&str, &str); 17] = [
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("LICENSE", "LICENSE"),
    ("README.md", "README.md"),
    ("packaging/compose.yaml", "examples/compose.yaml"),
    ("packaging/examples/bounces.env", "examples/bounces.env"),
    ("packaging/examples/bounces.toml", "examples/bounces.toml"),
    ("packaging/examples/collector.env", "examples/collector.env"),
    ("packaging/examples/serve.env", "examples/serve.env"),
    ("packaging/examples/serve.toml", "examples/serve.toml"),
    ("packaging/grafana/mailroom.json", "grafana/mailroom.json"),
    ("packaging/mailroom-bounces.service", "systemd/mailroom-bounces.service"),
    ("packaging/mailroom-serve.service", "systemd/mailroom-serve.service"),
    ("packaging/mailroom.service", "systemd/mailroom.service"),
    ("packaging/mailroom.sysusers", "sysusers.d/mailroom.conf"),
    ("packaging/mailroom@.service", "systemd/mailroom@.service"),
    ("packaging/prometheus/mailroom.rules.yml", "prometheus/mailroom.rules.yml"),
    ("packaging/send.toml", "examples/send.toml"),
];

/// Shells, and the file that each looks for.
const SHELLS: [(&str, &str); 3] =
    [("bash", "bash/mailroom"), ("fish", "fish/mailroom.fish"), ("zsh", "zsh/_mailroom")];

/// A folder named as the archive is.
pub(crate) fn fill(
    release: &Release,
    processor: Processor,
    edition: Edition,
    program: &Path,
) -> Result<PathBuf> {
    let folder = work().join("stage").join(name(release, processor, edition));
    clear(&folder)?;
    for (source, name) in FILES {
        copy(&workspace().join(source), &folder.join(name), 0o644)?;
    }
    copy(program, &folder.join("mailroom"), 0o755)?;
    let generated = generated(edition);
    if processor.is_native() {
        generate(program, &generated)?;
    }
    ensure!(
        generated.is_dir(),
        "manual pages are printed by the program for {}: make that one first",
        std::env::consts::ARCH
    );
    copy_all(&generated, &folder)?;
    Ok(folder)
}

pub(crate) fn name(release: &Release, processor: Processor, edition: Edition) -> String {
    format!("{}-{}-{}", edition.name(), release.version, processor.target())
}

/// What the program prints about itself is the same for every processor.
fn generated(edition: Edition) -> PathBuf {
    work().join("generated").join(edition.name())
}

/// Manual pages and completions of the command line.
fn generate(program: &Path, folder: &Path) -> Result<()> {
    clear(folder)?;
    let pages = folder.join("man/man1");
    fs::create_dir_all(&pages)?;
    let output = Command::new(program).arg("man").arg(&pages).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (shell, name) in SHELLS {
        let output = Command::new(program).args(["completions", shell]).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let path = folder.join("completions").join(name);
        fs::create_dir_all(path.parent().context("it lies in a folder")?)?;
        fs::write(path, output.stdout)?;
    }
    Ok(())
}

/// Files with their modes, and folders.
pub(crate) fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for path in tools::entries(from)? {
        let to = to.join(path.file_name().context("it has a name")?);
        if path.is_dir() {
            copy_all(&path, &to)?;
        } else {
            fs::copy(&path, &to).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(to.parent().context("it lies in a folder")?)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(fs::set_permissions(to, Permissions::from_mode(mode))?)
}
