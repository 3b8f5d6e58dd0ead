//! The pages of the book in the folder `docs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::tools::workspace;

/// What is read before the book, by the paths in the repository.
pub const BEFORE_THE_BOOK: [&str; 5] =
    ["README.md", "CONTRIBUTING.md", "SECURITY.md", "migrations/README.md", "web-demo/README.md"];

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

/// The first block of a page in a language, without its fences.
pub fn block(name: &str, language: &str) -> Result<String> {
    let page = page(name)?;
    let block = page.split_once(&format!("\n```{language}\n"));
    let block = block.and_then(|(_, rest)| rest.split_once("```"));
    let (block, _) = block.with_context(|| format!("{name} has no block of {language}"))?;
    Ok(block.to_owned())
}

/// The functions that the pages grant, by the role that they call it.
pub fn granted_functions() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut granted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for page in pages()? {
        let document = fs::read_to_string(page)?;
        for grant in document.split("GRANT EXECUTE ON FUNCTION ").skip(1) {
            let (names, rest) = grant.split_once(" TO ").context("it is to somebody")?;
            let role = rest.split([';', '\n', '`']).next().unwrap_or_default();
            let names = names.split(", ").filter_map(|name| name.strip_prefix("mailroom."));
            granted.entry(role.to_owned()).or_default().extend(names.map(str::to_owned));
        }
    }
    Ok(granted)
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
