//! The pages of the book keep limits that make them easy to read, and the runbook has an entry for
//! everything that can alarm somebody.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use mailroom_tests::{book, tools};

/// Characters of a line of prose.
const WIDTH: usize = 100;

/// Words of a cell of a table.
const CELL: usize = 25;

/// Words of a paragraph, or of an item of a list.
const PARAGRAPH: usize = 80;

/// Words of prose below one heading.
const SECTION: usize = 150;

/// Words of a page that shows how something is done.
const HOW_TO: usize = 700;

/// Looked up and not read: every situation has its section.
const LOOKED_UP: &str = "operate/runbook.md";

/// The pages that the package brings along.
const OF_THE_PACKAGE: [&str; 3] = [
    "verifier-wasm/npm/README.md",
    "verifier-wasm/npm/REFERENCE.md",
    "verifier-wasm/npm/errors.md",
];

/// What is counted of a page.
#[derive(Debug, Default)]
struct Measure {
    width: usize,
    cell: usize,
    paragraph: usize,
    section: usize,
    total: usize,
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.trim_start_matches(|one: char| one.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || number.len() < line.len() && number.starts_with(". ")
}

/// Code is not counted, neither in fences nor indented.
fn measure(page: &str) -> Measure {
    let mut most = Measure::default();
    let (mut is_code, mut paragraph, mut section) = (false, 0, 0);
    for line in page.lines() {
        let text = line.trim_start();
        let is_indented = line.starts_with("    ") && paragraph == 0;
        if text.starts_with("```") {
            (is_code, paragraph) = (!is_code, 0);
        } else if is_code || text.starts_with("<!--") || is_indented {
        } else if line.starts_with('#') {
            (paragraph, section) = (0, 0);
        } else if line.starts_with('|') {
            paragraph = 0;
            most.cell = most.cell.max(line.split('|').map(words).max().unwrap_or(0));
            most.total += words(line);
        } else {
            most.width = most.width.max(line.chars().count());
            if line.trim().is_empty() || is_item(line) {
                paragraph = 0;
            }
            paragraph += words(line);
            section += words(line);
            most.total += words(line);
            most.paragraph = most.paragraph.max(paragraph);
            most.section = most.section.max(section);
        }
    }
    most
}

/// The limits that a page exceeds.
fn exceeded(name: &str, most: &Measure) -> Vec<&'static str> {
    let is_how_to =
        (name.starts_with("guides/") || name.starts_with("operate/")) && name != LOOKED_UP;
    [
        ("width", most.width > WIDTH),
        ("cell", most.cell > CELL),
        ("paragraph", most.paragraph > PARAGRAPH),
        ("section", most.section > SECTION),
        ("how-to", is_how_to && most.total > HOW_TO),
    ]
    .into_iter()
    .filter_map(|(limit, is_exceeded)| is_exceeded.then_some(limit))
    .collect()
}

#[test]
fn pages_keep_the_limits_of_words() -> Result<()> {
    let docs = tools::workspace().join("docs");
    let mut found = Vec::new();
    let mut pages = book::pages()?;
    for name in book::BEFORE_THE_BOOK.into_iter().chain(OF_THE_PACKAGE) {
        pages.push(tools::workspace().join(name));
    }
    for path in pages {
        let name = path.strip_prefix(&docs).unwrap_or(&path).display().to_string();
        let most = measure(&fs::read_to_string(&path)?);
        let exceeded = exceeded(&name, &most);
        if !exceeded.is_empty() {
            found.push(format!("{name}: {exceeded:?} of {most:?}"));
        }
    }
    ensure!(
        found.is_empty(),
        "a line of prose has at most {WIDTH} characters, a cell {CELL} words, a paragraph \
         {PARAGRAPH}, what is below a heading {SECTION}, a how-to {HOW_TO}. Mend the page:\n{}",
        found.join("\n")
    );
    Ok(())
}

#[test]
fn what_is_counted_of_a_page() {
    let page = "# A title\n\none two\nthree\n\n- four five\n- six\n\n| a | b c |\n|---|---|\n\
                ## Next\n\n```sh\nno words here\n```\n\n    nor here\n\nseven – eight\n";
    let most = measure(page);
    assert_eq!(
        (most.width, most.cell, most.paragraph, most.section, most.total),
        (13, 2, 3, 6, 11)
    );
}

/// The events of warnings and errors below a folder of sources.
fn loud_events(folder: &Path, found: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            loud_events(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            for call in ["tracing::warn!(", "tracing::error!("] {
                let calls = text.split(call).skip(1).map(str::trim_start);
                let named =
                    calls.filter_map(|call| call.strip_prefix("event = \"")?.split_once('"'));
                found.extend(
                    named.map(|(event, _)| event.to_owned()).filter(|event| event != "test"),
                );
            }
        }
    }
    Ok(())
}

#[test]
fn the_runbook_has_an_entry_for_every_alarm_event_and_error() -> Result<()> {
    let runbook = book::page(LOOKED_UP)?;
    let status = book::page("reference/status.md")?;
    let alarms = status.lines().skip_while(|line| !line.starts_with("| alarm ")).skip(2);
    let alarms = alarms.take_while(|line| line.starts_with('|'));
    let mut names: BTreeSet<String> =
        alarms.filter_map(|row| Some(row.split('`').nth(1)?.to_owned())).collect();
    ensure!(names.len() > 10, "only these alarms were found: {names:?}");
    let root = tools::workspace();
    let mut events = BTreeSet::new();
    for folder in ["collector/src", "bounces/src", "crates", "sender/src", "serve/src"] {
        loud_events(&root.join(folder), &mut events)?;
    }
    ensure!(events.len() > 30, "only these events were found: {events:?}");
    names.append(&mut events);
    let errors = fs::read_to_string(root.join("verifier-wasm/npm/errors.md"))?;
    let mut reasons: BTreeSet<String> =
        errors.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_owned).collect();
    ensure!(reasons.len() > 15, "only these errors were found: {reasons:?}");
    names.append(&mut reasons);
    let rows: Vec<&str> = runbook.lines().filter(|line| line.starts_with('|')).collect();
    for name in &names {
        let row = rows.iter().find(|row| row.contains(&format!("`{name}`")));
        let row = row.with_context(|| format!("docs/{LOOKED_UP} has no entry for {name}"))?;
        ensure!(row.contains("](#"), "the entry for {name} leads to no section: {row}");
    }
    // What it lists, and nothing gives any more, would lead nobody anywhere.
    let listed = rows.iter().flat_map(|row| row.split('`').skip(1).step_by(2));
    let is_name = |text: &&str| text.contains('_') && !text.contains([' ', '(']);
    for name in listed.filter(is_name) {
        ensure!(names.contains(name), "docs/{LOOKED_UP} lists {name}, which nothing gives");
    }
    Ok(())
}
