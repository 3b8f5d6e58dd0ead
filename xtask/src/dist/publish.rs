//! `cargo xtask dist --dry-run`: what the registries of Rust, npm, JSR and Python would get,
//! without publishing.
//!
//! Of the crates only `mailroom-verifier-core` is for others (`publish = true`): the program is
//! installed from a release, and the crates that it consists of change with it.

use std::process::Command;

use anyhow::Result;
use mailroom_tests::tools::workspace;

use super::{clear, quiet, work};
use crate::execute::watch;
use crate::{node, npm, tools};

pub(crate) fn dry_run() -> Result<()> {
    let mut crates = tools::cargo(["publish", "--dry-run", "--workspace", "--locked"]);
    watch(crates.arg("--allow-dirty"), "pack the crates and build them as crates.io has them")?;

    let mut package = Command::new("npm");
    package.args(["publish", "--dry-run", "--ignore-scripts"]).arg(npm::tarball()?);
    print!("{}", quiet(&mut package)?);

    node::install(npm::TESTS)?;
    let mut deno = Command::new(workspace().join(npm::TESTS).join("node_modules/.bin/deno"));
    deno.args(["publish", "--dry-run", "--allow-dirty"])
        .current_dir(workspace().join(npm::PACKAGE));
    print!("{}", quiet(&mut deno)?);

    let wheels = work().join("python");
    clear(&wheels)?;
    let mut wheel = Command::new("python3");
    wheel.args(["-m", "pip", "wheel", "--no-deps", "--wheel-dir"]).arg(&wheels);
    print!("{}", quiet(wheel.arg(workspace().join("clients/python")))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::ValueEnum;

    use super::*;
    use crate::dist::{Edition, Processor, Release, stage};

    #[test]
    fn binstall_looks_for_an_archive_by_the_name_that_it_has() {
        let manifest = fs::read_to_string(workspace().join("collector/Cargo.toml")).unwrap();
        let version = "1.2.3";
        let release = Release { version: version.to_owned(), epoch: 0, folder: "artefacts".into() };
        for &processor in Processor::value_variants() {
            let filled =
                manifest.replace("{ version }", version).replace("{ target }", processor.target());
            let name = stage::name(&release, processor, Edition::Usual);
            for end in [format!("v{version}/{name}.tar.gz\""), format!("\"{name}/{{ bin }}\"")] {
                assert!(filled.contains(&end), "{end} is missing:\n{filled}");
            }
        }
    }
}
