//! The files of the repository.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use mailroom_tests::tools;

/// What `.gitignore` leaves out of the repository: what is built, installed or generated.
struct Ignored(Vec<String>);

impl Ignored {
    fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(".gitignore"))?;
        ensure!(!text.contains(['!', '?', '[']), "such patterns of .gitignore are not known here");
        Ok(Self(text.lines().map(str::to_owned).collect()))
    }

    /// `path` is below the root, and begins with a slash.
    fn has(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        self.0.iter().map(|pattern| pattern.trim_end_matches('/')).any(|pattern| {
            if let Some(end) = pattern.strip_prefix('*') {
                name.ends_with(end)
            } else if pattern.starts_with('/') {
                path == pattern
            } else {
                name == pattern
            }
        })
    }
}

/// Every file that belongs to the repository, by its path from the root.
pub(crate) fn files() -> Result<Vec<String>> {
    let root = tools::workspace();
    let mut found = Vec::new();
    walk(root, "", &Ignored::read(root)?, &mut found)?;
    Ok(found)
}

fn walk(root: &Path, folder: &str, ignored: &Ignored, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder.trim_start_matches('/')))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        if name == ".git" || ignored.has(&path) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(root, &path, ignored, found)?;
        } else {
            found.push(path.trim_start_matches('/').to_owned());
        }
    }
    Ok(())
}
