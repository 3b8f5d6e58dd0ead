//! The commands of the documents work as they stand.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mailroom_tests::book;
use mailroom_tests::postgres::Database;
use mailroom_tests::program::mailroom;
use mailroom_tests::tools;

/// Every file that people read, by its path in the repository.
fn documents() -> Result<Vec<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut documents = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "migrations/README.md"]
        .map(|name| root.join(name))
        .to_vec();
    documents.append(&mut book::pages()?);
    Ok(documents)
}

/// What stands in fences of `language`, also in those of an item of a list. What a reader has done
/// before stands in a comment: `<!-- before: COMMAND -->`.
fn fenced(document: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let text = line.trim_start();
        if text.strip_prefix("```") == Some(language) {
            let indent = line.len() - text.len();
            let block = lines.by_ref().take_while(|line| line.trim_start() != "```");
            let block: Vec<&str> = block.map(|line| line.get(indent..).unwrap_or("")).collect();
            blocks.push(block.join("\n"));
        } else if let Some(command) = text.strip_prefix("<!-- before: ") {
            blocks.push(command.trim_end_matches(" -->").to_owned());
        }
    }
    blocks
}

/// Runs the shell blocks of one document one after the other, as a reader would,
/// against a new database.
fn follow(document: &Path) -> Result<usize> {
    let blocks = fenced(&std::fs::read_to_string(document)?, "sh");
    if blocks.is_empty() {
        return Ok(0);
    }
    // A page that does not migrate is for who has done so.
    let migrates = blocks.iter().any(|block| block.contains("mailroom migrate up"));
    let database = if migrates { Database::create()? } else { Database::migrated()? };
    let folder = tempfile::tempdir()?;
    let program = mailroom()?;
    let programs =
        Path::new(program.get_program()).parent().context("a program lies in a folder")?.to_owned();
    let path = env::join_paths(
        [programs].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    )?;
    let output = Command::new("bash")
        .args(["-e", "-u", "-o", "pipefail", "-c", &blocks.join("\n")])
        .current_dir(&folder)
        .env("PATH", path)
        .env("MAILROOM_DATABASE_URL", database.url())
        .output()
        .context("bash cannot be started")?;
    ensure!(
        output.status.success(),
        "the commands of {} end with {}:\n{}{}",
        document.display(),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(blocks.len())
}

#[test]
fn every_command_of_the_documents_succeeds() -> Result<()> {
    let mut followed = 0;
    for document in documents()? {
        followed += follow(&document)?;
    }
    // A block in a fence that is spelt otherwise would be left out in silence.
    ensure!(followed == 18, "{followed} blocks of commands were found in the documents, not 18");
    Ok(())
}

/// The events that the collector's sources name.
fn events_of(folder: &Path) -> Result<BTreeSet<String>> {
    let mut events = BTreeSet::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if path.is_dir() {
            events.append(&mut events_of(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)?;
            let named = text.split("event = \"").skip(1).filter_map(|rest| rest.split('"').next());
            events.extend(named.filter(|event| *event != "test").map(str::to_owned));
            for call in
                ["error!(", "warn!(", "info!(", "debug!("].map(|level| format!("tracing::{level}"))
            {
                let mut fields = text.split(&call).skip(1).map(str::trim_start);
                ensure!(
                    fields.all(|fields| fields.starts_with("event")),
                    "no event in {}",
                    path.display()
                );
            }
        }
    }
    Ok(events)
}

#[test]
fn every_event_of_the_log_is_documented() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (folder, page, least) in
        [("collector", "reference/log.md", 20), ("serve/src", "reference/serve.md", 5)]
    {
        let document = book::page(page)?;
        let events = events_of(&root.join(folder))?;
        ensure!(events.len() > least, "only {events:?} were found in {folder}");
        for event in events {
            ensure!(
                document.contains(&format!("`{event}`")),
                "docs/{page} does not name the event {event}"
            );
        }
    }
    Ok(())
}

/// The anchors of a document: one for each heading, as a forge and mdBook name it.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter(|one| one.is_alphanumeric() || " -_".contains(*one));
        anchors.insert(kept.map(|one| if one == ' ' { '-' } else { one }).collect());
    }
    anchors
}

#[test]
fn links_between_the_documents_lead_to_a_file_and_a_heading_of_it() -> Result<()> {
    for document in documents()? {
        let text = std::fs::read_to_string(&document)?;
        let folder = document.parent().context("a document lies in a folder")?;
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.clone() } else { folder.join(path) };
            ensure!(target.exists(), "{} links to {link}", document.display());
            let is_page = target.extension().is_some_and(|extension| extension == "md");
            ensure!(
                fragment.is_empty()
                    || !is_page
                    || anchors(&std::fs::read_to_string(&target)?).contains(fragment),
                "{} links to {link}, and there is no such heading",
                document.display()
            );
        }
    }
    Ok(())
}

#[test]
fn every_page_is_in_the_table_of_contents() -> Result<()> {
    let contents = book::page("SUMMARY.md")?;
    let docs = tools::workspace().join("docs");
    for page in book::pages()? {
        let name = page.strip_prefix(&docs)?.display().to_string();
        let is_listed = name == "SUMMARY.md" || contents.contains(&format!("]({name})"));
        ensure!(is_listed, "docs/SUMMARY.md does not list {name}");
    }
    Ok(())
}
