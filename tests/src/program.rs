//! The program under test.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

use crate::tools;

/// What of the program is tested that is not in every one. Whoever builds it for tests, or into
/// the same file, adds these arguments of cargo.
pub const FEATURES: [&str; 2] = ["--features", "relay,rabbitmq,traces"];

/// A command that runs the freshly built `mailroom`,
/// without any `MAILROOM_*` or `PG*` variable of this process.
///
/// The first call in a process builds it, in the profile of the calling test;
/// `MAILROOM_TEST_PROGRAM` names one that is built already.
pub fn mailroom() -> Result<Command> {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let program = match built.take() {
        Some(program) => program,
        None => find_or_build()?,
    };
    Ok(isolated(built.insert(program)))
}

/// A command that runs a program,
/// without any `MAILROOM_*` or `PG*` variable of this process.
pub fn isolated(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("MAILROOM_") || text.starts_with("PG") {
            command.env_remove(name);
        }
    }
    command
}

/// Its path, for the command of another program.
pub fn path() -> Result<String> {
    Ok(mailroom()?.get_program().to_string_lossy().into_owned())
}

fn find_or_build() -> Result<PathBuf> {
    if let Some(program) = env::var_os("MAILROOM_TEST_PROGRAM") {
        let program = PathBuf::from(program);
        ensure!(
            program.is_file(),
            "MAILROOM_TEST_PROGRAM names {}, which is no file",
            program.display()
        );
        return Ok(program);
    }
    let executable = env::current_exe()?;
    let folder = BuildFolder::of(&executable)?;
    let output = tools::cargo()
        .args(["build", "--quiet"])
        .args(selection(&executable))
        .args(folder.arguments())
        .stdin(Stdio::null())
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "mailroom does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(folder.path.join(format!("mailroom{}", env::consts::EXE_SUFFIX)))
}

/// What cargo is to build: the program, and beside it the test that asks for it. For the same
/// selection it chooses the features of dependencies that it has chosen for the test; for the
/// program alone it would choose others, and compile them a second time.
fn selection(executable: &Path) -> Vec<String> {
    let arguments = match test_of(executable) {
        Some(test) => vec!["--workspace", "--bin", "mailroom", "--test", test],
        None => [&["--package", "mailroom", "--bin", "mailroom"][..], &FEATURES].concat(),
    };
    arguments.into_iter().map(str::to_owned).collect()
}

/// The test of this workspace that is run, `database` of `target/debug/deps/database-0a1b2c`.
fn test_of(executable: &Path) -> Option<&str> {
    let (name, _) = executable.file_stem()?.to_str()?.rsplit_once('-')?;
    let tests = tools::workspace().join("tests/tests");
    (tests.join(name).is_dir() || tests.join(name).with_extension("rs").is_file()).then_some(name)
}

/// Where cargo puts what it builds for one profile: `target/debug`,
/// `target/x86_64-unknown-linux-gnu/release`.
struct BuildFolder {
    path: PathBuf,
}

impl BuildFolder {
    fn of(executable: &Path) -> Result<Self> {
        let folder = executable.parent().context("a program lies in a folder")?;
        let below = ["deps", "examples"].iter().any(|name| folder.ends_with(name));
        let path = if below { folder.parent() } else { Some(folder) };
        let path = path.context("a build folder has a parent")?.to_owned();
        Ok(Self { path })
    }

    /// What makes cargo build into this folder.
    fn arguments(&self) -> Vec<OsString> {
        let profile = match self.path.file_name() {
            Some(name) if name == "debug" => "dev".into(),
            name => name.unwrap_or_default().to_owned(),
        };
        let mut arguments: Vec<OsString> = vec!["--profile".into(), profile];
        if let Ok((target_folder, target)) = self.target() {
            arguments.extend(["--target-dir".into(), target_folder.into()]);
            arguments.extend(target.into_iter().flat_map(|target| ["--target".into(), target]));
        }
        arguments
    }

    /// Cargo's target folder, and the target if that was named to cargo,
    /// which then has a folder in between.
    fn target(&self) -> Result<(PathBuf, Option<OsString>)> {
        let is_target_folder = |folder: &Path| folder.join("CACHEDIR.TAG").is_file();
        let parent = self.path.parent().context("a build folder has a parent")?;
        if is_target_folder(parent) {
            return Ok((parent.to_owned(), None));
        }
        match (parent.parent(), parent.file_name()) {
            (Some(folder), Some(target)) if is_target_folder(folder) => {
                Ok((folder.to_owned(), Some(target.to_owned())))
            }
            _ => bail!("{} is no folder of cargo", self.path.display()),
        }
    }
}
