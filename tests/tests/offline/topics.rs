//! A test program has the tests of every file in its folder: one that no `mod` names would be
//! compiled and run by nobody, and nothing would say so.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools;

/// The files below a folder that the file which has its modules does not name, in their order.
fn unnamed(folder: &Path, root: &str) -> Result<Vec<PathBuf>> {
    let modules = fs::read_to_string(folder.join(root)).context(folder.display().to_string())?;
    let is_named = |name: &str| {
        modules.lines().any(|line| {
            let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
            line.strip_prefix("mod ").and_then(|line| line.strip_suffix(';')) == Some(name)
        })
    };
    let mut missing = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).context("a name")?;
        if path.is_dir() {
            missing.extend(unnamed(&path, "mod.rs")?);
        } else if path.extension().is_none_or(|ending| ending != "rs") || path.ends_with(root) {
            continue;
        }
        if !is_named(name) {
            missing.push(path);
        }
    }
    missing.sort();
    Ok(missing)
}

#[test]
fn every_file_of_a_test_program_is_a_module_of_it() -> Result<()> {
    let programs = tools::workspace().join("tests/tests");
    let mut number = 0;
    for program in fs::read_dir(programs)? {
        let missing = unnamed(&program?.path(), "main.rs")?;
        ensure!(missing.is_empty(), "no `mod` names {missing:?}");
        number += 1;
    }
    assert_eq!(number, 3, "database, faults, offline");
    Ok(())
}

#[test]
fn a_file_that_no_module_names_is_found_in_any_folder() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let topic = folder.path().join("topic");
    fs::create_dir(&topic)?;
    for (name, text) in [
        ("main.rs", "mod named;\nmod topic;\n"),
        ("named.rs", ""),
        ("data.sql", ""),
        ("new.rs", ""),
        ("topic/mod.rs", "pub(crate) mod clock;\n// mod other;\n"),
        ("topic/clock.rs", ""),
        ("topic/other.rs", ""),
    ] {
        fs::write(folder.path().join(name), text)?;
    }
    assert_eq!(
        unnamed(folder.path(), "main.rs")?,
        [folder.path().join("new.rs"), topic.join("other.rs")]
    );
    Ok(())
}
