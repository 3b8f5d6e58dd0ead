//! `EDITION-VERSION.cdx.json`: what a program is made of, as `CycloneDX` has it.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use mailroom_tests::tools::workspace;

use super::{Edition, Processor, Release, quiet};
use crate::tools;

const VERSION: &str = "0.5.9";

/// The dependencies of both processors are the same.
pub(crate) fn write(release: &Release, edition: Edition) -> Result<()> {
    let program = tools::installed("cargo-cyclonedx", VERSION, &[])?;
    let name = format!("{}-{}.cdx", edition.name(), release.version);
    // It writes beside the manifest, and nowhere else.
    let beside = |crate_folder: PathBuf| crate_folder.join(format!("{name}.json"));
    let mut command = std::process::Command::new(program);
    command.args(["cyclonedx", "--format", "json", "--spec-version", "1.5", "--manifest-path"]);
    command.arg(workspace().join("collector/Cargo.toml"));
    command.args(["--features", edition.features()]);
    command.args(["--target", Processor::X86_64.target(), "--override-filename", &name]);
    command.env("SOURCE_DATE_EPOCH", release.epoch.to_string()).current_dir(workspace());
    let said = quiet(&mut command);
    let written = fs::read_to_string(beside(workspace().join("collector")));
    for folder in members()? {
        fs::remove_file(beside(folder)).ok();
    }
    said?;
    let text = written.context("cargo-cyclonedx wrote nothing")?;
    // The folder of this machine is nobody's business, and would change the bytes.
    let text = text.replace(&*workspace().to_string_lossy(), "/mailroom");
    fs::write(release.folder.join(format!("{name}.json")), text)?;
    Ok(())
}

/// The folders of the workspace's crates.
fn members() -> Result<Vec<PathBuf>> {
    let mut command = tools::cargo(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let output = command.output().context("cannot run cargo")?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo lists no packages")?;
    let manifests = packages.iter().filter_map(|package| package["manifest_path"].as_str());
    Ok(manifests.map(|path| PathBuf::from(path).with_file_name("")).collect())
}
