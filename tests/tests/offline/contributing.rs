//! What CONTRIBUTING.md and the pages for contributors name is there, and what they list is all.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use mailroom_tests::{book, tools};

fn read(path: &str) -> Result<String> {
    fs::read_to_string(tools::workspace().join(path)).context(path.to_owned())
}

#[test]
fn the_table_of_the_suite_has_every_part_and_no_other() -> Result<()> {
    let source = read("xtask/src/test.rs")?;
    let (_, rest) = source.split_once("enum Part {\n").context("the parts")?;
    let (body, _) = rest.split_once("\n}").context("the end of the parts")?;
    let parts: BTreeSet<String> = body
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        .filter(|line| line.chars().all(char::is_alphanumeric))
        .map(str::to_lowercase)
        .collect();
    ensure!(parts.len() > 10, "only these parts were found: {parts:?}");

    let page = read("CONTRIBUTING.md")?;
    let (_, rest) = page.split_once("| part | minutes |").context("the table of parts")?;
    let listed: BTreeSet<String> = rest
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .filter_map(|row| Some(row.split('`').nth(1)?.to_owned()))
        .collect();
    assert_eq!(listed, parts);
    Ok(())
}

/// The map of changes has the test below, since it leaves out folders.
#[test]
fn every_path_of_the_pages_for_contributors_exists() -> Result<()> {
    let root = tools::workspace();
    let folders: BTreeSet<String> = fs::read_dir(root)?
        .filter_map(Result::ok)
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "target")
        .collect();
    let mut pages = vec![root.join("CONTRIBUTING.md")];
    pages.extend(book::pages()?.into_iter().filter(|page| {
        page.components().any(|part| part.as_os_str() == "contribute")
            && !page.ends_with("change-map.md")
    }));
    let mut named = 0;
    for page in &pages {
        let text = fs::read_to_string(page)?;
        for path in text.split('`').skip(1).step_by(2) {
            let is_path = path.split_once('/').is_some_and(|(folder, _)| folders.contains(folder));
            // `NAME.rs` is a file that is to be made, `N_….sql` one of several.
            if !is_path || path.contains("NAME") || path.contains(['…', ' ', '\n']) {
                continue;
            }
            ensure!(root.join(path).exists(), "{} names {path}", page.display());
            named += 1;
        }
    }
    ensure!(named > 100, "only {named} paths were found");
    Ok(())
}

/// A path may leave out the folder of the path before it in the same section.
#[test]
fn every_file_that_the_map_of_changes_names_exists() -> Result<()> {
    let root = tools::workspace();
    let map = book::page("contribute/change-map.md")?;
    let mut named = 0;
    for section in map.split("\n## ").skip(1) {
        let mut folders = vec![root.to_owned(), root.join("collector/src")];
        for path in section
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|text| !text.contains(['"', 'C', '_']) || text.contains('.'))
        {
            // A function or table of the schema mailroom is no path.
            let is_path =
                path.contains(['/', '.']) && path != ".sql" && !path.starts_with("mailroom.");
            if !is_path || path.contains("COMMAND") {
                continue;
            }
            let found = folders.iter().map(|folder| folder.join(path)).find(|path| path.exists());
            let found = found.with_context(|| {
                format!("the map names {path}, which does not exist:\n{section}")
            })?;
            folders.insert(
                0,
                if found.is_dir() { found } else { found.parent().context("a file")?.to_owned() },
            );
            named += 1;
        }
    }
    ensure!(named > 40, "only {named} paths were found");
    Ok(())
}

/// Files of the schema are numbered anew when one is added between them.
#[test]
fn what_the_map_of_changes_finds_in_a_file_of_the_schema_is_there() -> Result<()> {
    let root = tools::workspace();
    let map = book::page("contribute/change-map.md")?;
    let mut named = 0;
    let parts: Vec<&str> = map.split('`').collect();
    // What stands between two of them is text.
    for window in parts.windows(3).skip(1).step_by(2) {
        let [name, between, file] = window else { continue };
        let file = file.strip_prefix("migrations/schema/").unwrap_or(file);
        let is_in_schema = file.strip_suffix(".sql").is_some_and(|stem| !stem.contains('/'));
        if between.trim() != "in" || !is_in_schema {
            continue;
        }
        let path = root.join("migrations/schema").join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("the map names {file}"))?;
        let wanted = format!("mailroom.{}", name.trim_start_matches("mailroom."));
        let is_defined = ["FUNCTION", "TABLE", "VIEW"]
            .iter()
            .any(|kind| text.contains(&format!("CREATE {kind} {wanted}")));
        ensure!(is_defined, "the map looks for {name} in {file}, which does not define it");
        named += 1;
    }
    ensure!(named > 15, "only {named} were found");
    for (number, line) in map.lines().enumerate() {
        let mut numbers = line.split("` ").skip(1).filter_map(|rest| rest.get(..2));
        let is_numbered = numbers.any(|two| two.bytes().all(|byte| byte.is_ascii_digit()));
        ensure!(!is_numbered, "line {} names a file of the schema by its number", number + 1);
    }
    Ok(())
}
