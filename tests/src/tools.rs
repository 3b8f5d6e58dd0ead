//! The folder that keeps downloaded tools from one run to the next.

use std::env;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub fn workspace() -> &'static Path {
    const HERE: &str = env!("CARGO_MANIFEST_DIR");
    Path::new(HERE).parent().unwrap_or(Path::new(HERE))
}

/// Cargo's target folder: `CARGO_TARGET_DIR`, else `target` in the workspace.
pub fn target_folder() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        // Cargo takes a relative folder from where it is called, which for a test is a folder of the workspace.
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
