//! The pages of the book in the folder `docs`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::tools::workspace;

/// Every page, by its path, in the order of the names.
pub fn pages() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    walk(&workspace().join("docs"), &mut found)?;
    found.sort();
    Ok(found)
}

/// The text of a page, such as `operate/rights.md`.
pub fn page(name: &str) -> Result<String> {
    let path = workspace().join("docs").join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}
