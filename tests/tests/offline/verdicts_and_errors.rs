//! The page of verdicts and errors lists what the schema and the package can answer, and no more.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use mailroom_tests::{book, tools};

const PAGE: &str = "reference/verdicts-and-errors.md";

/// The names in the first cells of the page's tables.
fn listed(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned())).collect()
}

/// The values of the type `mailroom.verdict`.
fn verdicts() -> Result<BTreeSet<String>> {
    let file = tools::workspace().join("migrations/schema/18_redeem.sql");
    let text = fs::read_to_string(file)?;
    let (_, rest) = text.split_once("CREATE TYPE mailroom.verdict AS ENUM (").context("a type")?;
    let (values, _) = rest.split_once(");").context("an end")?;
    Ok(values.split('\'').skip(1).step_by(2).map(str::to_owned).collect())
}

/// The errors of the package, each with whose fault it is.
fn errors() -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(tools::workspace().join("verifier-wasm/npm/errors.md"))?;
    let sections = text.split("\n### ").skip(1);
    sections
        .map(|section| {
            let (name, rest) = section.split_once('\n').context("a name")?;
            let (head, _) = rest.split_once(": ").context("whose fault it is")?;
            let fault = head.rsplit(", ").next().context("a word")?;
            Ok((name.to_owned(), fault.to_owned()))
        })
        .collect()
}

#[test]
fn the_page_lists_every_verdict_and_error_and_no_other() -> Result<()> {
    let page = book::page(PAGE)?;
    let errors = errors()?;
    let mut expected = verdicts()?;
    ensure!(expected.len() >= 7 && errors.len() >= 20, "{expected:?} {errors:?}");
    expected.extend(errors.iter().map(|(name, _)| name.clone()));
    let listed = listed(&page);
    let missing: Vec<_> = expected.difference(&listed).collect();
    let surplus: Vec<_> = listed.difference(&expected).collect();
    ensure!(missing.is_empty() && surplus.is_empty(), "missing {missing:?}, surplus {surplus:?}");
    for (name, fault) in errors {
        ensure!(page.contains(&format!("| `{name}` | {fault} |")), "{name} is of the {fault}");
    }
    Ok(())
}
