//! `cargo xtask npm`: packs the npm package, which `verifier-wasm/npm/scripts/build.mjs` builds.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools::{target_folder, workspace};

use crate::consumers::{self, PACK};
use crate::node;
use crate::step::{Steps, watch};

/// What the tarball is made of; of folders, all files in them, except for [`MADE`].
const SOURCES: [&str; 6] =
    [".cargo/config.toml", "Cargo.lock", "Cargo.toml", "LICENSE", "verifier-core", "verifier-wasm"];
const MADE: [&str; 6] = ["node_modules", "dist", "docs", "generated", "LICENSE", "test"];

pub(crate) fn run() -> Result<ExitCode> {
    let tarball = tarball()?;
    let module = fs::metadata(package().join("dist/verifier.wasm"))?.len();
    println!("{}: {} bytes, its module {module}", tarball.display(), fs::metadata(&tarball)?.len());
    Ok(ExitCode::SUCCESS)
}

/// The packed package, built again if any of its sources has changed.
pub(crate) fn tarball() -> Result<PathBuf> {
    let folder = target_folder().join("npm");
    let (made_of, sources) = (folder.join("made-of"), sources()?);
    if let Ok(made) = fs::read_to_string(&made_of)
        && let Some((seen, name)) = made.split_once(' ')
        && seen == sources
        && folder.join(name).is_file()
    {
        return Ok(folder.join(name));
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    node::install(&package())?;
    watch(&mut npm(["run", "build"]), "build the npm package")?;
    let packed = npm(["pack", "--silent"]).arg("--pack-destination").arg(&folder).output()?;
    ensure!(packed.status.success(), "cannot pack: {}", String::from_utf8_lossy(&packed.stderr));
    let name = String::from_utf8(packed.stdout)?.trim().to_owned();
    fs::write(&made_of, format!("{sources} {name}"))?;
    Ok(folder.join(name))
}

/// Checks the sources, packs them, and tests what was packed: its contents, its types, its command line.
pub(crate) fn test(steps: &mut Steps) {
    consumers::pack(steps);
    steps.later("formatting and lints of the npm package", &[PACK], || {
        Ok(consumers::biome(&package()).into())
    });
    steps.later("npm package", &[PACK], || {
        let mut command = node::command()?;
        command.arg(package().join("test/main.mjs"));
        command.arg(tarball()?).arg(target_folder().join("consumers/npm"));
        Ok(command.into())
    });
}

fn package() -> PathBuf {
    workspace().join("verifier-wasm/npm")
}

fn npm<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(package());
    command
}

/// A hash of everything that the tarball is made of.
fn sources() -> Result<String> {
    let mut files = BTreeSet::new();
    for source in SOURCES {
        collect(&workspace().join(source), &mut files)?;
    }
    let compiler = Command::new("rustc").arg("--version").output().context("cannot run rustc")?;
    let mut hasher = DefaultHasher::new();
    compiler.stdout.hash(&mut hasher);
    for file in files {
        let content = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        (&file, content).hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn collect(path: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.insert(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
        let entry = entry?;
        if !MADE.iter().any(|made| entry.file_name() == *made) {
            collect(&entry.path(), files)?;
        }
    }
    Ok(())
}
