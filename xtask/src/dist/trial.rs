//! `cargo xtask dist --test`: each artefact as an operator gets it, in a root that has nothing of
//! this machine, against a PostgreSQL of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use mailroom_tests::postgres::Cluster;
use mailroom_tests::tools::{folder, workspace};

use super::{Edition, Processor, Release, clear, deb, image, needs, stage, work};
use crate::execute::watch;

/// A version that an operator may have had.
const OLD: &str = "0.0.1-1";

pub(crate) fn run(release: &Release, processors: &[Processor], editions: &[Edition]) -> Result<()> {
    let server = Cluster::builder().tcp().start()?;
    let url = format!("postgresql://postgres@127.0.0.1:{}/postgres", server.port());
    let scratch = work().join("trial");
    for &processor in processors {
        let debian = processor.debian();
        let emulator =
            if processor.is_native() { String::new() } else { needs::emulator(processor) };
        for &edition in editions {
            let named = edition.name();
            clear(&scratch)?;
            let mut archive = script("archive.sh", processor, &emulator, &url);
            archive.arg(&release.folder).arg(stage::name(release, processor, edition));
            archive.arg(&scratch);
            watch(&mut archive, &format!("try the archive of {named} for {debian}"))?;

            clear(&scratch)?;
            let mut image = script("image.sh", processor, &emulator, &url);
            image.arg(release.folder.join(image::name(release, processor, edition)));
            image.arg(&release.version).arg(&scratch);
            watch(&mut image, &format!("try the image of {named} for {debian}"))?;
        }
        if !editions.contains(&Edition::Usual) {
            continue;
        }
        clear(&scratch)?;
        let new = format!("mailroom_{}-1_{debian}.deb", release.version);
        let old = old_package(release, processor, &scratch)?;
        let mut package = script("deb.sh", processor, &emulator, &url);
        package.arg(old).arg(release.folder.join(new)).arg(&scratch);
        watch(&mut package, &format!("try the Debian package for {debian}"))?;
    }
    Ok(())
}

fn script(name: &str, processor: Processor, emulator: &str, url: &str) -> Command {
    let mut command = Command::new("bash");
    command.arg(workspace().join("packaging/test").join(name));
    command
        .env("TOOLS", folder())
        .env("EMULATOR", emulator)
        .env("ARCHITECTURE", processor.debian());
    command.env("MAILROOM_DATABASE_URL", url);
    command
}

/// The same package in an older version, with another example of the settings.
fn old_package(release: &Release, processor: Processor, scratch: &Path) -> Result<PathBuf> {
    let current = work().join("stage").join(stage::name(release, processor, Edition::Usual));
    let old = scratch.join("files");
    stage::copy_all(&current, &old)?;
    fs::write(old.join("examples/collector.env"), "# The settings of an older version.\n")?;
    deb::build_version(release, processor, &old, OLD, scratch)?;
    Ok(scratch.join(format!("mailroom_{OLD}_{}.deb", processor.debian())))
}
