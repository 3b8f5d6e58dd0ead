//! The folder that keeps downloaded tools from one run to the next.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the workspace.
pub fn workspace() -> &'static Path {
    static WORKSPACE: OnceLock<PathBuf> = OnceLock::new();
    WORKSPACE.get_or_init(|| {
        // Cargo tells a program that it runs where its package is. What was compiled in may name
        // another clone that shares the target folder with this one.
        let package =
            env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let package = PathBuf::from(package);
        let is_workspace = |folder: &&Path| folder.join("Cargo.lock").is_file();
        package.ancestors().find(is_workspace).unwrap_or(&package).to_owned()
    })
}

/// The cargo that has built this program, called in the folder of the workspace.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    // The cargo that runs this program has set variables about its package; dependencies whose
    // build scripts read them would be compiled again, by this cargo and then by that one.
    let of_package =
        |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_package)) {
        command.env_remove(name);
    }
    command
}

/// Cargo's target folder: `CARGO_TARGET_DIR`, else `target` in the workspace.
pub fn target_folder() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        // Cargo takes a relative folder from where it is called,
        // which for a test is a folder of the workspace.
        Some(folder) => workspace().join(folder),
        None => workspace().join("target"),
    }
}

/// `MAILROOM_TOOLS`, else `tools` in cargo's target folder. It need not exist yet.
pub fn folder() -> PathBuf {
    match env::var_os("MAILROOM_TOOLS") {
        Some(folder) => workspace().join(folder),
        None => target_folder().join("tools"),
    }
}
