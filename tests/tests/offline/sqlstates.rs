//! The lists of SQLSTATEs in TypeScript are those of `mailroom_connect::sqlstate`.

use std::fs;

use anyhow::{Context, Result};
use mailroom_connect::sqlstate::{REPEATABLE, UNDONE, UNKNOWN};
use mailroom_tests::tools;
use tokio_postgres::error::SqlState;

const FAILURE: &str = "verifier-wasm/npm/src/database/failure.ts";
const TROUBLE: &str = "web-demo/origin/trouble.ts";
const STORE: &str = "verifier-wasm/npm/src/entries/stores/postgres.ts";

/// A regular expression of codes and of the beginnings of codes.
fn expression(list: &[&str]) -> String {
    format!("/^(?:{})/", list.join("|"))
}

fn text(sqlstate: &SqlState) -> String {
    format!("\"{}\"", sqlstate.code())
}

fn array(list: &[&str]) -> String {
    let quoted: Vec<_> = list.iter().map(|entry| format!("\"{entry}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

/// Each file that has a list, how its line begins, and the value.
fn lists() -> [(&'static str, &'static str, String); 10] {
    [
        (FAILURE, "const REPEATABLE = ", array(&REPEATABLE)),
        (FAILURE, "const UNDONE = ", expression(&UNDONE)),
        (FAILURE, "const UNKNOWN = ", expression(&UNKNOWN)),
        (TROUBLE, "const UNDONE = ", expression(&UNDONE)),
        (TROUBLE, "const UNKNOWN = ", expression(&UNKNOWN)),
        (STORE, "const CONFLICTS: readonly unknown[] = ", array(&REPEATABLE)),
        (STORE, "const UNDEFINED_TABLE = ", text(&SqlState::UNDEFINED_TABLE)),
        (STORE, "const UNDEFINED_COLUMN = ", text(&SqlState::UNDEFINED_COLUMN)),
        (STORE, "const INSUFFICIENT_PRIVILEGE = ", text(&SqlState::INSUFFICIENT_PRIVILEGE)),
        (STORE, "const DISK_FULL = ", text(&SqlState::DISK_FULL)),
    ]
}

#[test]
fn the_lists_of_typescript_are_those_of_rust() -> Result<()> {
    for (file, start, value) in lists() {
        let path = tools::workspace().join(file);
        let text = fs::read_to_string(&path)?;
        let has_start = |line: &&str| line.starts_with(start);
        let line = text.lines().find(has_start).with_context(|| format!("{start}in {file}"))?;
        let expected = format!("{start}{value};");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, text.replace(line, &expected))?;
        } else {
            assert_eq!(line, expected, "{file}; UPDATE=1 writes it");
        }
    }
    Ok(())
}
