//! `mailroom_VERSION-1_ARCHITECTURE.deb`, made by debhelper from `packaging/debian`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools::workspace;

use super::{Processor, Release, clear, quiet, work};
use crate::tools;

/// The revision of the package, of the same version of the program.
const REVISION: &str = "1";

pub(crate) fn build(release: &Release, processor: Processor, files: &Path) -> Result<()> {
    let version = format!("{}-{REVISION}", release.version);
    build_version(release, processor, files, &version, &release.folder)
}

/// A package of that version in a folder.
pub(crate) fn build_version(
    release: &Release,
    processor: Processor,
    files: &Path,
    version: &str,
    to: &Path,
) -> Result<()> {
    let folder = work().join("deb").join(processor.debian());
    let debian = folder.join("source/debian");
    clear(&folder)?;
    fs::create_dir_all(&debian)?;
    for path in tools::entries("packaging/debian")? {
        let copy = debian.join(path.file_name().context("it has a name")?);
        fs::copy(&path, &copy)?;
        let mode = if copy.ends_with("rules") { 0o755 } else { 0o644 };
        fs::set_permissions(&copy, fs::Permissions::from_mode(mode))?;
    }
    // What debhelper takes by the names of its files.
    for (unit, name) in [
        ("mailroom.service", "mailroom.service"),
        ("mailroom@.service", "mailroom@.service"),
        ("mailroom-bounces.service", "mailroom.mailroom-bounces.service"),
        ("mailroom-serve.service", "mailroom.mailroom-serve.service"),
        ("mailroom.sysusers", "mailroom.sysusers"),
    ] {
        fs::copy(workspace().join("packaging").join(unit), debian.join(name))?;
    }
    fs::write(debian.join("changelog"), changelog(release, version)?)?;
    let link = folder.join("source/files");
    std::os::unix::fs::symlink(files, link)?;
    // Tests and installation are done; what would be stripped is.
    let mut command = Command::new("dpkg-buildpackage");
    command.args(["--build=binary", "--no-check-builddeps", "--unsigned-changes"]);
    command.args(["--host-arch", processor.debian()]).current_dir(folder.join("source"));
    command.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    command.env("DEB_BUILD_OPTIONS", "nocheck nostrip noautodbgsym").env("TZ", "UTC");
    quiet(&mut command)?;
    let name = format!("mailroom_{version}_{}.deb", processor.debian());
    let built = folder.join(&name);
    ensure!(built.is_file(), "dpkg-buildpackage did not make {}", built.display());
    fs::rename(built, to.join(name))?;
    Ok(())
}

/// Its only entry: what is new is told by CHANGELOG.md, which the package has.
fn changelog(release: &Release, version: &str) -> Result<String> {
    let mut command = Command::new("date");
    command.args(["--utc", "--rfc-email"]).arg(format!("--date=@{}", release.epoch));
    let date = quiet(command.env("LC_ALL", "C"))?;
    Ok(format!(
        "mailroom ({version}) unstable; urgency=medium\n\n  * See \
         /usr/share/doc/mailroom/changelog.gz.\n\n -- Mailroom contributors \
         <mailroom@users.noreply.github.com>  {date}"
    ))
}
