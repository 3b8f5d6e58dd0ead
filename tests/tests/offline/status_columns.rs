//! The columns of `mailroom.status()` get their values by their names.

use std::fs;

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools;

/// A column that a statement of its own reads.
const APART: &str = "budget";

#[test]
fn every_column_of_status_is_the_figure_of_its_name() -> Result<()> {
    let path = tools::workspace().join("migrations/schema/27_status.sql");
    let text = fs::read_to_string(path)?;
    let (_, function) = text.split_once("CREATE FUNCTION mailroom.status(").context("status()")?;
    let (head, rest) = function.split_once("\n)\n").context("its columns")?;
    let (body, _) = rest.split_once("\n$$;").context("its end")?;
    let columns: Vec<&str> =
        head.split("OUT ").skip(1).filter_map(|column| column.split(' ').next()).collect();
    ensure!(columns.len() > 30, "only these columns were found: {columns:?}");

    let lines = body.lines().map(str::trim);
    let given: Vec<_> = lines.filter(|line| line.contains(" := figures.")).collect();
    let wanted: Vec<_> = columns
        .iter()
        .filter(|column| **column != APART)
        .map(|column| format!("{column} := figures.{column};"))
        .collect();
    for line in &wanted {
        ensure!(given.contains(&line.as_str()), "status() lacks `{line}`");
    }
    assert_eq!(given.len(), wanted.len());

    // What is called so stands in the statement once.
    let (query, _) = body.split_once("INTO figures").context("the statement")?;
    for column in columns.iter().filter(|column| **column != APART) {
        let named = format!(" AS {column}");
        let times = query.lines().filter(|line| line.trim_end_matches(',').ends_with(&named));
        assert_eq!(times.count(), 1, "{column}");
    }
    Ok(())
}
