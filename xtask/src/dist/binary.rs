//! The program: linked statically with musl, stripped, its debug information apart.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom_tests::python;
use mailroom_tests::tools::workspace;

use super::{Edition, Processor, Release, quiet, stage, work};
use crate::execute::watch_for;
use crate::tools;

/// Zig and cargo-zigbuild.
const LINKER: &str = "packaging/requirements.txt";

/// Of the workspace's `Cargo.toml`: small where speed does not matter.
pub(crate) const PROFILE: &str = "program";

/// How long the linker may print nothing: it optimises all crates at once, on one processor.
const LINKING: Duration = Duration::from_secs(2 * 3_600);

/// Separates flags of the compiler, which may have spaces.
const SEPARATOR: &str = "\u{1f}";

/// Returns the path of the stripped program. Its debug information becomes an artefact.
pub(crate) fn build(release: &Release, processor: Processor, edition: Edition) -> Result<PathBuf> {
    let built = compile(release, processor, edition, workspace(), &work().join("build"))?;
    let program = take(&built, processor, edition)?;
    let folder = program.with_file_name("");
    let size = fs::metadata(&program)?.len();
    let most = edition.max_program();
    ensure!(size <= most, "{} has {size} bytes: {most} are allowed", program.display());
    let bytes = fs::read(&program)?;
    for named in [workspace(), &cargo_home()?] {
        let named = named.to_string_lossy();
        let found = bytes.windows(named.len()).any(|window| window == named.as_bytes());
        ensure!(!found, "{} names {named}", program.display());
    }
    let debug = folder.join("mailroom.debug");
    quiet(Command::new("gzip").args(["-9", "--no-name", "--force", "--keep"]).arg(&debug))?;
    let name = format!("{}.debug.gz", stage::name(release, processor, edition));
    fs::rename(folder.join("mailroom.debug.gz"), release.folder.join(name))?;
    println!("{} for {}: {size} bytes", edition.name(), processor.target());
    Ok(program)
}

/// Strips a program. Its debug information lies beside it.
pub(crate) fn take(built: &Path, processor: Processor, edition: Edition) -> Result<PathBuf> {
    let folder = programs(processor, edition);
    fs::create_dir_all(&folder)?;
    let program = folder.join("mailroom");
    strip(built, &program)?;
    Ok(program)
}

/// Builds a copy of the sources in another folder, and compares.
pub(crate) fn build_again(release: &Release, processor: Processor, edition: Edition) -> Result<()> {
    let copy = tempfile::tempdir()?;
    let sources = copy.path().join("a folder of another name");
    let mut clone = Command::new("git");
    quiet(clone.args(["clone", "--quiet", "--shared"]).arg(workspace()).arg(&sources))?;
    let built = compile(release, processor, edition, &sources, &copy.path().join("target"))?;
    let again = copy.path().join("mailroom");
    strip(&built, &again)?;
    let first = programs(processor, edition);
    for name in ["mailroom", "mailroom.debug"] {
        let same = fs::read(first.join(name))? == fs::read(copy.path().join(name))?;
        let built = stage::name(release, processor, edition);
        ensure!(same, "{name} of {built} differs when it is built again");
    }
    Ok(())
}

fn programs(processor: Processor, edition: Edition) -> PathBuf {
    work().join("programs").join(processor.target()).join(edition.name())
}

fn compile(
    release: &Release,
    processor: Processor,
    edition: Edition,
    sources: &Path,
    folder: &Path,
) -> Result<PathBuf> {
    let linker = python::packages(LINKER)?.context("pip is missing: install python3-pip")?;
    let home = cargo_home()?;
    let mut flags = vec![remap(sources, "/mailroom")];
    // The name of an index follows from how it is reached.
    for index in tools::entries(home.join("registry/src"))? {
        flags.push(remap(&index, "/crates"));
    }
    flags.push("-Clink-arg=-Wl,--build-id=sha1".to_owned());
    let mut command = tools::cargo(["zigbuild", "--locked", "--profile", PROFILE, "--target"]);
    command.arg(processor.target()).args(["--package", "mailroom", "--bin", "mailroom"]);
    command.args(["--features", edition.features()]);
    command.arg("--target-dir").arg(folder).current_dir(sources);
    // Debug information of C code, too, names no folder of this machine.
    command.env("CFLAGS", format!("-ffile-prefix-map={}=/cargo", home.display()));
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join(SEPARATOR));
    command.env("CARGO_ZIGBUILD_ZIG_PATH", linker.join("ziglang/zig"));
    command.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    let path = env::var_os("PATH").unwrap_or_default();
    let path = [linker.join("bin")].into_iter().chain(env::split_paths(&path));
    command.env("PATH", env::join_paths(path)?);
    watch_for(
        &mut command,
        LINKING,
        &format!("build {} for {}", edition.name(), processor.target()),
    )?;
    Ok(folder.join(processor.target()).join(PROFILE).join("mailroom"))
}

fn remap(folder: &Path, name: &str) -> String {
    format!("--remap-path-prefix={}={name}", folder.display())
}

/// `program`, and beside it its debug information, by whose name debuggers find it.
fn strip(built: &Path, program: &Path) -> Result<()> {
    let debug = program.with_extension("debug");
    quiet(objcopy()?.arg("--only-keep-debug").args([built, &debug]))?;
    quiet(objcopy()?.arg("--strip-all").args([built, program]))?;
    let mut link = objcopy()?;
    link.arg("--add-gnu-debuglink=mailroom.debug").arg(program);
    quiet(link.current_dir(program.parent().context("it lies in a folder")?)).map(drop)
}

/// LLVM's, which comes with Rust and knows every processor.
fn objcopy() -> Result<Command> {
    let sysroot = quiet(Command::new("rustc").args(["--print", "sysroot"]))?;
    let host = quiet(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let libraries = Path::new(sysroot.trim()).join("lib");
    let program = libraries.join("rustlib").join(host.trim()).join("bin/rust-objcopy");
    ensure!(program.is_file(), "{} is missing: install Rust by rustup", program.display());
    let mut command = Command::new(program);
    // The compiler, which is what usually starts it, says where LLVM is.
    command.env("LD_LIBRARY_PATH", libraries);
    Ok(command)
}

fn cargo_home() -> Result<PathBuf> {
    let home = || env::home_dir().map(|home| home.join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home).context("there is no home")
}
