//! `cargo xtask npm`: packs the npm package, which `verifier-wasm/npm/scripts/build.mjs` builds.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools::{target_folder, workspace};

use crate::execute::{SILENCE, execute, watch};
use crate::{node, tools};

/// The folder of the package.
pub(crate) const PACKAGE: &str = "verifier-wasm/npm";

/// Its tests, with the runtimes, bundlers and checkers that they need.
pub(crate) const TESTS: &str = "verifier-wasm/npm/test";

/// What its modules are compiled for.
pub(crate) const WASM: &str = "wasm32-unknown-unknown";

/// What the tarball is made of; of folders, all files in them, except for [`MADE`].
const SOURCES: [&str; 6] =
    [".cargo/config.toml", "Cargo.lock", "Cargo.toml", "LICENSE", "verifier-core", "verifier-wasm"];
const MADE: [&str; 8] =
    ["node_modules", "dist", "docs", "generated", "jsr.json", "LICENSE", "target", "test"];

pub(crate) fn run() -> Result<ExitCode> {
    let tarball = tarball()?;
    let module = fs::metadata(workspace().join(PACKAGE).join("dist/verifier.wasm"))?.len();
    println!("{}: {} bytes, its module {module}", tarball.display(), fs::metadata(&tarball)?.len());
    Ok(ExitCode::SUCCESS)
}

/// The packed package, built again if any of its sources has changed.
pub(crate) fn tarball() -> Result<PathBuf> {
    // Every step that uses the package asks for it, beside others.
    static PACKING: Mutex<()> = Mutex::new(());
    let _packing = PACKING.lock().unwrap_or_else(PoisonError::into_inner);
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
    node::install(PACKAGE)?;
    tools::add("target", &[WASM])?;
    watch(&mut npm(["run", "build"]), "build the npm package")?;
    let mut pack = npm(["run", "--silent", "pack", "--"]);
    let (succeeded, printed) =
        execute(pack.arg("--pack-destination").arg(&folder), SILENCE, |_| ())?;
    ensure!(succeeded, "cannot pack: {printed}");
    let name = printed
        .lines()
        .find(|line| folder.join(line).is_file())
        .context("npm names what it has packed")?;
    fs::write(&made_of, format!("{sources} {name}"))?;
    Ok(folder.join(name))
}

fn npm<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(workspace().join(PACKAGE));
    command
}

/// A hash of everything that the tarball is made of.
fn sources() -> Result<String> {
    let compiler = Command::new("rustc").arg("--version").output().context("cannot run rustc")?;
    let mut hasher = DefaultHasher::new();
    compiler.stdout.hash(&mut hasher);
    for source in SOURCES {
        hash(&workspace().join(source), &mut hasher)?;
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn hash(path: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    if path.is_dir() {
        let is_source = |entry: &PathBuf| !MADE.iter().any(|made| entry.ends_with(made));
        return tools::entries(path)?
            .iter()
            .filter(|entry| is_source(entry))
            .try_for_each(|entry| hash(entry, hasher));
    }
    let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    (path, content).hash(hasher);
    Ok(())
}
