//! What comments name of documents is there.

use std::fs;

use anyhow::{Context, Result};
use mailroom_tests::tools;

use crate::repository::files;

/// The files whose comments are read.
const COMMENTED: [&str; 7] = ["js", "mjs", "py", "rs", "sh", "sql", "ts"];

/// The documents that a line names, and the section that follows one after a comma, in quotation
/// marks.
fn named(line: &str) -> Vec<(&str, Option<&str>)> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(".md") {
        let (before, after) = line.split_at(at + ".md".len());
        let part_of_path = |one: char| one.is_ascii_alphanumeric() || "/._-".contains(one);
        let begin = before.rfind(|one| !part_of_path(one)).map_or(0, |index| index + 1);
        let is_whole = !after.starts_with(|one: char| one.is_ascii_alphanumeric());
        if is_whole && before.len() - begin > ".md".len() {
            let section = after.strip_prefix(", \"").and_then(|rest| rest.split('"').next());
            found.push((&before[begin..], section));
        }
    }
    found
}

/// Whether a file's path ends so, with a heading of this text if one is named.
fn is_there(files: &[String], page: &str, section: Option<&str>) -> bool {
    let end = format!("/{}", page.trim_start_matches(['.', '/']));
    let has_section = |path: &String| {
        let Some(section) = section else { return true };
        let page = fs::read_to_string(tools::workspace().join(path)).unwrap_or_default();
        let mut headings = page.lines().filter(|line| line.starts_with('#'));
        headings.any(|heading| heading.trim_start_matches('#').trim() == section)
    };
    files.iter().filter(|path| format!("/{path}").ends_with(&end)).any(has_section)
}

#[test]
fn every_document_and_section_that_a_comment_names_is_there() -> Result<()> {
    let root = tools::workspace();
    let files = files()?;
    let mut lost = Vec::new();
    let mut seen = 0;
    for file in &files {
        let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending);
        if !COMMENTED.contains(&ending) {
            continue;
        }
        let text = fs::read(root.join(file)).with_context(|| file.clone())?;
        for (index, line) in String::from_utf8_lossy(&text).lines().enumerate() {
            let begin = line.trim_start();
            if !["//", "*", "#", "--"].iter().any(|sign| begin.starts_with(sign)) {
                continue;
            }
            for (page, section) in named(line) {
                seen += 1;
                if !is_there(&files, page, section) {
                    lost.push(format!("{file}:{}: {}", index + 1, line.trim()));
                }
            }
        }
    }
    assert!(seen > 60, "{seen} documents are named");
    assert!(lost.is_empty(), "no such document or section:\n{}", lost.join("\n"));
    Ok(())
}

#[test]
fn a_document_is_found_in_a_line_with_its_section() {
    assert_eq!(
        named("// As token-format.md, \"Version 1\", and (docs/x.md) say."),
        [("token-format.md", Some("Version 1")), ("docs/x.md", None)]
    );
    assert_eq!(named("// *.md and a.mdx are none"), []);
}
